"""The unit of work, and the words and SQL ground that everyone stands on."""
