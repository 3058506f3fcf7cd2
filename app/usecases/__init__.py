"""The use-cases, one module each, and the result types they return."""
