"""Lists of sessions: recorded ones, the newest, and the last of each workload."""
