"""What was measured, to look at: plots, pages, the model card."""
