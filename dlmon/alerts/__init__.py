"""Alerts for a person who isn't watching the session."""
