"""Aligned crop to unit vector."""
