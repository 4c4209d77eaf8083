"""The screen on which a workload is chosen."""
