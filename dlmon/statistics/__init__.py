"""What times mean. Pure; the standard library only."""
