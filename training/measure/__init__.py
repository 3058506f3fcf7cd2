"""Metrics and error rates of a network, with confidence intervals."""
