"""Keys and encrypted files."""
