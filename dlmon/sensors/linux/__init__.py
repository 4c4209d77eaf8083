"""What the kernel says of the machine, in /proc and /sys."""
