"""The screen of several machines, a card each, and of one of them in full."""
