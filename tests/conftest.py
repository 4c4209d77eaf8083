"""Settings that every test shares."""

from hypothesis import settings

# Two noisy cores: a slow example is no failure.
settings.register_profile("dlmon", deadline=None)
settings.load_profile("dlmon")
