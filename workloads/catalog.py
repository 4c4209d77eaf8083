"""Every workload: its shapes, its defaults, its source.

Opens at once: a picker reads it, so it imports neither Keras nor NumPy.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from workloads.flops import Conv2D, Counts, Dense, Flatten, Layer, MaxPool2D, Shape, count

# More threads than any machine has; a backend that is asked for millions aborts.
MOST_THREADS = 4096
# Beyond this, numbers get too large for a record.
MOST_EPOCHS = MOST_STEPS = 1_000_000_000


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
            included) or `run_seconds` (build, every epoch, final evaluation).
        module: the module whose `build` makes the Keras model.
        dataset: the data set's name in `keras.datasets`.
        input_shape: one sample, without the batch axis.
        layers: the layers with weights and those that change a shape; dropout
            and activations do neither.
        samples: training samples of the full data set.
        validation_samples: how many of the first test samples every epoch
            validates on; None without validation.
        evaluation_samples: test samples that the run ends with; None without one.
    """

    name: str
    family: str
    title: str
    source: str
    metric: str
    module: str
    dataset: str
    input_shape: Shape
    layers: tuple[Layer, ...]
    batch_size: int
    epochs: int
    samples: int
    validation_samples: int | None = None
    evaluation_samples: int | None = None
    precision: str = "float32"
    mode: str = "train"

    @property
    def parameters(self) -> int:
        """Weights and biases of the network."""
        return self._counts.parameters

    @property
    def forward_flops(self) -> int:
        """Floating-point operations of the forward pass of one sample."""
        return self._counts.forward_flops

    @property
    def train_flops(self) -> int:
        """Floating-point operations of training on one sample."""
        return self._counts.train_flops

    @property
    def _counts(self) -> Counts:
        return count(self.input_shape, self.layers)


_HARDWARE_COMPARISON = (
    "yansongsong.cn: deep-learning hardware speed comparison (Keras on TF 1.x, March 2019)"
)
_GPU_SLOWER_THAN_CPU = "CSDN: GPU slower than CPU? (TensorFlow 2.0)"

_ALL = (
    Workload(
        name="cifar10-cnn",
        family="CIFAR-10",
        title="Six convolutions without activations, on 32×32 colour images",
        source=_HARDWARE_COMPARISON,
        metric="seconds_per_epoch",
        module="workloads.cifar10",
        dataset="cifar10",
        input_shape=(32, 32, 3),
        layers=(
            Conv2D(32, 3),
            Conv2D(32, 3),
            MaxPool2D(2),
            Conv2D(64, 3),
            Conv2D(64, 3),
            MaxPool2D(2),
            Conv2D(128, 3),
            Conv2D(128, 3),
            Flatten(),
            Dense(128),
            Dense(10),
        ),
        batch_size=100,
        epochs=10,
        samples=50_000,
        validation_samples=1_000,
    ),
    Workload(
        name="mnist-mlp-small",
        family="MNIST",
        title="One hidden layer of 128 units, on 28×28 digits",
        source=_GPU_SLOWER_THAN_CPU,
        metric="run_seconds",
        module="workloads.mnist",
        dataset="mnist",
        input_shape=(28, 28),
        layers=(Flatten(), Dense(128), Dense(10)),
        batch_size=32,
        epochs=10,
        samples=60_000,
        evaluation_samples=10_000,
    ),
    Workload(
        name="mnist-mlp-wide",
        family="MNIST",
        title="Two hidden layers of 1,000 units, on 28×28 digits",
        source=_GPU_SLOWER_THAN_CPU,
        metric="run_seconds",
        module="workloads.mnist",
        dataset="mnist",
        input_shape=(28, 28),
        layers=(Flatten(), Dense(1000), Dense(1000), Dense(10)),
        batch_size=32,
        epochs=10,
        samples=60_000,
        evaluation_samples=10_000,
    ),
)

WORKLOADS: dict[str, Workload] = {workload.name: workload for workload in _ALL}


def find(name: str) -> Workload:
    """Return the workload of this name.

    Raises:
        UnknownWorkload: there is none; the message names the nearest, or all.
    """
    if name in WORKLOADS:
        return WORKLOADS[name]
    nearest = difflib.get_close_matches(name.lower(), WORKLOADS, n=1)
    if nearest:
        raise UnknownWorkload(f'there is no workload "{name}"; did you mean {nearest[0]}?')
    raise UnknownWorkload(f'there is no workload "{name}"; choose from {", ".join(WORKLOADS)}')


def refuse_options(
    workload: Workload,
    *,
    batch_size: int | None = None,
    epochs: int | None = None,
    steps: int | None = None,
    threads: int | None = None,
) -> str | None:
    """Say in one sentence why these options can't be run; None when they can.

    An option that is None was not given.
    """
    if batch_size is not None and not 1 <= batch_size <= workload.samples:
        return (
            f"the batch size must be from 1 to {workload.samples:,}, "
            f"the samples of {workload.name}, not {batch_size:,}"
        )
    if epochs is not None and epochs < 1:
        return f"the number of epochs must be at least 1, not {epochs:,}"
    if epochs is not None and epochs > MOST_EPOCHS:
        return f"the number of epochs must be at most {MOST_EPOCHS:,}, not {epochs:,}"
    if steps is not None and steps < 1:
        return f"the number of steps must be at least 1, not {steps:,}"
    if steps is not None and steps > MOST_STEPS:
        return f"the number of steps must be at most {MOST_STEPS:,}, not {steps:,}"
    if threads is not None and not 1 <= threads <= MOST_THREADS:
        return f"the number of threads must be from 1 to {MOST_THREADS:,}, not {threads:,}"
    return None
