"""A training run: task, recipe, loop and logs."""
