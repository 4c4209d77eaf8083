"""Which processes compute, and what they take."""
