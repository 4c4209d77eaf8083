"""Steady state, means and intervals of durations. Pure; the standard library only."""
