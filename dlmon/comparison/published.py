"""The published times and the user's own, and the metrics that they compare with."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from dlmon.numbers import decimal_number, whole_number
from dlmon.quantities import STEP_MS
from dlmon.records.record import record
from dlmon.records.sanitize import SHOWN_PATH_LENGTH, clean, quoted
from dlmon.system.files import MIB, read_regular

FEWER_OPERATIONS = "over its peak: fast convolutions (Winograd, FFT) do fewer than are counted"

_T = TypeVar("_T")

WEIGHT_UPDATE = "this run's time includes the weight update"
# The published metrics that the time of a batch compares with, by mode, and their differences.
OF_A_STEP: dict[str, dict[str, tuple[str, ...]]] = {
    "train": {"train_step_ms": (), "forward_backward_ms": (WEIGHT_UPDATE,)},
    "gradients": {"forward_backward_ms": ()},
    "inference": {"forward_ms": ()},
}
_MODE_OF_METRIC = {"forward_backward_ms": "gradients", "forward_ms": "inference"}

MIXED = ("mixed_float16", "mixed_bfloat16")
# The precisions in a framework's name; of two in one name the first counts.
PRECISIONS = (*MIXED, "bfloat16", "tf32")

NO_PRECISION = "precision not stated"

# The ResNets of jcjohnson and timm have the stride in the 3×3 convolutions, so they have more
# operations than ours.
MORE_OPERATIONS_PCT = {"resnet50": 6, "resnet101": 3, "resnet152": 2}


@record(frozen=True)
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
    own: bool = False
    """True for the user's own reference figures."""
    differs: str | None = None
    """A difference in its work, or something unknown, that prevents a comparison."""

    @property
    def precision(self) -> str | None:
        """The precision of the arithmetic, from the framework's name; None if not stated."""
        if NO_PRECISION in self.framework:
            return None
        for precision in PRECISIONS:
            if precision in self.framework:
                return precision
        return "float16" if "fp16" in self.framework else "float32"

    @property
    def mode(self) -> str:
        """Its mode, as for `--mode`."""
        return _MODE_OF_METRIC.get(self.metric, "train")

    @property
    def caveats(self) -> tuple[str, ...]:
        """The reasons why the number doesn't stand for this workload on this device."""
        if "CuDNNLSTM" in self.framework:
            return ("fused LSTM kernel",)
        if self.differs:
            return (self.differs,)
        return (self.note,) if self.device_kind == "tpu" else ()

    @property
    def remarks(self) -> tuple[str, ...]:
        """Remarks about the number that don't prevent a comparison."""
        by_timm = "pytorch-image-models" in self.source
        notes = tuple(self.note.split("; ")) if by_timm else ()
        if not self.more_operations_pct:
            return notes
        more = f"{self.more_operations_pct} % more operations (stride in the 3×3)"
        if self.metric == "forward_ms" and not by_timm:
            return (more, "forward in training mode")
        return (more, *notes)

    @property
    def more_operations_pct(self) -> int:
        """The additional operations of its network, in per cent of ours."""
        v1_5 = "jcjohnson" in self.source or "pytorch-image-models" in self.source
        return MORE_OPERATIONS_PCT.get(self.workload, 0) if v1_5 else 0


def published_metrics(metric: str, mode: str | None) -> Mapping[str, tuple[str, ...]]:
    """Return the metrics of `published.csv` that compare with one of ours, and their differences.

    The time of a batch is a forward pass in inference, with the backward pass in gradients mode,
    and a whole step in training; in an unknown mode it may be any.
    """
    if metric != STEP_MS:
        return {metric: ()}
    if mode in OF_A_STEP:
        return OF_A_STEP[mode]
    return {name: badges for metrics in OF_A_STEP.values() for name, badges in metrics.items()}


def published(workload: str) -> tuple[Published, ...]:
    """Return the published times of a workload in all metrics, and the user's own."""
    rows = (*read_table("published.csv", Published), *own_published()[0])
    return tuple(row for row in rows if row.workload == workload)


@cache
def read_table(file: str, kind: type[_T]) -> tuple[_T, ...]:
    """Return the rows of a CSV file of this package; its columns are the fields of `kind`.

    An empty cell becomes None.
    """
    table = Path(__file__).with_name(file).read_text(encoding="utf-8")
    parsers = {"str": str, "int": int, "float": float}
    types = {name: hint.removesuffix(" | None") for name, hint in kind.__annotations__.items()}
    return tuple(
        kind(**{name: parsers[types[name]](text) if text else None for name, text in row.items()})
        for row in csv.DictReader(table.splitlines())
    )


# ---- the user's own reference figures ----

COLUMNS = tuple(spec.name for spec in fields(Published) if spec.name != "own")
_REQUIRED = ("workload", "device", "metric", "value", "batch_size")
_OF_STEPS = sorted({metric for metrics in OF_A_STEP.values() for metric in metrics})
_METRICS = ("seconds_per_epoch", "run_seconds", *_OF_STEPS)
LONGEST_TEXT = 200
LARGEST_FILE = MIB
# The first characters of a formula in a spreadsheet; a quote before them makes it text.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
QUOTE = "'"


class PublishedError(ValueError):
    """Own reference figures can't be read or made; the message is a sentence for the user."""


def own_published_path() -> Path:
    """Return the file of own reference figures: DLMON_PUBLISHED, else beside `config.toml`.

    Raises:
        RuntimeError: there is no home directory.
    """
    path, config = os.environ.get("DLMON_PUBLISHED"), os.environ.get("DLMON_CONFIG")
    if path:
        return Path(path)
    if config:
        return Path(config).with_name("published.csv")
    import platformdirs

    return Path(platformdirs.user_config_path("dlmon", appauthor=False)) / "published.csv"


def own_published() -> tuple[tuple[Published, ...], str | None]:
    """Return the user's current reference figures, and the error if the file is wrong.

    A wrong row invalidates all, so that none is missing without a word.
    """
    try:
        path = own_published_path()
        return (read_own_published(path) if path.exists() else ()), None
    except PublishedError as error:
        return (), str(error)
    except (OSError, RuntimeError):
        return (), None


def read_own_published(path: Path) -> tuple[Published, ...]:
    """Read reference figures in the form of `published.csv`, checked row by row.

    Raises:
        PublishedError: it can't be read, or a row is wrong; the sentence names file and line.
    """
    path_text = clean(str(path), SHOWN_PATH_LENGTH)
    try:
        text = read_regular(path, LARGEST_FILE).decode("utf-8-sig")
    except OSError as error:
        raise PublishedError(f"{path_text} can't be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise PublishedError(f"{path_text} can't be read: it is not UTF-8 text") from None
    rows = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        names = next(rows, [])
        for name in _REQUIRED:
            if name not in names:
                raise ValueError(f"the column {name} is missing in its first line")
        for name in names:
            if name not in COLUMNS or names.count(name) > 1:
                raise ValueError(f"{quoted(name)} is not a column, or is named twice")
        return tuple(_own_row(names, cells) for cells in rows if any(cells))
    except (ValueError, csv.Error) as error:
        line = max(1, rows.line_num)
        raise PublishedError(f"{path_text}, line {line}: {error}") from None


def _own_row(names: list[str], cells: list[str]) -> Published:
    if len(cells) != len(names):
        raise ValueError(f"it has {len(cells)} cells, and the first line names {len(names)}")
    texts = {name: _read_text(cell) for name, cell in zip(names, cells, strict=True)}
    for name in _REQUIRED:
        if not texts[name]:
            raise ValueError(f"{name} is empty")
    if texts["metric"] not in _METRICS:
        raise ValueError(f"{quoted(texts['metric'])} is not a metric: use {', '.join(_METRICS)}")
    numbers: dict[str, Any] = {name: _number(name, texts.get(name)) for name in _NUMBERS}
    return Published(**{**dict.fromkeys(COLUMNS, ""), **texts, **numbers}, own=True)


def _read_text(cell: str) -> str:
    text = clean(cell, LONGEST_TEXT).strip()
    return text[1:] if text.startswith(QUOTE) and is_formula(text[1:]) else text


def is_formula(text: str) -> bool:
    """Return whether a spreadsheet would read a text as a formula."""
    return text.lstrip(" ").startswith(_FORMULA)


_NUMBERS: dict[str, Callable[[str], float]] = {
    "year": whole_number,
    "batch_size": whole_number,
    "vcpus": whole_number,
    "value": decimal_number,
    "price_usd_per_hour": decimal_number,
}


def _number(name: str, text: str | None) -> float | None:
    """Return the number in a cell; for an empty one 0 in `year`, else None."""
    if not text:
        return 0 if name == "year" else None
    try:
        value = _NUMBERS[name](text)
    except (ValueError, OverflowError):
        value = 0
    if not 0 < value < 1e12:
        a_number = "a whole number" if _NUMBERS[name] is whole_number else "a number"
        raise ValueError(f"{name} is {quoted(text)}, which is not {a_number} above 0")
    return value


@record(frozen=True)
class PublishedDevice:
    """One device; a field that its source doesn't state, or that depends on the model, is None.

    Attributes:
        boost_mhz: a GPU's boost clock, a processor's maximum turbo clock.
        tflop_s_float32: the peak at that clock, in 10¹² operations a second: for float32 outside
            Tensor Cores, and for dense matrices (without sparsity) in TF32 and half precision.
        measured_tflop_s_bfloat16: the highest published measurement of a matrix product.
        printed_tflop_s: the peak in the article of that measurement.
        price_usd: the price at launch.
        source: the source of the figures.
        note: a remark.
    """

    name: str
    cores: int | None
    base_mhz: int | None
    boost_mhz: int | None
    memory: str | None
    memory_gb: float | None
    bandwidth_gb_s: float | None
    tflop_s_float32: float | None
    tflop_s_tf32: float | None
    tflop_s_bfloat16: float | None
    tflop_s_float16: float | None
    measured_tflop_s_bfloat16: float | None
    printed_tflop_s: float | None
    price_usd: float | None
    source: str
    note: str | None

    def peak_share(self, flop_s: float, precision: str | None) -> tuple[float | None, str | None]:
        """Return operations per second as a share of the peak, or None and the reason.

        Operations are those of direct convolutions. A library with faster algorithms (cuDNN from
        version 4 on, Nervana's neon) can therefore exceed the device's peak.
        """
        if self.tflop_s_float32 is None:
            return None, self.note or "the peak of this device is not known"
        if precision is None:
            return None, "the precision is not known"
        peak = self.peak_tflop_s(precision)
        if peak is None:
            return None, f"the peak of this device in {precision} is not known"
        share = flop_s / (peak * 1e12)
        return (share, None) if share <= 1 else (None, FEWER_OPERATIONS)

    def peak_tflop_s(self, precision: str) -> float | None:
        """Return the maker's peak in a precision of `--precision` or `tf32`; None if unknown."""
        peak: float | None = getattr(self, f"tflop_s_{precision.removeprefix('mixed_')}", None)
        return peak


def find_device(name: str) -> PublishedDevice | None:
    """Return a device by its name in `published.csv` or in the driver; None if unknown."""
    # Older drivers omit the maker.
    return _devices().get(name) or _devices().get(f"NVIDIA {name}")


@cache
def _devices() -> dict[str, PublishedDevice]:
    return {device.name: device for device in read_table("devices.csv", PublishedDevice)}
