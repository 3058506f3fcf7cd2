"""Distillation, and operations on whole networks: averaging, levelling, overlap."""
