"""Network input: pictures, aligned crops and features, with caching and augmentation."""
