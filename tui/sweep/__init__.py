"""The screens of a sweep."""
