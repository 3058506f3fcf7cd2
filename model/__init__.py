"""From pixels to a calibrated decision, independent of storage, web and training."""

__version__ = "0.2.0"
