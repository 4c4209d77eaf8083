"""The commands of dlmon."""
