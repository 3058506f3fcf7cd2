"""PostgreSQL connections, and the state that servers of one gallery share."""
