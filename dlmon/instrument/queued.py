"""The events that the training thread queues: batches and what happens between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from dlmon.instrument.keras_data import BatchSizes
from dlmon.records import NOT_NUMBERS, Metrics, NamedPause, Record, Validation, finite

# A pause is a phase of its own from this long on: epochs of milliseconds would flood the log.
MIN_PAUSE_NS = 250_000_000
LEARNING_RATE, GRADIENT_NORM = "learning_rate", "grad_norm"
# Shorter pauses with a name are left out.
LEAST_NAMED_NS = 50_000_000
# Pauses of one name within this time are one.
_SAME_PAUSE_NS = 10_000_000
# Of more metrics, the first ones are read.
MOST_METRICS = 16


@dataclass(frozen=True)
class EpochStart:
    """The training thread entered an epoch.

    Attributes:
        sizes: the number of batches due and the size of each; None if batches are measured.
        stride: Keras's steps_per_execution.
        phase: the phase that follows compilation, from the end of the first batch on.
        capped: whether the epoch is not a whole one.
        follows: whether it follows another epoch of the same fit; then an `EpochOpened` comes.
        steps: the number of batches due, if `sizes` don't tell; None if only the end tells.
        skipped: the number of batches skipped at its beginning.
    """

    epoch: int
    t: int
    sizes: BatchSizes | None = None
    stride: int = 1
    phase: str = "training"
    capped: bool = False
    follows: bool = False
    steps: int | None = None
    skipped: int = 0


@dataclass(frozen=True)
class EpochOpened:
    """The first batch of an epoch that `follows` another is about to run."""

    t: int


@dataclass(frozen=True)
class Interruption:
    """Something else ran during the batch under way; the batch doesn't count that time."""

    t: int
    end: int


@dataclass(frozen=True)
class Pause:
    """A phase of its own begins, unless something else is sent soon."""

    t: int
    phase: str
    epoch: int | None = None


@dataclass(frozen=True)
class ProfiledSteps:
    """A profiler begins or stops watching the steps."""

    on: bool


@dataclass(frozen=True)
class EpochEnd:
    """The training thread left an epoch; all its batches are queued.

    Attributes:
        metrics: the framework's metrics, as it gives them.
        samples: the number of samples, if that is known better than batch by batch.
    """

    epoch: int
    t: int
    metrics: Mapping[str, Any]
    cut: bool
    validation: Validation | None = None
    samples: int | None = None


@dataclass(frozen=True)
class EpochChanged:
    """An addition to the epoch that ended last; its record is written again.

    Attributes:
        cut: whether its validation was cut short.
        is_whole: whether it was not cut: the next epoch is left after as many steps.
        end: the end of its loop, if that ended later.
        metrics: metrics to add.
        was_awaited: whether they take the place of metrics that a GPU still computed.
    """

    epoch: int
    validation: Validation | None = None
    cut: bool = False
    is_whole: bool = False
    end: int = 0
    metrics: Mapping[str, Any] = field(default_factory=dict)
    was_awaited: bool = False


def awaited(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metrics that a GPU still computes."""
    return {
        name: value
        for name, value in metrics.items()
        if not getattr(value, "is_there", lambda: True)()
    }


@dataclass(frozen=True)
class MetricsRead:
    """Metrics as a framework gives them: tensors may not be computed yet."""

    t: int
    metrics: Mapping[str, Any]

    def record(self) -> Metrics | None:
        """Return a record of the numbers among them; None if there is none."""
        names = [name for name in self.metrics if isinstance(name, str)][:MOST_METRICS]
        try:
            values, why = finite({name: self.metrics[name] for name in names})
        except Exception:  # noqa: BLE001 - whatever a framework raises, its training goes on
            return None
        for name in [name for name, reason in why.items() if reason not in NOT_NUMBERS]:
            del values[name], why[name]
        return Metrics(self.t, values, why=why) if values else None


class MeasuredBatch(NamedTuple):
    """A batch of a script's own loop, or several that ended together.

    Attributes:
        samples: the size; one for each of several batches; None if unknown.
        wait_ns: the time waited for data; None if that can't be measured.
        updates: the optimizer steps that ended in it; None if unknown.
        tokens: the tokens, in the form of `samples`.
    """

    end_ns: int
    samples: int | tuple[int, ...] | None = None
    wait_ns: int | None = None
    updates: int | None = None
    tokens: int | tuple[int, ...] | None = None


def joined(last: NamedPause, pause: NamedPause) -> NamedPause | None:
    """Return two pauses as one if the second continues or contains the first; else None."""
    if (last.name, last.beside) != (pause.name, pause.beside):
        return None
    if pause.t > last.end + _SAME_PAUSE_NS:
        return None
    written_bytes = [p.written_bytes for p in (last, pause) if p.written_bytes is not None]
    return replace(
        pause,
        t=min(last.t, pause.t),
        end=max(last.end, pause.end),
        written_bytes=sum(written_bytes) if written_bytes else None,
        folder=last.folder or pause.folder,
        reason=last.reason or pause.reason,
        graph_breaks=(last.graph_breaks or 0) + (pause.graph_breaks or 0) or None,
    )


# The training thread queues the end of a batch, a mark, or a finished record.
Mark = (
    EpochStart
    | EpochOpened
    | EpochEnd
    | EpochChanged
    | Interruption
    | Pause
    | ProfiledSteps
    | MetricsRead
)
Queued = int | MeasuredBatch | Mark | Record
