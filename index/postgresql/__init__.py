"""Connections to PostgreSQL, and what servers of one gallery share beside its people."""
