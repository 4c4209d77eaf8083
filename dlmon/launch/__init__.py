"""Start processes that end with us."""
