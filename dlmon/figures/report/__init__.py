"""Reports as sections that have no format yet."""
