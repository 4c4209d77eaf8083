"""The operating system's side: processes, signals, control groups and private files."""
