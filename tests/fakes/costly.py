"""Parameters of which all but one cost more than CI has time for."""

from __future__ import annotations

from collections.abc import Iterable

import pytest


def with_costly(values: Iterable[str], *, but: str) -> list[object]:
    """Return parameters that are marked costly, but for one that every run of the tests takes."""
    marked = pytest.mark.costly
    return [value if value == but else pytest.param(value, marks=marked) for value in values]
