"""The networks that dlmon trains itself."""
