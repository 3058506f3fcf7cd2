"""A training run: its task, its recipe, its loop and what it writes down."""
