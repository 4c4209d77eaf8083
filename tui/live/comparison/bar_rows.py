"""The rows of a comparison as its bars show them: names, values and lengths."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Literal, NamedTuple

from dlmon.comparison.compare import ComparisonRow
from dlmon.figures import units
from dlmon.figures.comparison import Reference, busy_said_once, row_of
from dlmon.figures.value_axis import bar_fractions

BarStyle = Literal["published", "own", "earlier", "this"]


@dataclass(frozen=True)
class BarRow:
    """One row. `fraction` is of the longest bar, None where there is no number to draw.

    `detail` is dropped first where the row is narrow; `badge` says what a person
    should know of the value, and goes below the bars where it has no room beside
    them. One that is not `alike` was measured with other work: what differs, its
    badge, takes the place of the bar. `more` has a place only in a wide row. What
    the headline compares with has a place in it, from 0, and is in view before its
    neighbours.
    """

    label: str
    fraction: float | None
    value: str
    detail: str = ""
    style: BarStyle = "published"
    badge: str = ""
    more: tuple[str, ...] = ()
    alike: bool = True
    is_reference: bool = False
    headline_place: int | None = None


class Legend(NamedTuple):
    """What there is to say of all bars at once.

    Attributes:
        logarithmic: whether that is their scale.
        of_all: what is so of each run.
        heading: the sentence above the bars; it is not repeated below.
    """

    logarithmic: bool = False
    of_all: str = ""
    heading: str = ""


NO_LEGEND = Legend()


def legend_of(rows: Sequence[ComparisonRow], heading: str = "") -> Legend:
    """Return what there is to say of all rows of a comparison at once."""
    _, of_all = busy_said_once(rows)
    return Legend(_is_logarithmic(rows), of_all, heading)


def bar_rows(
    rows: Sequence[ComparisonRow],
    names: Mapping[str, str],
    reference: Reference | None = None,
    in_headline: Sequence[Reference] = (),
) -> tuple[BarRow, ...]:
    """Return the rows of a comparison as they are drawn.

    `names` are those of earlier sessions, `reference` what was chosen to compare with, and
    `in_headline` what the headline compares with, in the order of its sentences.

    A run that has no figure to be compared stands above all others, without a bar. What their
    `legend` says of all runs is not in their badges.
    """
    rows, _ = busy_said_once(rows)
    fractions = _fractions(rows)
    labels = _published_labels([row for row in rows if row.kind == "published"])
    drawn = []
    referred = row_of(rows, reference)
    places = {row_of(rows, each): place for place, each in enumerate(in_headline)}
    # What others cost then is worth a column where this run has a price as well.
    priced = any(row.kind == "this" and row.cost_usd is not None for row in rows)
    if rows and not any(row.kind == "this" for row in rows):
        drawn.append(BarRow(label="this run", fraction=None, value="–", style="this"))
    for row in rows:
        published = row.kind == "published"
        label = labels[row] if published else names.get(row.session or "", row.label)
        source = row.published.source if row.published else ""
        drawn.append(
            BarRow(
                label=label,
                fraction=fractions.get(row),
                value=("~" if row.projected else "") + units.duration(row),
                detail=str(row.year or "") if published else "",
                style="own" if row.published and row.published.own else row.kind,  # type: ignore[arg-type]
                # The mark before the value says that it is projected.
                badge="; ".join(b for b in row.badges if not b.startswith("projected")),
                more=(*([_cost(row)] if priced else ()), row.framework or "", source),
                alike=row.comparable,
                is_reference=row is referred,
                headline_place=places.get(row),
            )
        )
    return tuple(drawn)


def _cost(row: ComparisonRow) -> str:
    return "" if row.cost_usd is None else units.dollars(row.cost_usd)


def _fractions(rows: Sequence[ComparisonRow]) -> dict[ComparisonRow, float]:
    """Return the length of each bar: of rows that are alike, and only where there are several."""
    alike = [row for row in rows if row.comparable]
    if len(alike) < 2:
        return {}
    return dict(zip(alike, bar_fractions([row.value for row in alike]), strict=True))


def _is_logarithmic(rows: Sequence[ComparisonRow]) -> bool:
    fractions = _fractions(rows)
    longest = max((row.value for row in fractions), default=0.0)
    return any(
        not math.isclose(fraction * longest, row.value) for row, fraction in fractions.items()
    )


def _published_labels(
    rows: Sequence[ComparisonRow],
) -> dict[ComparisonRow, str]:
    """Return short names of devices that still differ from row to row.

    What stands in brackets goes, where all of that name have the same there; of
    several measurements of a device, what their frameworks don't share is added.
    """
    devices = {row: units.device(row.label) for row in rows}
    same_name: dict[str, list[ComparisonRow]] = defaultdict(list)
    for row, device in devices.items():
        same_name[device.partition(" (")[0]].append(row)
    labels = {}
    for name, group in same_name.items():
        if len({devices[row] for row in group}) > 1:
            labels.update({row: devices[row] for row in group})
            continue
        frameworks = [(row.framework or "").split() for row in group]
        shared = _shared_words(frameworks)
        for row, words in zip(group, frameworks, strict=True):
            own = " ".join(words[shared:])
            labels[row] = f"{name}, {own}" if own else name
    return labels


def _shared_words(texts: Sequence[Sequence[str]]) -> int:
    """Return with how many words all texts begin alike."""
    return next(
        (i for i, words in enumerate(zip_longest(*texts)) if len(set(words)) > 1),
        max(map(len, texts)),
    )
