"""Images and labels to a model bundle."""
