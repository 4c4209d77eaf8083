"""The widgets of one machine, shared by home, live and watch."""
