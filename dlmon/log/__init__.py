"""Sessions as files on disk."""
