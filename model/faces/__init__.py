"""Photo -> aligned, assessed faces."""
