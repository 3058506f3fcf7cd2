"""What the REST API takes and gives, every field described."""
