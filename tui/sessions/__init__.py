"""The screen that lists what was recorded."""
