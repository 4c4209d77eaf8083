"""The rule of what limits a run that looks at its loss. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from dlmon.records import Epoch
from dlmon.session.learning import LOSS, Metric
from dlmon.session.limits.evidence import Evidence, verb
from dlmon.session.metric_readings import metric_of

NO_NUMBERS = ("NaN", "infinite")
# It overflows from 65,504 on, where float32 and bfloat16 do not.
_OVERFLOW = ("float16", "mixed_float16")


def loss_is_no_number(
    metrics: Mapping[str, Metric],
    epochs: Sequence[Epoch],
    epoch_now: int | None,
    precision: str | None,
    is_script: bool,
    ended: bool,
) -> Evidence | None:
    """Hold when the newest loss of the training is NaN, or infinite.

    Args:
        metrics: what the training said of itself, by what it is of.
        epochs: those that ended.
        epoch_now: the one that is being trained, from 0; None where the loop has none.
        precision: what it computes in.
        is_script: whether it is a person's own, who can change how it trains.
        ended: whether the run is over, so that the words are in the past.
    """
    loss = metrics.get(LOSS)
    if loss is None or loss.newest is not None or loss.why not in NO_NUMBERS:
        return None
    headline = f"The loss {verb(ended, 'is', 'was')} {loss.why}"
    first = _first_epoch(loss, epochs, epoch_now)
    since = () if first is None else (f"from epoch {first + 1:,} on",)
    return Evidence(
        "loss",
        f"loss {loss.why}",
        headline,
        since,
        _advice(precision, is_script, ended),
    )


def _first_epoch(loss: Metric, epochs: Sequence[Epoch], epoch_now: int | None) -> int | None:
    """Return from which epoch on it is no number; None where the epochs do not say it."""
    first = None
    if not epochs or loss.last_ns > epochs[-1].end:
        first = epoch_now
    for epoch in reversed(epochs):
        said = list(_said_of_loss(epoch))
        if not said:
            # What is not known of it may have been as bad.
            return None
        if not all(said):
            return first
        first = epoch.epoch
    return first


def _said_of_loss(epoch: Epoch) -> Iterator[bool]:
    """Yield of each loss that an epoch ended with whether it is no number."""
    for name, value in epoch.metrics.items():
        if metric_of(name) == (LOSS, False):
            yield value is None and epoch.why.get(name) in NO_NUMBERS


def _advice(precision: str | None, is_script: bool, ended: bool) -> str:
    """Return what may keep it a number: how a workload of dlmon's own learns is fixed."""
    overflows = precision in _OVERFLOW
    if not is_script:
        changes = "train in float32" if overflows else ""
    else:
        changes = f"{'float32, ' if overflows else ''}a lower learning rate or gradient clipping"
    if ended:
        return changes
    return f"stop the run: then {changes}" if changes else "stop the run"
