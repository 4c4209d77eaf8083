"""Figures of two runs or sides beside each other, and the sentences about them."""
