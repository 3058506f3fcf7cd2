"""The building blocks of the tabs."""
