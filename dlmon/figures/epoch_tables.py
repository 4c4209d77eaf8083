"""What a report says of loops, epochs and profiles, and of what metrics came to."""

from __future__ import annotations

from collections.abc import Sequence

from dlmon.figures import profiles, units
from dlmon.figures.epochs import steps_asked_for
from dlmon.figures.learning import value_text
from dlmon.figures.loops import HEADINGS, NUMERIC, loop_rows
from dlmon.figures.sections import Table
from dlmon.records import Epoch, Model, Profile
from dlmon.session.metric_figures import MetricFigure
from dlmon.session.snapshot import Snapshot

MOST_EPOCHS, MOST_LOOPS = 1000, 100
_METRICS = 6


def loop_table(snapshot: Snapshot, most: int = MOST_LOOPS) -> Table | None:
    """Return one row for each of several loops."""
    rows, left = loop_rows(snapshot, most)
    return Table(HEADINGS, tuple(rows), NUMERIC, left, "Loops") if rows else None


def profile_table(profile: Profile) -> tuple[str, Table]:
    """Return what was profiled, and one row per operation."""
    said = profiles.profile_text(profile)
    if profile.operations is None:
        said = f"{said}: {profiles.why_no_operations(profile)}"
    rows = tuple(profiles.operation_rows(profile))
    return said, Table(profiles.HEADINGS, rows, (False, True, True, True, True))


def metric_table(figures: Sequence[MetricFigure], each: str) -> Table | None:
    """Return one row per metric, of what it came to; `each` is what an epoch is called."""
    if not figures:
        return None
    rows = tuple(
        (
            figure.name,
            value_text(figure.final, figure.why),
            "–" if figure.best is None else units.metric(figure.best),
            "–" if figure.best_epoch is None else str(figure.best_epoch + 1),
        )
        for figure in figures
    )
    headings = ("metric", "last", "best", f"best in {each}")
    return Table(headings, rows, (False, True, True, True), heading="Metrics")


def epoch_metrics(epochs: Sequence[Epoch]) -> list[str]:
    """Return the names of what was reported of epochs, in the order they came."""
    return list(dict.fromkeys(name for epoch in epochs for name in epoch.metrics))


def epoch_table(epochs: Sequence[Epoch], model: Model | None) -> Table | None:
    """Return one row per epoch that has ended; one of as many steps as were asked for isn't cut."""
    if not epochs:
        return None
    metrics = epoch_metrics(epochs)[:_METRICS]
    rows = []
    for epoch in epochs[:MOST_EPOCHS]:
        validation = epoch.validation
        cut = not epoch.whole and not steps_asked_for(epoch, model)
        values = (epoch.metrics.get(name) for name in metrics)
        rows.append(
            (
                f"{epoch.epoch + 1}{' (cut)' if cut else ''}",
                units.seconds((epoch.end - epoch.begin) / 1e9),
                units.seconds((epoch.train_end - epoch.begin) / 1e9),
                units.seconds(validation.took_s) if validation else "–",
                "–" if epoch.samples is None else f"{epoch.samples:,}",
                *("–" if value is None else units.metric(value) for value in values),
            )
        )
    headings = ("epoch", "in all", "training", "validation", "samples", *metrics)
    left_out = max(0, len(epochs) - MOST_EPOCHS)
    return Table(headings, tuple(rows), (True,) * len(headings), left_out, "Epochs")
