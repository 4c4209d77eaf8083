"""What this machine offers, and what is missing."""
