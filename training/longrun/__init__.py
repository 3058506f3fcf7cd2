"""Teach a student the geometry of its teachers in one long run that can stop at any moment."""
