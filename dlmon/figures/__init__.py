"""Figures of sessions, machines, hosts, sweeps and comparisons, and the sentences about them."""
