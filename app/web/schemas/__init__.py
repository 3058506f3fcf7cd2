"""Schemas of the REST API's requests and responses."""
