"""Results as HTML; all untrusted text is escaped here and nowhere else."""
