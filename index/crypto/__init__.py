"""Keys, and files encrypted with them."""
