"""Which columns of a table of epochs have room: each metric beside that of its validation. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size

from dlmon.figures import units
from dlmon.records import Epoch
from dlmon.session.epoch_comparison import seconds_of
from dlmon.session.learning import importance, metric_of
from tui.widgets.rows import fit

GAP = 2
SHORTEST_BAR, LONGEST_BAR = 6, 24
BAR_HEADING = "bar"
_LONGEST_NAME = 16
_USUAL_METRIC, _USUAL_TIME = 6, 6

EpochColumn = tuple[str, list[str]]
"""A heading and its cells."""


class EpochColumns(NamedTuple):
    """The columns that have room, in the order that they stand, and how many metrics have none."""

    columns: list[EpochColumn]
    left_out: int


def columns_of(
    epochs: Sequence[Epoch],
    number_of: Callable[[Epoch], str],
    width: int,
    ellipsis: str,
) -> EpochColumns:
    """Return the columns of some epochs that have room in so many cells.

    The bar gives way first, then whole metrics, each with that of its validation; the loss last.

    Args:
        epochs: those in view.
        number_of: returns the number of an epoch, with its mark.
        width: what all columns have together.
        ellipsis: what a heading ends with that was cut.
    """
    number = ("#", [number_of(epoch) for epoch in epochs])
    time = ("time", [f"{units.seconds(seconds_of(one)):>{_USUAL_TIME}}" for one in epochs])
    kept = [number, time]
    taken = sum(map(_column_width, kept)) - GAP

    def has_room(columns: Sequence[EpochColumn]) -> bool:
        return taken + sum(map(_column_width, columns)) <= width

    metric_names = _metrics_of(epochs)
    headings = _headings([name for names in metric_names for name in names], ellipsis)
    groups = [
        [_metric_column(epochs, name, headings[name], ellipsis) for name in names]
        for names in metric_names
    ]
    metrics: list[EpochColumn] = []
    left_out = 0
    for place, group in enumerate(groups):
        fits = has_room(group)
        # Of the first one, half is better than nothing.
        shown = group if fits else group[:1] if place == 0 and has_room(group[:1]) else []
        left_out += len(group) - len(shown)
        metrics += shown
        taken += sum(map(_column_width, shown))
    bar = (BAR_HEADING, [" " * SHORTEST_BAR for _ in epochs])
    val = ("val time", [f"{_validation_time(epoch):>{_USUAL_TIME}}" for epoch in epochs])
    speed = ("samples/s", [samples_per_second_of(epoch) for epoch in epochs])
    wanted = [bar, *([val] if any(epoch.validation for epoch in epochs) else []), speed]
    others = []
    for column in wanted if not left_out else [bar]:
        if not has_room([column]):
            break
        others.append(column)
        taken += _column_width(column)
    order = [number, time, *(c for c in others if c is not speed), *metrics]
    return EpochColumns([*order, *(c for c in others if c is speed)], left_out)


def _metrics_of(epochs: Sequence[Epoch]) -> list[list[str]]:
    """Return the names of the metrics, each with those of its validation: the loss first."""
    # Of all of them: one that was cut short has no metrics of a validation.
    names = dict.fromkeys(name for epoch in epochs for name in epoch.metrics)
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(metric_of(name)[0], []).append(name)
    ordered = sorted(groups.items(), key=lambda group: importance(group[0]))
    return [sorted(group, key=lambda name: metric_of(name)[1]) for _, group in ordered]


def _column_width(column: EpochColumn) -> int:
    heading, cells = column
    return GAP + max(map(cell_len, (heading, *cells)))


def _headings(names: Sequence[str], ellipsis: str) -> dict[str, str]:
    """Return what stands over each metric: no two alike, and else as short as may be."""
    spellings = {
        name: (
            _cut(_short(name), ellipsis),
            _cut_inside(_short(name), ellipsis),
            _cut_inside(name, ellipsis),
            name,
        )
        for name in names
    }
    chosen = dict.fromkeys(names, 0)
    while True:
        headings = {name: spellings[name][at] for name, at in chosen.items()}
        uses = Counter(headings.values())
        alike = [name for name in names if uses[headings[name]] > 1 and headings[name] != name]
        if not alike:
            return headings
        for name in alike:
            chosen[name] += 1


def _metric_column(epochs: Sequence[Epoch], name: str, heading: str, ellipsis: str) -> EpochColumn:
    cells = [_cut(f"{_metric(one, name):>{_USUAL_METRIC}}", ellipsis) for one in epochs]
    return heading, cells


def _validation_time(epoch: Epoch) -> str:
    validation = epoch.validation
    return units.seconds(validation.took_s) if validation else "–"


def samples_per_second_of(epoch: Epoch) -> str:
    """Write the throughput of an epoch without its validation; a dash where it isn't known."""
    train_s = (epoch.train_end - epoch.begin) / 1e9
    known = epoch.samples is not None and train_s > 0
    return units.rate((epoch.samples or 0) / train_s) if known else "–"


def _metric(epoch: Epoch, name: str) -> str:
    value = epoch.metrics.get(name)
    return epoch.why.get(name, "–") if value is None else units.metric(value)


def _short(name: str) -> str:
    metric, is_validation = metric_of(name)
    if is_validation:
        # As Keras says it, whatever a framework calls it.
        name = f"val_{metric}"
    for kind in ("sparse_categorical_", "categorical_", "binary_"):
        name = name.replace(f"{kind}accuracy", "acc")
    return name.replace("accuracy", "acc")


def _cut(text: str, ellipsis: str) -> str:
    if cell_len(text) <= _LONGEST_NAME:
        return text
    return fit(text, _LONGEST_NAME, ellipsis)


def _cut_inside(text: str, ellipsis: str) -> str:
    """Keep the beginning and the end of a text that is too long."""
    if cell_len(text) <= _LONGEST_NAME:
        return text
    room = _LONGEST_NAME - cell_len(ellipsis)
    end = text
    while cell_len(end) > room // 2:
        end = end[1:]
    return set_cell_size(text, room - room // 2) + ellipsis + end
