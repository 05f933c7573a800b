"""Small programs that show one idea each; every one runs by itself on SQLite."""
