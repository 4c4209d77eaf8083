"""Where the fold of a long log can begin: what a session had come to at times."""
