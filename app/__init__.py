"""The application: web page, REST API and command line."""
