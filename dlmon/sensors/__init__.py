"""The sensors process: what the hardware does, as one record each interval.

One file reads one source (`cpu`, `memory`, `nvidia`, ...) behind the small
interface in `provider`; `sampler` joins them and `__main__` keeps the time.
"""
