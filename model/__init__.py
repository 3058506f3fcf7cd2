"""Pixels to a calibrated decision. Knows no storage, no web, no training."""

__version__ = "0.2.0"
