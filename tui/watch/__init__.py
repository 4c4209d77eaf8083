"""The screens of a machine alone."""
