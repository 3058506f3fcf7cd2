"""Turn images and labels into a model bundle."""
