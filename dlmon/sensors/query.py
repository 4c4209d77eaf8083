"""A query: a field of a GPU, and the functions that read it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Reader = Callable[..., Any]
IMPOSSIBLE = "the driver reported an impossible value"


class Query:
    """A field, its readers (the newest call first), and the range of plausible values."""

    def __init__(
        self, name: str, *readers: Reader, within: tuple[float, float] | None = None
    ) -> None:
        self.name = name
        self.readers = readers
        self._within = within

    def check(self, value: Any) -> None:
        """Refuse an implausible number, such as the all-ones of "not available".

        Raises:
            ValueError: `value` is one.
        """
        if self._within is not None and not self._within[0] <= value <= self._within[1]:
            raise ValueError(IMPOSSIBLE)
