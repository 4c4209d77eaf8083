"""Numbers to words; imports neither Textual nor Rich."""
