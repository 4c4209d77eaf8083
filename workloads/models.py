"""The networks in Keras, compiled as they were published."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import keras
from keras import layers

from workloads import attention
from workloads.catalog import ESTIMATED_VOCABULARY, Workload

CLASSES = 1000
# The layout is explicit: a keras.json may ask for channels first, our data never does.
_LAYOUT = {"data_format": "channels_last"}
_Conv = partial(layers.Conv2D, kernel_size=3, padding="same", activation="relu", **_LAYOUT)
_Valid = partial(_Conv, padding="valid")
_Plain = partial(_Conv, activation=None)
_Pool = partial(layers.MaxPooling2D, **_LAYOUT)
_Flatten = partial(layers.Flatten, **_LAYOUT)
_Dense = partial(layers.Dense, activation="relu")

Layers = list[keras.layers.Layer]


def _vgg(*convolutions: int) -> Layers:
    """Return the VGG network with this number of convolutions in each of its five blocks."""
    blocks: Layers = []
    for filters, repeats in zip((64, 128, 256, 512, 512), convolutions, strict=True):
        blocks += [*(_Conv(filters) for _ in range(repeats)), _Pool(2)]
    return [*blocks, _Flatten(), _Dense(4096), _Dense(4096)]


# All layers but the last.
_LAYERS: dict[str, Callable[..., Layers]] = {
    "cifar10-cnn": lambda: [
        *(_Plain(32), _Plain(32), _Pool(2), _Plain(64), _Plain(64), _Pool(2)),
        *(_Plain(128), _Plain(128), _Flatten(), layers.Dropout(0.3), _Dense(128)),
    ],
    "mnist-mlp-small": lambda: [_Flatten(), _Dense(128), layers.Dropout(0.2)],
    "mnist-mlp-wide": lambda: [
        *(_Flatten(), _Dense(1000), layers.Dropout(0.2), _Dense(1000), layers.Dropout(0.2)),
    ],
    "mnist-mlp": lambda: [
        *(_Dense(512), layers.Dropout(0.2), _Dense(512), layers.Dropout(0.2)),
    ],
    "mnist-cnn": lambda: [
        *(_Valid(32), _Valid(64), _Pool(2), layers.Dropout(0.25)),
        *(_Flatten(), _Dense(128), layers.Dropout(0.5)),
    ],
    "cifar10-deep-cnn": lambda: [
        *(_Conv(32), _Valid(32), _Pool(2), layers.Dropout(0.25)),
        *(_Conv(64), _Valid(64), _Pool(2), layers.Dropout(0.25)),
        *(_Flatten(), _Dense(512), layers.Dropout(0.5)),
    ],
    "imdb-fasttext": lambda ids=ESTIMATED_VOCABULARY: [
        *(layers.Embedding(ids, 50), layers.GlobalAveragePooling1D(**_LAYOUT)),
    ],
    # Published numbers with a fused kernel are marked; these are of plain steps.
    "imdb-bilstm": lambda: [
        layers.Embedding(20_000, 128),
        layers.Bidirectional(layers.LSTM(64, use_cudnn=False)),
        layers.Dropout(0.5),
    ],
    "nietzsche-lstm": lambda: [layers.LSTM(128, use_cudnn=False)],
    "alexnet": lambda: [
        layers.ZeroPadding2D(2, **_LAYOUT),
        *(_Valid(64, kernel_size=11, strides=4), _Pool(3, 2), _Conv(192, kernel_size=5)),
        *(_Pool(3, 2), _Conv(384), _Conv(256), _Conv(256), _Pool(3, 2)),
        *(_Flatten(), _Dense(4096), _Dense(4096)),
    ],
    "overfeat": lambda: [
        *(_Valid(96, kernel_size=11, strides=4), _Pool(2), _Valid(256, kernel_size=5), _Pool(2)),
        *(_Conv(512), _Conv(1024), _Conv(1024), _Pool(2)),
        *(_Flatten(), _Dense(3072), _Dense(4096)),
    ],
    "vgg-a": lambda: _vgg(1, 1, 2, 2, 2),
    "vgg16": lambda: _vgg(2, 2, 3, 3, 3),
}
_RESNETS = {
    "resnet50": keras.applications.ResNet50,
    "resnet101": keras.applications.ResNet101,
    "resnet152": keras.applications.ResNet152,
}
_OPTIMIZERS = {
    "mnist-mlp": lambda: keras.optimizers.RMSprop(),
    # Keras's default learning rate when the numbers were taken.
    "mnist-cnn": lambda: keras.optimizers.Adadelta(learning_rate=1.0),
    # The meaning of `decay=1e-6` in the optimizers of Keras 2.
    "cifar10-deep-cnn": lambda: keras.optimizers.RMSprop(
        keras.optimizers.schedules.InverseTimeDecay(1e-4, decay_steps=1, decay_rate=1e-6)
    ),
    "nietzsche-lstm": lambda: keras.optimizers.RMSprop(learning_rate=0.01),
}
# The units and the activation of the last layer, and the loss, by family.
_ENDS = {
    "IMDB": (1, "sigmoid", "binary_crossentropy"),
    # Its labels are one-hot.
    "Nietzsche": (57, "softmax", "categorical_crossentropy"),
}


def build(workload: Workload, vocabulary: int | None = None) -> keras.Model:
    """Build and compile the network of a workload for the samples of its data set.

    Args:
        workload: its images have pixels from 0 to 1, and class numbers as labels.
        vocabulary: the number of word ids, for a network sized by its data.
    """
    if workload.family == "ImageNet-sized":
        return _large_images(workload)
    if workload.name in attention.WORDS:
        return attention.build_text(workload)
    units, activation, loss = _ENDS.get(
        workload.family, (10, "softmax", "sparse_categorical_crossentropy")
    )
    model = keras.Sequential(
        [
            keras.Input(workload.input_shape, dtype="int32" if units == 1 else None),
            *_LAYERS[workload.name](*([] if vocabulary is None else [vocabulary])),
            # In half precision a softmax or sigmoid rounds, and the loss turns infinite.
            layers.Dense(units, activation=activation, dtype="float32"),
        ],
        name=workload.name,
    )
    model.compile(
        optimizer=_OPTIMIZERS.get(workload.name, keras.optimizers.Adam)(),
        loss=loss,
        metrics=None if workload.family == "Nietzsche" else ["accuracy"],
    )
    return model


def _large_images(workload: Workload) -> keras.Model:
    """Build a network of a published benchmark: without dropout, with the softmax in the loss."""
    images = keras.Input(workload.input_shape)
    # Half precision is too narrow for the loss.
    logits = layers.Dense(CLASSES, dtype="float32")(_features(workload.name, images))
    model = keras.Model(images, logits, name=workload.name)
    model.compile(
        optimizer=keras.optimizers.SGD(learning_rate=0.01),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    return model


def _features(name: str, images: keras.KerasTensor) -> keras.KerasTensor:
    if name in _RESNETS:
        # `keras.applications` reads its layout only from here.
        keras.config.set_image_data_format("channels_last")
        network = _RESNETS[name](
            include_top=False, weights=None, input_tensor=images, pooling="avg"
        )
        return network.output
    if name == "googlenet":
        return _googlenet(images)
    if name == "vit-b16":
        return attention.vit(images)
    for layer in _LAYERS[name]():
        images = layer(images)
    return images


def _googlenet(x: keras.KerasTensor) -> keras.KerasTensor:
    """Return the features of Inception v1, whose modules have four branches."""

    def halved(x: Any) -> Any:
        return _Pool(3, 2, padding="same")(x)

    def inception(x: Any, ones: int, threes: Any, fives: Any, pooled: int) -> Any:
        # The first of a pair of filters narrows the input.
        branches = [
            _Conv(ones, kernel_size=1)(x),
            _Conv(threes[1])(_Conv(threes[0], kernel_size=1)(x)),
            _Conv(fives[1], kernel_size=5)(_Conv(fives[0], kernel_size=1)(x)),
            _Conv(pooled, kernel_size=1)(_Pool(3, 1, padding="same")(x)),
        ]
        return layers.Concatenate(axis=-1)(branches)

    x = halved(_Conv(64, kernel_size=7, strides=2)(x))
    x = halved(_Conv(192)(_Conv(64, kernel_size=1)(x)))
    x = inception(x, 64, (96, 128), (16, 32), 32)
    x = halved(inception(x, 128, (128, 192), (32, 96), 64))
    x = inception(x, 192, (96, 208), (16, 48), 64)
    x = inception(x, 160, (112, 224), (24, 64), 64)
    x = inception(x, 128, (128, 256), (24, 64), 64)
    x = inception(x, 112, (144, 288), (32, 64), 64)
    x = halved(inception(x, 256, (160, 320), (32, 128), 128))
    x = inception(x, 256, (160, 320), (32, 128), 128)
    x = inception(x, 384, (192, 384), (48, 128), 128)
    return layers.GlobalAveragePooling2D(**_LAYOUT)(x)
