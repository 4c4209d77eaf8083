"""The data sets of the workloads."""
