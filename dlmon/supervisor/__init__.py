"""Run one session: the process that starts the workload and writes the log."""
