"""A Milvus index on a server."""
