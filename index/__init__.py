"""Embeddings to people, durably."""
