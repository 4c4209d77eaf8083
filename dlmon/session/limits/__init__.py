"""What limits a run: its rules, what shows each, and what to try."""
