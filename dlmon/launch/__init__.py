"""Start supervisors, sensors and workloads: their interpreter, device and pipes."""
