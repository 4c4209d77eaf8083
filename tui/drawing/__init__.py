"""Rows of text: charts, digits, axes."""
