"""What runs inside the trained process: the standard library only, and Python 3.10 syntax."""
