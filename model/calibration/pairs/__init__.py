"""The pairs of a photo collection: their scores, counted for each person, and the worst of them."""
