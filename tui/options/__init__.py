"""The options of a run."""
