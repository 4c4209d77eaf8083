"""Two sides of runs beside each other, as `dlmon compare` prints them."""
