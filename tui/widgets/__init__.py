"""The widgets of the live screens, and the drawing behind them."""
