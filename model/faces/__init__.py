"""Detect, align and assess the faces of a photo."""
