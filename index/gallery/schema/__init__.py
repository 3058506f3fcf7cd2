"""The tables of each database, and their migrations."""
