"""Readings of a machine, of its processes and of other hosts as people read them."""
