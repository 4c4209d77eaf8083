"""Output without a screen."""
