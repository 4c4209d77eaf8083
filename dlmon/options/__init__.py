"""The options of a run: one table that the command line, the forms and the settings read."""
