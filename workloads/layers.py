"""The layers of a network, and analytic counts of its weights and floating-point operations.

A multiply-add counts as 2. Only layers that multiply by weights count:
activations, pooling, normalization, embeddings, biases and the optimizer are
left out, and a padded convolution counts the products with its zeros too.

Training on a sample is three such passes: the forward pass, the gradient of
the weights, and the gradient of the input, each as many operations as the
first. What reads the sample itself, not the output of layers with weights,
needs no gradient of its input. A recurrent layer there still needs that of its
recurrent product: its state carries the gradient back through time.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import Protocol

from dlmon.records.record import record

Shape = tuple[int, ...]


class Layer(Protocol):
    """What a layer does to one sample of `shape` (without the batch axis)."""

    def output_shape(self, shape: Shape) -> Shape:
        """Return the shape of what it gives."""
        ...

    def parameters(self, shape: Shape) -> int:
        """Count its weights, those that aren't trained too."""
        ...

    def forward_flops(self, shape: Shape) -> int:
        """Count the operations of the forward pass."""
        ...

    def train_flops(self, shape: Shape, input_gradient: bool) -> int:
        """Count the operations of all passes, with or without the gradient of its input."""
        ...


class _Uncounted:
    """A layer that multiplies by no weights."""

    def parameters(self, shape: Shape) -> int:
        return 0

    def forward_flops(self, shape: Shape) -> int:
        return 0

    def train_flops(self, shape: Shape, input_gradient: bool) -> int:
        return 0


@record(frozen=True)
class Conv2D:
    """A square-kernel convolution with bias, channels last.

    Attributes:
        padding: `same`, `valid`, or so many zeros around the image.
    """

    filters: int
    kernel_size: int
    strides: int = 1
    padding: str | int = "same"
    activation: str | None = "relu"

    def output_shape(self, shape: Shape) -> Shape:
        height, width = _slid(shape, self.kernel_size, self.strides, self.padding)
        return height, width, self.filters

    def parameters(self, shape: Shape) -> int:
        return (self.kernel_size**2 * shape[-1] + 1) * self.filters

    def forward_flops(self, shape: Shape) -> int:
        return 2 * prod(self.output_shape(shape)) * self.kernel_size**2 * shape[-1]

    def train_flops(self, shape: Shape, input_gradient: bool) -> int:
        return self.forward_flops(shape) * (3 if input_gradient else 2)


@record(frozen=True)
class MaxPool2D(_Uncounted):
    """Pooling over squares of `pool_size`, side by side unless `strides` says otherwise.

    Attributes:
        padding: as of a convolution; what is padded is never the largest.
    """

    pool_size: int
    strides: int | None = None
    padding: str | int = "valid"

    def output_shape(self, shape: Shape) -> Shape:
        strides = self.pool_size if self.strides is None else self.strides
        return *_slid(shape, self.pool_size, strides, self.padding), shape[-1]


@record(frozen=True)
class GlobalAveragePool(_Uncounted):
    """The mean of each channel, over all pixels or all steps of a sequence."""

    of_steps: bool = False

    def output_shape(self, shape: Shape) -> Shape:
        return shape[-1:]


@record(frozen=True)
class Flatten(_Uncounted):
    """All of a sample's values in one row."""

    def output_shape(self, shape: Shape) -> Shape:
        return (prod(shape),)


@record(frozen=True)
class Dropout(_Uncounted):
    """In training, a share of the values is left out."""

    rate: float

    def output_shape(self, shape: Shape) -> Shape:
        return shape


@record(frozen=True)
class BatchNormalization(_Uncounted):
    """A scale and an offset a channel, beside the running mean and variance."""

    def output_shape(self, shape: Shape) -> Shape:
        return shape

    def parameters(self, shape: Shape) -> int:
        """Count all four, though only scale and offset are trained."""
        return 4 * shape[-1]


@record(frozen=True)
class Dense:
    """A fully connected layer with bias, rectified unless it is the last."""

    units: int

    def output_shape(self, shape: Shape) -> Shape:
        return (self.units,)

    def parameters(self, shape: Shape) -> int:
        (inputs,) = shape
        return (inputs + 1) * self.units

    def forward_flops(self, shape: Shape) -> int:
        (inputs,) = shape
        return 2 * inputs * self.units

    def train_flops(self, shape: Shape, input_gradient: bool) -> int:
        return self.forward_flops(shape) * (3 if input_gradient else 2)


@record(frozen=True)
class Embedding(_Uncounted):
    """A row of `units` weights for each of `vocabulary` ids: looked up, not multiplied."""

    vocabulary: int
    units: int

    def output_shape(self, shape: Shape) -> Shape:
        return *shape, self.units

    def parameters(self, shape: Shape) -> int:
        return self.vocabulary * self.units


@record(frozen=True)
class LSTM:
    """A long short-term memory of one bias, which gives its last output.

    Attributes:
        bidirectional: another one reads the sequence from its end, and gives
            as many units more.
    """

    units: int
    bidirectional: bool = False

    def output_shape(self, shape: Shape) -> Shape:
        """Return the number of units of all directions."""
        return (self._directions * self.units,)

    def parameters(self, shape: Shape) -> int:
        """Count kernel, recurrent kernel and bias of the four gates."""
        return self._directions * 4 * self.units * (shape[-1] + self.units + 1)

    def forward_flops(self, shape: Shape) -> int:
        """Count one sample's multiply-adds over all steps, each as 2."""
        return self._product_flops(shape, shape[-1]) + self._product_flops(shape, self.units)

    def train_flops(self, shape: Shape, input_gradient: bool) -> int:
        """Count all passes; the recurrent product always needs its input's gradient."""
        of_input = self._product_flops(shape, shape[-1])
        recurrent = self._product_flops(shape, self.units)
        return of_input * (3 if input_gradient else 2) + recurrent * 3

    @property
    def _directions(self) -> int:
        return 2 if self.bidirectional else 1

    def _product_flops(self, shape: Shape, inputs: int) -> int:
        """Count the product of `inputs` values with the weights of four gates, step by step."""
        return self._directions * shape[0] * 2 * inputs * 4 * self.units


@record(frozen=True)
class Branches:
    """Chains of layers that read the same input; their outputs are joined by channels."""

    branches: tuple[tuple[Layer, ...], ...]

    def output_shape(self, shape: Shape) -> Shape:
        """Return the shape of each branch but for the channels, which add up."""
        shapes = [count(shape, branch).output_shape for branch in self.branches]
        return *_only({shape[:-1] for shape in shapes}), sum(shape[-1] for shape in shapes)

    def parameters(self, shape: Shape) -> int:
        return sum(count(shape, branch).parameters for branch in self.branches)

    def forward_flops(self, shape: Shape) -> int:
        return sum(count(shape, branch).forward_flops for branch in self.branches)

    def train_flops(self, shape: Shape, input_gradient: bool) -> int:
        """Add the branches up; each starts from the same input."""
        return sum(count(shape, branch, input_gradient).train_flops for branch in self.branches)


@record(frozen=True)
class Residual:
    """A chain of layers whose output is added to its input, or to that of a shortcut."""

    layers: tuple[Layer, ...]
    shortcut: tuple[Layer, ...] = ()

    def output_shape(self, shape: Shape) -> Shape:
        return _only({count(shape, side).output_shape for side in (self.layers, self.shortcut)})

    def parameters(self, shape: Shape) -> int:
        return self._sides.parameters(shape)

    def forward_flops(self, shape: Shape) -> int:
        return self._sides.forward_flops(shape)

    def train_flops(self, shape: Shape, input_gradient: bool) -> int:
        """Add both sides up; each starts from the same input."""
        return self._sides.train_flops(shape, input_gradient)

    @property
    def _sides(self) -> Branches:
        return Branches((self.layers, self.shortcut))


@record(frozen=True)
class Counts:
    """What a network holds, and what one sample costs in floating-point operations."""

    parameters: int
    forward_flops: int
    train_flops: int
    output_shape: Shape


def count(input_shape: Shape, layers: Iterable[Layer], input_gradient: bool = False) -> Counts:
    """Count a chain of layers for one sample of `input_shape` (without the batch axis).

    `input_gradient` says that layers with weights come before the chain.
    """
    shape = input_shape
    parameters = forward = train = 0
    for layer in layers:
        forward += layer.forward_flops(shape)
        train += layer.train_flops(shape, input_gradient or parameters > 0)
        parameters += layer.parameters(shape)
        shape = layer.output_shape(shape)
    return Counts(parameters, forward, train, shape)


def _slid(shape: Shape, window: int, strides: int, padding: str | int) -> tuple[int, int]:
    """Return at how many heights and widths a window stops on its way over an image."""
    height, width, _ = shape
    if padding == "same":
        return -(-height // strides), -(-width // strides)
    around = 0 if padding == "valid" else 2 * int(padding)
    return (height + around - window) // strides + 1, (width + around - window) // strides + 1


def _only(shapes: set[Shape]) -> Shape:
    if len(shapes) != 1:
        raise ValueError(f"branches of different shapes can't be joined: {sorted(shapes)}")
    return shapes.pop()
