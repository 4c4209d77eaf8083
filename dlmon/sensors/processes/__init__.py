"""Readings of the processes of this machine."""
