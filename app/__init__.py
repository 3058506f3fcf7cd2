"""What people touch: page, REST API, command line."""
