"""The networks that read images as large as ImageNet's.

They were published as benchmark networks: without dropout, and without a
softmax, which the loss has within it.
"""

from __future__ import annotations

import keras
from keras import layers

from workloads import layers as flops
from workloads.architectures import CLASSES
from workloads.catalog import Workload

RESNETS = {
    "resnet50": keras.applications.ResNet50,
    "resnet101": keras.applications.ResNet101,
    "resnet152": keras.applications.ResNet152,
}


def build(workload: Workload) -> keras.Model:
    """Build and compile the network of `workload`.

    It takes (batch, height, width, 3) pixels from 0 to 1 and gives
    (batch, 1000) logits; labels are class numbers.
    """
    images = keras.Input(workload.input_shape)
    if workload.name in RESNETS:
        features = _residual(workload, images)
    else:
        features = _chained(images, workload.layers[:-1])
    # Half precision is too narrow for the loss.
    logits = layers.Dense(CLASSES, dtype="float32")(features)
    model = keras.Model(images, logits, name=workload.name)
    model.compile(
        optimizer=keras.optimizers.SGD(learning_rate=0.01),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    return model


def _residual(workload: Workload, images: keras.KerasTensor) -> keras.KerasTensor:
    """Return the features of Keras's own residual network."""
    # It takes its layout from here alone, and a keras.json may ask for channels first.
    keras.config.set_image_data_format("channels_last")
    network = RESNETS[workload.name](
        include_top=False, weights=None, input_tensor=images, pooling="avg"
    )
    return network.output


def _chained(x: keras.KerasTensor, chain: tuple[flops.Layer, ...]) -> keras.KerasTensor:
    """Apply a chain of layers, of which every one with weights is rectified."""
    for layer in chain:
        x = _applied(layer, x)
    return x


# The layout is explicit: a keras.json may ask for channels first, our data never does.
def _applied(layer: flops.Layer, x: keras.KerasTensor) -> keras.KerasTensor:
    match layer:
        case flops.Conv2D(filters, kernel_size, strides, padding):
            x, padding = _padded(x, padding)
            return layers.Conv2D(
                filters,
                kernel_size,
                strides,
                padding,
                activation="relu",
                data_format="channels_last",
            )(x)
        case flops.MaxPool2D(pool_size, strides, padding):
            x, padding = _padded(x, padding)
            pool = layers.MaxPooling2D(pool_size, strides, padding, data_format="channels_last")
            return pool(x)
        case flops.GlobalAveragePool():
            return layers.GlobalAveragePooling2D(data_format="channels_last")(x)
        case flops.Flatten():
            return layers.Flatten(data_format="channels_last")(x)
        case flops.Dense(units):
            return layers.Dense(units, activation="relu")(x)
        case flops.Branches(branches):
            return layers.Concatenate(axis=-1)([_chained(x, branch) for branch in branches])
    raise TypeError(f"no layer of Keras is known for {layer}")


def _padded(x: keras.KerasTensor, padding: str | int) -> tuple[keras.KerasTensor, str]:
    if isinstance(padding, str):
        return x, padding
    return layers.ZeroPadding2D(padding, data_format="channels_last")(x), "valid"
