"""Milvus, on a server."""
