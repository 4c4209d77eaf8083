"""Analytic counts of a network's weights and floating-point operations.

A multiply-add counts as 2. Only layers that multiply by weights count:
activations, pooling, biases and the optimizer are left out, and a "same"
convolution counts the products with its zero padding too.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Conv2D:
    """A square-kernel convolution of stride 1 with "same" padding, channels last."""

    filters: int
    kernel_size: int

    def output_shape(self, shape: Shape) -> Shape:
        """Return (height, width, filters)."""
        height, width, _ = shape
        return height, width, self.filters

    def parameters(self, shape: Shape) -> int:
        """Count kernel and bias."""
        return (self.kernel_size**2 * shape[-1] + 1) * self.filters

    def forward_flops(self, shape: Shape) -> int:
        """Count one sample's multiply-adds, each as 2."""
        height, width, channels = shape
        return 2 * height * width * self.kernel_size**2 * channels * self.filters


@dataclass(frozen=True)
class MaxPool2D:
    """Pooling over squares of `pool_size`, which the image must divide into."""

    pool_size: int

    def output_shape(self, shape: Shape) -> Shape:
        """Return (height, width, channels) after pooling."""
        height, width, channels = shape
        return height // self.pool_size, width // self.pool_size, channels

    def parameters(self, shape: Shape) -> int:
        """Pooling has no weights."""
        return 0

    def forward_flops(self, shape: Shape) -> int:
        """Pooling does not count."""
        return 0


@dataclass(frozen=True)
class Flatten:
    """All of a sample's values in one row."""

    def output_shape(self, shape: Shape) -> Shape:
        """Return the number of values."""
        return (prod(shape),)

    def parameters(self, shape: Shape) -> int:
        """Flattening has no weights."""
        return 0

    def forward_flops(self, shape: Shape) -> int:
        """Flattening does not count."""
        return 0


@dataclass(frozen=True)
class Dense:
    """A fully connected layer with bias."""

    units: int

    def output_shape(self, shape: Shape) -> Shape:
        """Return the number of units."""
        return (self.units,)

    def parameters(self, shape: Shape) -> int:
        """Count kernel and bias."""
        (inputs,) = shape
        return (inputs + 1) * self.units

    def forward_flops(self, shape: Shape) -> int:
        """Count one sample's multiply-adds, each as 2."""
        (inputs,) = shape
        return 2 * inputs * self.units


Layer = Conv2D | MaxPool2D | Flatten | Dense


@dataclass(frozen=True)
class Counts:
    """What a network holds, and what one sample costs in floating-point operations."""

    parameters: int
    forward_flops: int
    train_flops: int
    output_shape: Shape


def count(input_shape: Shape, layers: Iterable[Layer]) -> Counts:
    """Count a chain of layers for one sample of `input_shape` (without the batch axis).

    Training is the forward pass, the gradient of the weights and the gradient
    of the input, each as many operations as the forward pass; the first layer
    with weights needs no gradient of its input.
    """
    shape = input_shape
    parameters = forward = train = 0
    for layer in layers:
        layer_flops = layer.forward_flops(shape)
        needs_input_gradient = parameters > 0
        train += layer_flops * (3 if needs_input_gradient else 2)
        forward += layer_flops
        parameters += layer.parameters(shape)
        shape = layer.output_shape(shape)
    return Counts(parameters, forward, train, shape)
