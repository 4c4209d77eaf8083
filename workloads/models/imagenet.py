"""The networks that read images as large as ImageNet's.

They were published as benchmark networks: without dropout, and without a
softmax, which the loss has within it.
"""

from __future__ import annotations

import keras
from keras import layers

from workloads.architectures import CLASSES
from workloads.catalog import Workload
from workloads.models.chain import applied

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
        features = applied(images, workload.layers[:-1])
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
