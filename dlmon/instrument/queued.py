"""What the training thread queues: batches, and what happens between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from dlmon.instrument.keras_data import BatchSizes
from dlmon.records import Metrics, NamedPause, Record, Validation, finite

# A pause is a phase of its own from this long on: epochs of milliseconds would flood the log.
MIN_PAUSE_NS = 250_000_000
LEARNING_RATE, GRADIENT_NORM = "learning_rate", "grad_norm"
# Of pauses that have a name, shorter ones are left out.
LEAST_NAMED_NS = 50_000_000
# What follows one of the same name within this time is the same one.
_SAME_PAUSE_NS = 10_000_000
# Of a network with more of them, the first ones are read.
MOST_METRICS = 16


@dataclass(frozen=True)
class EpochStart:
    """The training thread entered an epoch.

    `stride` is Keras's steps_per_execution, `phase` what the compile phase
    turns into with the first batch that ends, and `capped` says that the epoch
    is not a whole one. `follows` another of the same `fit`: an `EpochOpened` comes then.
    `sizes` know how many batches are due, and what is known of each that is no `MeasuredBatch`;
    where they don't, `steps` are due; else the epoch is whole unless its end says that it was cut.
    So many of its batches were `skipped` at its beginning.
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
    """Something else ran within the batch that is under way, which it does not count."""

    t: int
    end: int


@dataclass(frozen=True)
class Pause:
    """What follows is a phase of its own, unless something else is sent soon."""

    t: int
    phase: str
    epoch: int | None = None


@dataclass(frozen=True)
class ProfiledSteps:
    """From here on a profiler watches the steps, or does no more."""

    on: bool


@dataclass(frozen=True)
class EpochEnd:
    """The training thread left an epoch; all its batches are queued.

    `metrics` are what a framework says, as it says it. `samples` is how many it counted, where that
    is known better than batch by batch.
    """

    epoch: int
    t: int
    metrics: Mapping[str, Any]
    cut: bool
    validation: Validation | None = None
    samples: int | None = None


@dataclass(frozen=True)
class EpochChanged:
    """More is known of the epoch that ended last; its record is written again.

    `metrics` are added, but for what `was_awaited` in the place of others; `cut` says that its
    validation was cut short.
    """

    epoch: int
    validation: Validation | None = None
    cut: bool = False
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
    """What a framework says of the training, as it says it: tensors may not be computed yet."""

    t: int
    metrics: Mapping[str, Any]

    def record(self) -> Metrics | None:
        """Return the numbers among them; None where there is none."""
        names = [name for name in self.metrics if isinstance(name, str)][:MOST_METRICS]
        try:
            values, why = finite({name: self.metrics[name] for name in names})
        except Exception:  # noqa: BLE001 - whatever a framework raises, its training goes on
            return None
        for name in [name for name, reason in why.items() if reason not in ("NaN", "infinite")]:
            del values[name], why[name]
        return Metrics(self.t, values, why=why) if values else None


class MeasuredBatch(NamedTuple):
    """A batch of a script's own loop: when it ended, and what is known of it alone.

    `samples` is None where its size is not known, and one for each where several batches ended
    together; `wait_ns` is None where waiting for data can't be measured; `updates` are the steps
    of an optimiser that ended in it. `tokens` are known as samples are.
    """

    end_ns: int
    samples: int | tuple[int, ...] | None = None
    wait_ns: int | None = None
    updates: int | None = None
    tokens: int | tuple[int, ...] | None = None


def joined(last: NamedPause, pause: NamedPause) -> NamedPause | None:
    """Return two pauses as one, where the second goes on, or the first lay in it; else None."""
    if (last.name, last.beside) != (pause.name, pause.beside):
        return None
    if pause.t > last.end + _SAME_PAUSE_NS:
        return None
    written = [each.written_bytes for each in (last, pause) if each.written_bytes is not None]
    return replace(
        pause,
        t=min(last.t, pause.t),
        end=max(last.end, pause.end),
        written_bytes=sum(written) if written else None,
        folder=last.folder or pause.folder,
        reason=last.reason or pause.reason,
        graph_breaks=(last.graph_breaks or 0) + (pause.graph_breaks or 0) or None,
    )


# What the training thread queues: when a batch ended, a mark, or a finished record.
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
