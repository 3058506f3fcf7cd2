"""The pairs of a photo collection: scores, counts per person, and the worst pairs."""
