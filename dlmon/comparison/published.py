"""The published times, and which of them stand beside which of ours."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

STEP_MS = "step_ms"
WEIGHT_UPDATE = "this run's time includes the weight update"
# Which published metrics the time of a batch stands beside, by mode, and what differs from each.
_OF_A_STEP: dict[str, dict[str, tuple[str, ...]]] = {
    "train": {"train_step_ms": (), "forward_backward_ms": (WEIGHT_UPDATE,)},
    "gradients": {"forward_backward_ms": ()},
    "inference": {"forward_ms": ()},
}
_MODE_OF_METRIC = {"forward_backward_ms": "gradients", "forward_ms": "inference"}

# jcjohnson's ResNets stride in the 3×3 convolutions: so many % more operations than ours do.
MORE_OPERATIONS_PCT = {"resnet50": 6, "resnet101": 3, "resnet152": 2}


@dataclass(frozen=True)
class Published:
    """One published time: `value` is in milliseconds for `..._ms`, else in seconds."""

    workload: str
    device: str
    device_kind: str
    framework: str
    year: int
    metric: str
    value: float
    batch_size: int
    vcpus: int | None
    price_usd_per_hour: float | None
    source: str
    note: str

    @property
    def precision(self) -> str:
        """The precision of the arithmetic, read from the framework's name."""
        return "float16" if "fp16" in self.framework else "float32"

    @property
    def mode(self) -> str:
        """What was timed, as `--mode` names it."""
        return _MODE_OF_METRIC.get(self.metric, "train")

    @property
    def caveats(self) -> tuple[str, ...]:
        """What keeps the number from standing for this workload on this device."""
        if "CuDNNLSTM" in self.framework:
            return ("fused LSTM kernel",)
        return (self.note,) if self.device_kind == "tpu" else ()

    @property
    def remarks(self) -> tuple[str, ...]:
        """What a person should know of the number, which still compares."""
        if self.workload not in MORE_OPERATIONS_PCT or "jcjohnson" not in self.source:
            return ()
        share_pct = MORE_OPERATIONS_PCT[self.workload]
        more = f"{share_pct} % more operations (stride in the 3×3)"
        return (more, "forward in training mode") if self.metric == "forward_ms" else (more,)


def published_metrics(metric: str, mode: str | None) -> Mapping[str, tuple[str, ...]]:
    """Return the metrics of `published.csv` that stand beside one of ours, with what differs.

    The time of a batch is a forward pass in inference, with the backward pass where
    gradients are computed, and a whole training step in training; while the mode isn't
    known, it may be any.
    """
    if metric != STEP_MS:
        return {metric: ()}
    if mode in _OF_A_STEP:
        return _OF_A_STEP[mode]
    return {name: badges for each in _OF_A_STEP.values() for name, badges in each.items()}


@cache
def published(workload: str) -> tuple[Published, ...]:
    """Return the published times of a workload, of every metric; none for an unknown one."""
    return tuple(row for row in _every_published() if row.workload == workload)


@cache
def _every_published() -> tuple[Published, ...]:
    table = (
        resources.files("dlmon.comparison").joinpath("published.csv").read_text(encoding="utf-8")
    )
    return tuple(
        Published(
            workload=row["workload"],
            device=row["device"],
            device_kind=row["device_kind"],
            framework=row["framework"],
            year=int(row["year"]),
            metric=row["metric"],
            value=float(row["value"]),
            batch_size=int(row["batch_size"]),
            vcpus=int(row["vcpus"]) if row["vcpus"] else None,
            price_usd_per_hour=(
                float(row["price_usd_per_hour"]) if row["price_usd_per_hour"] else None
            ),
            source=row["source"],
            note=row["note"],
        )
        for row in csv.DictReader(table.splitlines())
    )
