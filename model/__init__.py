"""Pixels to a calibrated decision. Knows no storage, no web, no training."""
