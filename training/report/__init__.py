"""Reports: plots, HTML pages and the model card."""
