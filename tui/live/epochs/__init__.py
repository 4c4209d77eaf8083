"""The epochs of a session: their table, and one of them alone on all charts."""
