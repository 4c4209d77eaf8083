"""The checks of `dlmon doctor`."""
