"""Send what a session measures to experiment trackers.

`tracker_address` reads where it goes, `points` makes rows of records, `sink` follows a log and
sends them, and `client` talks to the tracker in a process of its own, in the interpreter that has
the tracker's library.
"""
