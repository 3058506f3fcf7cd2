"""Results as HTML; what came from outside is escaped here and nowhere else."""
