"""This machine as the operating system has it: its processes, signals and private files."""
