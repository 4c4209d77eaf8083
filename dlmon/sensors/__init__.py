"""The sensors process, which writes one record of the hardware each interval.

Each source (`cpu`, `memory`, `nvidia`, ...) implements the interface in `provider`; `sampler`
merges their readings, and `__main__` keeps the time.
"""
