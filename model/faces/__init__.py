"""Photo to aligned, assessed faces."""
