"""Instruments inside the process that trains: the standard library only, Python 3.10 syntax."""
