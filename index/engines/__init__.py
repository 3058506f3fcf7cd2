"""Vector indexes: caches of the gallery's vectors that follow its changes."""
