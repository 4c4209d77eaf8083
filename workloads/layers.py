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


@record(frozen=True)
class Counts:
    """What layers give and hold, and what one sample costs in floating-point operations.

    Attributes:
        output_shape: of what they give for a sample, without the batch axis.
        parameters: all weights, those that aren't trained too.
        forward_flops: operations of the forward pass.
        train_flops: operations of all passes.
    """

    output_shape: Shape
    parameters: int = 0
    forward_flops: int = 0
    train_flops: int = 0


class Layer(Protocol):
    """What a layer does to one sample."""

    def count(self, shape: Shape, input_gradient: bool) -> Counts:
        """Count it for a sample of `shape`, without the batch axis.

        `input_gradient` says that training needs the gradient of its input.
        """
        ...


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

    def count(self, shape: Shape, input_gradient: bool) -> Counts:
        height, width = _slid(shape, self.kernel_size, self.strides, self.padding)
        inputs = self.kernel_size**2 * shape[-1]
        forward = 2 * height * width * self.filters * inputs
        return Counts(
            (height, width, self.filters),
            (inputs + 1) * self.filters,
            forward,
            forward * (3 if input_gradient else 2),
        )


@record(frozen=True)
class MaxPool2D:
    """Pooling over squares of `pool_size`, side by side unless `strides` says otherwise.

    Attributes:
        padding: as of a convolution; what is padded is never the largest.
    """

    pool_size: int
    strides: int | None = None
    padding: str | int = "valid"

    def count(self, shape: Shape, input_gradient: bool) -> Counts:
        strides = self.pool_size if self.strides is None else self.strides
        return Counts((*_slid(shape, self.pool_size, strides, self.padding), shape[-1]))


@record(frozen=True)
class GlobalAveragePool:
    """The mean of each channel, over all pixels or all steps of a sequence."""

    of_steps: bool = False

    def count(self, shape: Shape, input_gradient: bool) -> Counts:
        return Counts(shape[-1:])


@record(frozen=True)
class Flatten:
    """All of a sample's values in one row."""

    def count(self, shape: Shape, input_gradient: bool) -> Counts:
        return Counts((prod(shape),))


@record(frozen=True)
class Dropout:
    """In training, a share of the values is left out."""

    rate: float

    def count(self, shape: Shape, input_gradient: bool) -> Counts:
        return Counts(shape)


@record(frozen=True)
class BatchNormalization:
    """A scale and an offset a channel, beside the running mean and variance."""

    def count(self, shape: Shape, input_gradient: bool) -> Counts:
        """Count all four weights of a channel, though only scale and offset are trained."""
        return Counts(shape, 4 * shape[-1])


@record(frozen=True)
class Dense:
    """A fully connected layer with bias, rectified unless it is the last."""

    units: int

    def count(self, shape: Shape, input_gradient: bool) -> Counts:
        (inputs,) = shape
        forward = 2 * inputs * self.units
        return Counts(
            (self.units,),
            (inputs + 1) * self.units,
            forward,
            forward * (3 if input_gradient else 2),
        )


@record(frozen=True)
class Embedding:
    """A row of `units` weights for each of `vocabulary` ids: looked up, not multiplied."""

    vocabulary: int
    units: int

    def count(self, shape: Shape, input_gradient: bool) -> Counts:
        return Counts((*shape, self.units), self.vocabulary * self.units)


@record(frozen=True)
class LSTM:
    """A long short-term memory of one bias, which gives its last output.

    Attributes:
        bidirectional: another one reads the sequence from its end, and gives
            as many units more.
    """

    units: int
    bidirectional: bool = False

    def count(self, shape: Shape, input_gradient: bool) -> Counts:
        """Count kernel, recurrent kernel and bias of the four gates, over all steps.

        Training always needs the gradient of the recurrent product's input.
        """
        steps, inputs = shape
        units = (2 if self.bidirectional else 1) * self.units
        of_input, recurrent = (steps * 2 * n * 4 * units for n in (inputs, self.units))
        return Counts(
            (units,),
            4 * units * (inputs + self.units + 1),
            of_input + recurrent,
            of_input * (3 if input_gradient else 2) + recurrent * 3,
        )


@record(frozen=True)
class Branches:
    """Chains of layers that read the same input; their outputs are joined by channels, or added.

    An empty chain gives the input itself.
    """

    branches: tuple[tuple[Layer, ...], ...]
    added: bool = False

    def count(self, shape: Shape, input_gradient: bool) -> Counts:
        counts = [count(shape, branch, input_gradient) for branch in self.branches]
        shapes = [each.output_shape for each in counts]
        if len({shape if self.added else shape[:-1] for shape in shapes}) != 1:
            raise ValueError(f"branches of different shapes can't be joined: {sorted(shapes)}")
        if self.added:
            return _added(shapes[0], counts)
        return _added((*shapes[0][:-1], sum(shape[-1] for shape in shapes)), counts)


def count(shape: Shape, layers: Iterable[Layer], input_gradient: bool = False) -> Counts:
    """Count a chain of layers for one sample of `shape` (without the batch axis).

    `input_gradient` says that layers with weights come before the chain.
    """
    counts: list[Counts] = []
    for layer in layers:
        each = layer.count(shape, input_gradient)
        shape = each.output_shape
        input_gradient = input_gradient or each.parameters > 0
        counts.append(each)
    return _added(shape, counts)


def _added(output_shape: Shape, counts: Iterable[Counts]) -> Counts:
    parameters = forward = train = 0
    for each in counts:
        parameters += each.parameters
        forward += each.forward_flops
        train += each.train_flops
    return Counts(output_shape, parameters, forward, train)


def _slid(shape: Shape, window: int, strides: int, padding: str | int) -> tuple[int, int]:
    """Return at how many heights and widths a window stops on its way over an image."""
    height, width, _ = shape
    if padding == "same":
        return -(-height // strides), -(-width // strides)
    around = 0 if padding == "valid" else 2 * int(padding)
    return (height + around - window) // strides + 1, (width + around - window) // strides + 1
