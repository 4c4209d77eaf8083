"""Tell a person who isn't looking what becomes of a session."""
