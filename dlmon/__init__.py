"""dlmon: training speed and hardware on one time axis."""

__version__ = "0.1.0"
