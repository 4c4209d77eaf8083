"""The face of dlmon: command line and terminal screens."""
