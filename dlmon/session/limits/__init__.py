"""The limit of a run: the rules that find it, their evidence, and advice."""
