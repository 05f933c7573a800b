"""The SQL ground: dialects as values, exact column types, the database's clock, reading database errors."""
