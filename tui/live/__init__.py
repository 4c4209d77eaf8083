"""The screen of one session."""
