"""Batch enrollment: many photos from a folder, a CSV or a zip."""
