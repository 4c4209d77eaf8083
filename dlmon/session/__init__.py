"""Fold the records of a session into what is shown of it."""
