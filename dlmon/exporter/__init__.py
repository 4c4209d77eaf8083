"""Serve the figures of sessions and the readings of machines to Prometheus."""
