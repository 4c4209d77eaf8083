"""Readings from the Linux kernel, in /proc and /sys."""
