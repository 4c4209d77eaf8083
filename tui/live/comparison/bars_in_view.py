"""Which of the comparison bars are in view where not all have room: this run's always is."""

from __future__ import annotations

from collections.abc import Sequence

from tui.live.comparison.bar_rows import BarRow


def scrolled_to(bars: Sequence[BarRow], first: int, shown: int) -> list[int]:
    """Return the indices of `shown` bars from `first` on; this run takes the nearest one's place.

    Before the last ones it stops, so that all rows are taken.
    """
    total, this = len(bars), _this_run(bars)
    first = min(first, max(0, total - shown))
    indices = [*range(first, min(first + shown, total))]
    if this is not None and this not in indices:
        indices[0 if this < first else -1] = this
    return indices


def around(index: int, first: int, shown: int, total: int) -> list[int]:
    """Return the indices of `shown` bars, the one of `index` among them: from `first` if can be."""
    first = first_in_view(index, first, shown, total)
    return [*range(first, min(first + shown, total))]


def around_this_run(bars: Sequence[BarRow], first: int, shown: int) -> list[int]:
    """Return the indices of `shown` bars around this run's, which is among them.

    So is what the headline compares with, and then the published ones next to this run.
    """
    total, this = len(bars), _this_run(bars)
    first = first_around(this, first, shown, total)
    indices = [*range(first, min(first + shown, total))]
    if this is None:
        return indices
    kept = list(dict.fromkeys([this, *_in_headline(bars), *_published_beside(bars, this)]))[:shown]
    if set(kept) <= set(indices):
        return indices
    others = sorted(set(range(total)) - set(kept), key=lambda index: abs(index - this))
    return sorted((*kept, *others[: shown - len(kept)]))


def _this_run(bars: Sequence[BarRow]) -> int | None:
    return next((i for i, row in enumerate(bars) if row.style == "this"), None)


def _in_headline(bars: Sequence[BarRow]) -> list[int]:
    """Return the bars that the headline compares with, in the order of its sentences."""
    places = [
        (row.headline_place, i) for i, row in enumerate(bars) if row.headline_place is not None
    ]
    return [index for _, index in sorted(places)]


def _published_beside(bars: Sequence[BarRow], this: int) -> list[int]:
    """Return the published bars nearest to this run's: the faster, then the slower."""
    published = [i for i, row in enumerate(bars) if row.style in ("published", "own") and row.alike]
    above = [index for index in published if index < this][-1:]
    return above + [index for index in published if index > this][:1]


def first_in_view(this_run: int | None, first: int, shown: int, total: int) -> int:
    """Return the first row to show: `first` where it can stay, else this run in the middle."""
    last_first = max(0, total - shown)
    first = min(first, last_first)
    if this_run is None or first <= this_run < first + shown:
        return first
    return min(max(0, this_run - shown // 2), last_first)


def first_around(this_run: int | None, first: int, shown: int, total: int) -> int:
    """Return the first row to show around this run: `first` where it can stay.

    Where this run is near the top or the end, that is in view, whatever was before.
    """
    if this_run is not None:
        last_first = max(0, total - shown)
        middle = this_run - shown // 2
        if not 0 < middle < last_first:
            return min(max(0, middle), last_first)
    return first_in_view(this_run, first, shown, total)
