"""Measurements: ``python -m tests.bench NAME`` prints the table NAME stands for."""
