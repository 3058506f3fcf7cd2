"""Stores people with their embeddings durably, and finds them by face."""
