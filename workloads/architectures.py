"""The layers of ImageNet-sized networks."""

from __future__ import annotations

from workloads.layers import (
    BatchNormalization,
    Branches,
    Conv2D,
    Dense,
    Flatten,
    GlobalAveragePool,
    Layer,
    MaxPool2D,
)

CLASSES = 1000

ALEXNET: tuple[Layer, ...] = (
    Conv2D(64, 11, strides=4, padding=2),
    MaxPool2D(3, strides=2),
    Conv2D(192, 5),
    MaxPool2D(3, strides=2),
    Conv2D(384, 3),
    Conv2D(256, 3),
    Conv2D(256, 3),
    MaxPool2D(3, strides=2),
    Flatten(),
    Dense(4096),
    Dense(4096),
    Dense(CLASSES),
)

OVERFEAT: tuple[Layer, ...] = (
    Conv2D(96, 11, strides=4, padding="valid"),
    MaxPool2D(2),
    Conv2D(256, 5, padding="valid"),
    MaxPool2D(2),
    Conv2D(512, 3),
    Conv2D(1024, 3),
    Conv2D(1024, 3),
    MaxPool2D(2),
    Flatten(),
    Dense(3072),
    Dense(4096),
    Dense(CLASSES),
)


def vgg(*convolutions: int) -> tuple[Layer, ...]:
    """Return the VGG network that has so many convolutions in each of its five blocks."""
    layers: list[Layer] = []
    for filters, repeats in zip((64, 128, 256, 512, 512), convolutions, strict=True):
        layers += [Conv2D(filters, 3)] * repeats
        layers.append(MaxPool2D(2))
    return *layers, Flatten(), Dense(4096), Dense(4096), Dense(CLASSES)


def _inception(ones: int, threes: tuple[int, int], fives: tuple[int, int], pooled: int) -> Branches:
    """Return a module of four branches; the first of a pair of filters narrows the input."""
    return Branches(
        (
            (Conv2D(ones, 1),),
            (Conv2D(threes[0], 1), Conv2D(threes[1], 3)),
            (Conv2D(fives[0], 1), Conv2D(fives[1], 5)),
            (MaxPool2D(3, strides=1, padding="same"), Conv2D(pooled, 1)),
        )
    )


_INCEPTION_POOL = MaxPool2D(3, strides=2, padding="same")

GOOGLENET: tuple[Layer, ...] = (
    Conv2D(64, 7, strides=2),
    _INCEPTION_POOL,
    Conv2D(64, 1),
    Conv2D(192, 3),
    _INCEPTION_POOL,
    _inception(64, (96, 128), (16, 32), 32),
    _inception(128, (128, 192), (32, 96), 64),
    _INCEPTION_POOL,
    _inception(192, (96, 208), (16, 48), 64),
    _inception(160, (112, 224), (24, 64), 64),
    _inception(128, (128, 256), (24, 64), 64),
    _inception(112, (144, 288), (32, 64), 64),
    _inception(256, (160, 320), (32, 128), 128),
    _INCEPTION_POOL,
    _inception(256, (160, 320), (32, 128), 128),
    _inception(384, (192, 384), (48, 128), 128),
    GlobalAveragePool(),
    Dense(CLASSES),
)


def resnet(*blocks: int) -> tuple[Layer, ...]:
    """Return the residual network of so many bottleneck blocks in each of its four stages.

    As in `keras.applications`, convolutions have biases, and a stage's stride
    is in the first 1×1 convolution.
    """
    layers: list[Layer] = [
        Conv2D(64, 7, strides=2, padding=3),
        BatchNormalization(),
        MaxPool2D(3, strides=2, padding=1),
    ]
    for stage, (filters, repeats) in enumerate(zip((64, 128, 256, 512), blocks, strict=True)):
        layers.append(_bottleneck(filters, strides=1 if stage == 0 else 2, widening=True))
        layers += [_bottleneck(filters)] * (repeats - 1)
    return *layers, GlobalAveragePool(), Dense(CLASSES)


def _bottleneck(filters: int, strides: int = 1, widening: bool = False) -> Branches:
    """Return a block of three convolutions; one that widens has another in its shortcut."""
    convolutions = (
        Conv2D(filters, 1, strides),
        BatchNormalization(),
        Conv2D(filters, 3),
        BatchNormalization(),
        Conv2D(4 * filters, 1),
        BatchNormalization(),
    )
    shortcut = (Conv2D(4 * filters, 1, strides), BatchNormalization()) if widening else ()
    return Branches((convolutions, shortcut), added=True)
