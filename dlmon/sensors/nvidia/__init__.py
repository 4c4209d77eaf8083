"""NVIDIA GPUs, as NVML describes them."""
