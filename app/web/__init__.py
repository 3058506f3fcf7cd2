"""The REST API and the server."""
