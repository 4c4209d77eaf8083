"""Other hosts over ssh: their readings, their sessions, and runs that are started there."""
