"""Sweeps: many runs with varied options, planned, recorded, resumed and compared."""
