"""The table of the quantities of a session: names, units, and how two sessions are compared.

To add a quantity, add a field to `Snapshot` and `Result`, or a reading of a GPU, and a row here:
then summaries, lists, comparisons, reports and `--json` have it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Protocol

from dlmon.records import RunSeconds, SecondsPerEpoch, Throughput
from dlmon.records.record import record
from dlmon.records.words import SAMPLES_PER_S, STEPS_PER_S, TOKENS_PER_S

SAMPLES_PER_SECOND, STEPS_PER_SECOND = "samples_per_second", "steps_per_second"
TOKENS_PER_SECOND = "tokens_per_second"
STEP_MS = "step_ms"
MEASURED_PEAK_PCT, PRINTED_PEAK_PCT = "measured_peak_pct", "printed_peak_pct"
"""Shares of the measured peak and of the maker's peak, which can't be compared with each other."""
RUN_CORES, OTHER_CORES = "run_cores", "other_cores"
"""The mean numbers of cores used in steady training, by the run and by other programs."""

Place = Literal["summary", "details", "live"]
"""The summary of a session, its details below the list of sessions, or the live screen."""


@record(frozen=True)
class Quantity:
    """A quantity of a session.

    Attributes:
        key: its name in logs and JSON, and its path in a snapshot or a result, such as
            `step_ms.median`; column names have underscores in place of dots.
        name: its name on screen; empty if the unit says it.
        unit: the unit of its text; empty for a plain number.
        less_is_better: None if neither more nor less is better.
        per: the unit of work that its value grows with: an epoch, a run or a batch.
        has_ratio: compare it by its ratio; False for values near 0, whose ratio says little.
        is_compared: compare runs by it.
        is_reported: make it a column of the table of sessions, and a figure of JSON.
        is_listed: make it a column in the list of sessions.
        shown_in: the places that show its name and its value alone.
        parts: further values to report, such as its band.
        readings: the statistic over the readings of steady training.
        gpu: for a reading of the GPUs that train, its field in `Gpu` and the statistic over
            several GPUs.
        label: for an activity of a busy GPU, its name among the readings of that GPU.
        number_format: the format of its number, if not that of its unit.
    """

    key: str
    name: str = ""
    unit: str = ""
    less_is_better: bool | None = True
    per: Literal["", "epoch", "run", "batch"] = ""
    has_ratio: bool = True
    is_compared: bool = True
    is_reported: bool = False
    is_listed: bool = False
    shown_in: tuple[Place, ...] = ()
    parts: tuple[str, ...] = ()
    readings: Literal["", "mean", "max"] = ""
    gpu: tuple[str, Literal["mean", "sum", "max"]] | None = None
    label: str = ""
    number_format: str = ""

    @property
    def title(self) -> str:
        """The name with the unit, such as "GPU busy, %"."""
        return ", ".join(filter(None, (self.name, self.unit)))


def _of_machine(
    key: str,
    name: str,
    unit: str = "%",
    readings: Literal["mean", "max"] = "mean",
    gpu: tuple[str, Literal["mean", "sum", "max"]] | None = None,
    is_compared: bool = True,
    label: str = "",
) -> Quantity:
    """Return a reading of the machine; less is better only for a maximum."""
    less = True if readings == "max" else None
    return Quantity(
        key, name, unit, less, readings=readings, gpu=gpu, is_compared=is_compared, label=label
    )


def _activity(key: str, label: str, name: str = "", is_compared: bool = True) -> Quantity:
    """Return an activity of a busy GPU; `key` is also the name of its reading."""
    return _of_machine(key, name or label, gpu=(key, "mean"), is_compared=is_compared, label=label)


QUANTITIES = (
    Quantity(
        "run_seconds",
        unit="seconds per run without its start",
        per="run",
        is_compared=False,
        is_reported=True,
    ),
    Quantity(STEPS_PER_SECOND, unit=STEPS_PER_S, less_is_better=False, is_compared=False),
    Quantity(STEP_MS, unit="milliseconds per batch", per="batch", is_compared=False),
    Quantity(
        SAMPLES_PER_SECOND,
        unit=SAMPLES_PER_S,
        less_is_better=False,
        is_reported=True,
        is_listed=True,
        parts=("band",),
    ),
    Quantity(
        TOKENS_PER_SECOND,
        unit=TOKENS_PER_S,
        less_is_better=False,
        is_reported=True,
        parts=("band",),
    ),
    Quantity(MEASURED_PEAK_PCT, "of the measured peak", "%", False, number_format="share"),
    Quantity(PRINTED_PEAK_PCT, "of the maker's peak", "%", False, number_format="share"),
    Quantity(
        "seconds_per_epoch",
        unit="seconds per epoch",
        per="epoch",
        is_reported=True,
        parts=("low", "high", "projected"),
    ),
    Quantity("step_ms.median", "median step", "ms", is_reported=True),
    Quantity("step_ms.p95", "95 % of steps", "ms", is_reported=True),
    Quantity("compile_s", "compile", "s", is_reported=True),
    _of_machine("gpu_pct", "GPU busy", gpu=("utilization_pct", "mean")),
    _activity("sm_active_pct", "SM active"),
    _activity("sm_occupancy_pct", "occupancy", is_compared=False),
    _activity("tensor_pct", "tensor cores"),
    _activity("dram_pct", "DRAM bandwidth", "GPU memory bandwidth"),
    _activity("memory_busy_pct", "memory busy", "GPU memory busy"),
    _of_machine("cpu_pct", "CPU busy"),
    Quantity(RUN_CORES, "CPU used", "cores", None, has_ratio=False, readings="mean"),
    Quantity(OTHER_CORES, "other programs", "cores", has_ratio=False, readings="mean"),
    _of_machine("sm_mhz", "GPU clock", "MHz", gpu=("sm_mhz", "mean"), is_compared=False),
    _of_machine("gpu_power_w", "GPU power", "W", gpu=("power_w", "sum")),
    _of_machine("cpu_power_w", "CPU power", "W"),
    Quantity("energy_j_per_epoch.gpu", "GPU", "J per epoch", per="epoch", is_reported=True),
    Quantity("energy_j_per_epoch.cpu", "CPU", "J per epoch", per="epoch", is_reported=True),
    _of_machine("memory_mib", "memory", "GiB", "max"),
    _of_machine("gpu_memory_mib", "GPU memory", "GiB", "max", ("memory_used_mib", "max")),
    Quantity("cost_usd_per_epoch", unit="USD per epoch", per="epoch"),
    Quantity("cost_usd", unit="USD", per="run", is_reported=True),
    Quantity("epochs", "epochs", is_compared=False, is_reported=True),
    Quantity("batches", "batches", is_compared=False, is_reported=True),
    Quantity("stalls", "stalls", is_compared=False, is_reported=True),
    Quantity("wall_s", "wall", "s", is_compared=False, is_reported=True, shown_in=("summary",)),
    Quantity("effective_flop_s", "effective", "FLOP/s", is_compared=False, is_reported=True),
    Quantity("peak_share", "of its peak", "share", is_compared=False, is_reported=True),
    Quantity("not_padding", "not padding", "share", is_compared=False, is_reported=True),
    Quantity("trained_on", "trained on", "share", is_compared=False, is_reported=True),
)
BY_KEY = {quantity.key: quantity for quantity in QUANTITIES}
GPU_ACTIVITY = tuple(
    quantity.key for quantity in QUANTITIES if quantity.label and quantity.is_compared
)
"""Keys of the activities of a busy GPU; most GPUs before Hopper don't report them."""


class Throughputs(Protocol):
    """The throughputs of a snapshot, a result or a loop."""

    @property
    def samples_per_second(self) -> Throughput | None: ...

    @property
    def tokens_per_second(self) -> Throughput | None: ...


def throughputs_of(figures: Throughputs) -> tuple[Throughput, ...]:
    """Return the known steady throughputs: in samples or steps first, then in tokens."""
    measured = figures.samples_per_second, figures.tokens_per_second
    return tuple(rate for rate in measured if rate is not None)


def value_of(figures: object, key: str) -> float | None:
    """Return the number of a quantity in a snapshot or a result; None if it has none."""
    return number_in(measured_value(figures, key))


def number_in(value: Any) -> float | None:
    """Return the number of a value that may have a band: of a throughput, the mean."""
    if isinstance(value, Throughput):
        return value.mean
    return value.value if isinstance(value, SecondsPerEpoch | RunSeconds) else value


def measured_value(figures: object, key: str) -> Any:
    """Return a quantity of a snapshot or a result: a number, or a record with its band."""
    value: Any = figures
    for name in key.split("."):
        value = value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
    return value
