"""Vector indexes: caches that follow the gallery."""
