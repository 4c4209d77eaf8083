"""All workloads, with their shapes, defaults and sources.

The workload picker reads it, so it opens at once: it imports neither Keras nor NumPy.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dlmon.records.sanitize import SHOWN_LENGTH, quoted

# Larger numbers don't fit a record, and a backend that is asked for millions of threads aborts.
# This batch size holds for repeated batches; elsewhere the samples limit it.
MOST = {"batch_size": 65_536, "epochs": 1_000_000_000, "steps": 1_000_000_000, "threads": 4096}

ESTIMATED_VOCABULARY = 1_200_000
"""An estimate of the words and pairs of words in IMDB's reviews; synthetic data have as many."""


class UnknownWorkload(LookupError):
    """No workload has this name; the message suggests one."""


@dataclass(frozen=True)
class Workload:
    """A network, its data, and the settings of its published numbers.

    Attributes:
        name: the name on the command line and in logs.
        family: the name of the data set for display.
        title: a description in one line.
        source: the publication of the network and its numbers.
        metric: the kind of the published numbers: `seconds_per_epoch` (with
            validation), `run_seconds` (build, every epoch, final evaluation), or
            `step_ms` (one batch: forward, forward and backward, or a training step).
        dataset: the data set's name in `workloads.data.load.DATASETS`.
        input_shape: one sample, without the batch axis.
        parameters: all weights, including untrained ones.
        forward_flops: floating-point operations of the forward pass of one sample. A multiply-add
            counts as 2. Only products with weights and those of attention count: convolutions
            with their padding, attention with all pairs of words even if it is causal.
        train_flops: operations of training on one sample: each product counts again for the
            gradient of its weights, and for that of its input unless the input is the sample.
        samples: training samples of the full data set, or of `steps` batches.
        validation_samples: first test samples that every epoch validates on;
            None without validation.
        evaluation_samples: test samples of the final evaluation; None without one.
        steps: batches to time, if the published numbers are not of epochs.
        tokens_per_sample: tokens of every sample, if all have the same number and no padding.
    """

    name: str
    family: str
    title: str
    source: str
    dataset: str
    input_shape: tuple[int, ...]
    parameters: int
    forward_flops: int
    train_flops: int
    batch_size: int
    epochs: int
    samples: int
    metric: str = "seconds_per_epoch"
    validation_samples: int | None = None
    evaluation_samples: int | None = None
    steps: int | None = None
    tokens_per_sample: int | None = None
    precision: str = "float32"
    mode: str = "train"

    def flops_per_sample(self, mode: str) -> int:
        """Return the floating-point operations of one sample.

        The optimizer's are never counted, so `gradients` takes as many as `train`.
        """
        return self.forward_flops if mode == "inference" else self.train_flops


def _read(path: Path) -> Iterator[Workload]:
    """Yield the workloads of a tab-separated table; `-` stands for a field's default."""
    header, *lines = path.read_text("utf-8").splitlines()
    kinds: dict[str, Callable[[str], Any]] = {
        name: str if kind == "str" else _sizes if kind.startswith("tuple") else int
        for name, kind in Workload.__annotations__.items()
    }
    for line in lines:
        fields = zip(header.split("\t"), line.split("\t"), strict=True)
        yield Workload(**{name: kinds[name](text) for name, text in fields if text != "-"})


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split("x")))


WORKLOADS: dict[str, Workload] = {
    workload.name: workload for workload in _read(Path(__file__).with_name("catalog.tsv"))
}


def find(name: str) -> Workload:
    """Return the workload of this name.

    Raises:
        UnknownWorkload: the message names the nearest workloads, or all.
    """
    if name in WORKLOADS:
        return WORKLOADS[name]
    word = name[:SHOWN_LENGTH].lower()
    nearest = [other for other in WORKLOADS if word and other.startswith(word)]
    nearest = nearest or difflib.get_close_matches(word, WORKLOADS, n=1)
    if nearest:
        *others, last = nearest
        names = f"{', '.join(others)} or {last}" if others else last
        raise UnknownWorkload(f"there is no workload {quoted(name)}; did you mean {names}?")
    raise UnknownWorkload(
        f"there is no workload {quoted(name)}; choose from {', '.join(WORKLOADS)}"
    )


def refuse_option(workload: Workload, name: str, value: int | None) -> str | None:
    """Return a sentence that refuses an option's number; None to accept it."""
    has_epochs = workload.steps is None
    most = workload.samples if name == "batch_size" and has_epochs else MOST[name]
    if value is None or 1 <= value <= most:
        return None
    subject, of = f"the number of {name}", ""
    if name == "batch_size":
        subject = "the batch size"
        of = f", the samples of {workload.name}" if has_epochs else ""
    return f"{subject} must be from 1 to {most:,}{of}, not {value:,}"
