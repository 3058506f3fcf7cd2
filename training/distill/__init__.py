"""A teacher's geometry for a student, and what else is done to whole networks."""
