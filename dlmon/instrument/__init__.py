"""What runs inside the trained process; the standard library only."""
