"""What people ask for: one module a use-case, and the values they answer with."""
