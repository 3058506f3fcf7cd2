"""What networks are fed: pictures, aligned crops and features, kept and augmented."""
