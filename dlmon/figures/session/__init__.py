"""Figures of one session or of a list of them, and the sentences about them."""
