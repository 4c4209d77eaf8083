"""The files of sessions and sweeps on disk."""
