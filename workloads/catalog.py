"""Every workload: its shapes, its defaults, its source.

Opens at once: a picker reads it, so it imports neither Keras nor NumPy.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dlmon.records.sanitize import SHOWN_LENGTH, quoted

# Larger numbers get too large for a record; and of threads no machine has more, and a backend that
# is asked for millions aborts.
# Where batches are repeated, any size goes that memory holds.
MOST = {"batch_size": 65_536, "epochs": 1_000_000_000, "steps": 1_000_000_000, "threads": 4096}

ESTIMATED_VOCABULARY = 1_200_000
"""Words and pairs of words in IMDB's reviews: an estimate, which synthetic data keep to."""


class UnknownWorkload(LookupError):
    """No workload has this name; the message is a sentence that suggests one."""


@dataclass(frozen=True)
class Workload:
    """One network, its data, and the settings that its published numbers were taken with.

    Attributes:
        name: what a command line and a log call it.
        family: the data set, as a person writes it.
        title: what it is, in one line.
        source: where the network and its published numbers come from.
        metric: what these numbers are: `seconds_per_epoch` (validation
            included), `run_seconds` (build, every epoch, final evaluation), or
            `step_ms` (one batch: forward, forward and backward, or a training step).
        dataset: the data set's name in `workloads.data.load.DATASETS`.
        input_shape: one sample, without the batch axis.
        parameters: all weights, those that aren't trained too.
        forward_flops: floating-point operations of the forward pass of one sample. A multiply-add
            counts as 2, and only products with weights count, of a convolution with its zeros too,
            and of attention those of all pairs of words, also where it looks back only.
        train_flops: those of training on one sample: for each product another one for the gradient
            of the weights, and one for that of its input, unless that is the sample itself.
        samples: training samples of the full data set, or of `steps` batches.
        validation_samples: how many of the first test samples every epoch
            validates on; None without validation.
        evaluation_samples: test samples that the run ends with; None without one.
        steps: batches to time, where the published numbers know no epochs; else None.
        tokens_per_sample: words of a text, where every sample has as many and none pads.
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
        """Return the floating-point operations of one sample in a mode of `run`.

        An optimizer's operations are never counted, so gradients take as many as training.
        """
        return self.forward_flops if mode == "inference" else self.train_flops


def _read(path: Path) -> Iterator[Workload]:
    """Yield the workloads of a table: a line each, with a tab between the fields of `Workload`.

    What is `-` there is left as it is by default.
    """
    header, *lines = path.read_text("utf-8").splitlines()
    kinds: dict[str, Callable[[str], Any]] = {
        name: str if kind == "str" else _sizes if kind.startswith("tuple") else int
        for name, kind in Workload.__annotations__.items()
    }
    for line in lines:
        given = zip(header.split("\t"), line.split("\t"), strict=True)
        yield Workload(**{name: kinds[name](text) for name, text in given if text != "-"})


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split("x")))


WORKLOADS: dict[str, Workload] = {
    workload.name: workload for workload in _read(Path(__file__).with_name("catalog.tsv"))
}


def find(name: str) -> Workload:
    """Return the workload of this name.

    Raises:
        UnknownWorkload: there is none; the message names the nearest, or all.
    """
    if name in WORKLOADS:
        return WORKLOADS[name]
    word = name[:SHOWN_LENGTH].lower()
    nearest = [known for known in WORKLOADS if word and known.startswith(word)]
    nearest = nearest or difflib.get_close_matches(word, WORKLOADS, n=1)
    if nearest:
        *others, last = nearest
        meant = f"{', '.join(others)} or {last}" if others else last
        raise UnknownWorkload(f"there is no workload {quoted(name)}; did you mean {meant}?")
    raise UnknownWorkload(
        f"there is no workload {quoted(name)}; choose from {', '.join(WORKLOADS)}"
    )


def refuse_option(workload: Workload, name: str, value: int | None) -> str | None:
    """Say in one sentence why a number can't be run; None where it can, or was not given."""
    has_epochs = workload.steps is None
    most = workload.samples if name == "batch_size" and has_epochs else MOST[name]
    if value is None or 1 <= value <= most:
        return None
    subject, of = f"the number of {name}", ""
    if name == "batch_size":
        subject = "the batch size"
        of = f", the samples of {workload.name}" if has_epochs else ""
    return f"{subject} must be from 1 to {most:,}{of}, not {value:,}"
