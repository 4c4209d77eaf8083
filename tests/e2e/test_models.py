import importlib
import math
import os
import subprocess
import sys
from dataclasses import replace

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import pytest
import tensorflow as tf

from workloads.catalog import WORKLOADS
from workloads.data import DATASETS, synthesize

SAMPLES = 8

every_workload = pytest.mark.parametrize(
    "workload", WORKLOADS.values(), ids=lambda workload: workload.name
)


def build(workload, **options):
    return importlib.import_module(workload.module).build(workload, **options)


def few_samples(workload):
    return synthesize(replace(DATASETS[workload.dataset], train_samples=SAMPLES, test_samples=4))


def kinds(model):
    return [type(layer).__name__ for layer in model.layers]


@pytest.fixture
def half_precision():
    keras.config.set_dtype_policy("mixed_bfloat16")
    yield
    keras.config.set_dtype_policy("float32")


@pytest.fixture
def channels_first():
    keras.config.set_image_data_format("channels_first")
    yield
    keras.config.set_image_data_format("channels_last")


@every_workload
def test_parameters_are_known_before_training_and_equal_the_catalogs(workload):
    model = build(workload)
    assert model.count_params() == workload.parameters
    assert model.input_shape == (None, *workload.input_shape)
    assert model.output_shape == (None, 10)


@every_workload
def test_forward_flops_of_the_built_layers_equal_the_catalogs(workload):
    multiply_adds = 0
    for layer in build(workload).layers:
        if hasattr(layer, "kernel"):
            positions = math.prod(layer.output.shape[1:-1])
            multiply_adds += positions * math.prod(layer.kernel.shape)
    assert 2 * multiply_adds == workload.forward_flops


@every_workload
def test_train_flops_equal_the_products_that_tensorflow_needs_for_the_gradients(workload):
    model, few = build(workload), few_samples(workload)

    @tf.function
    def gradients(x, y):
        with tf.GradientTape() as tape:
            losses = keras.losses.sparse_categorical_crossentropy(y, model(x, training=True))
            loss = tf.reduce_mean(losses)
        return tape.gradient(loss, model.trainable_variables)

    graph = gradients.get_concrete_function(
        tf.constant(few.x_train), tf.constant(few.y_train.reshape(-1))
    ).graph
    flops = sum(product_flops(operation) for operation in operations_behind(graph.outputs))
    assert flops == SAMPLES * workload.train_flops


def operations_behind(outputs):
    """Return the operations that these tensors need: a graph holds unused gradients too."""
    waiting, needed = [tensor.op for tensor in outputs], {}
    while waiting:
        operation = waiting.pop()
        if operation.name not in needed:
            needed[operation.name] = operation
            waiting += [tensor.op for tensor in operation.inputs]
    return needed.values()


def product_flops(operation):
    """Count the operations of a matrix product, a convolution or a convolution's gradient."""
    shapes = [tensor.shape for tensor in operation.inputs]
    if operation.type == "MatMul":
        inner = shapes[0][0 if operation.get_attr("transpose_a") else 1]
        return 2 * inner * math.prod(operation.outputs[0].shape)
    if operation.type == "Conv2D":
        kernel, out = shapes[1], operation.outputs[0].shape
    elif operation.type == "Conv2DBackpropInput":
        kernel, out = shapes[1], shapes[2]
    elif operation.type == "Conv2DBackpropFilter":
        kernel, out = operation.outputs[0].shape, shapes[2]
    else:
        return 0
    return 2 * math.prod(kernel) * math.prod(out[:3])


@every_workload
def test_a_training_step_has_a_finite_loss_and_moves_every_weight(workload):
    keras.utils.set_random_seed(1)
    model, few = build(workload), few_samples(workload)
    before = [weight.value.numpy() for weight in model.trainable_variables]

    loss, accuracy = model.train_on_batch(few.x_train, few.y_train)

    assert np.isfinite(loss)
    assert 0 <= accuracy <= 1
    for weight, old in zip(model.trainable_variables, before, strict=True):
        assert not np.array_equal(weight.value.numpy(), old), weight.path


@every_workload
def test_evaluates_on_labels_as_the_data_holds_them(workload):
    model, few = build(workload), few_samples(workload)
    probabilities = model.predict(few.x_test, verbose=0)
    assert probabilities.shape == (4, 10)
    assert np.allclose(probabilities.sum(axis=1), 1, atol=1e-5)

    _, accuracy = model.evaluate(few.x_test, few.y_test, verbose=0)
    assert accuracy == np.mean(probabilities.argmax(axis=1) == few.y_test.reshape(-1))


@every_workload
@pytest.mark.usefixtures("half_precision")
def test_in_half_precision_the_probabilities_stay_whole(workload):
    model, few = build(workload), few_samples(workload)
    assert model.compute_dtype == "bfloat16"
    assert model.outputs[0].dtype == "float32"
    assert np.isfinite(model.train_on_batch(few.x_train, few.y_train)[0])


@every_workload
@pytest.mark.usefixtures("channels_first")
def test_a_user_who_has_keras_put_channels_first_gets_the_same_network(workload):
    model = build(workload)
    assert model.count_params() == workload.parameters
    assert np.isfinite(model(few_samples(workload).x_test)).all()


def test_the_cifar10_network_has_no_activation_on_its_convolutions():
    model = build(WORKLOADS["cifar10-cnn"])
    assert kinds(model) == [
        *["Conv2D", "Conv2D", "MaxPooling2D"] * 2,
        *["Conv2D", "Conv2D", "Flatten", "Dropout", "Dense", "Dense"],
    ]
    convolutions = [layer for layer in model.layers if isinstance(layer, keras.layers.Conv2D)]
    assert {layer.activation for layer in convolutions} == {keras.activations.linear}
    dropout, hidden, last = model.layers[-3:]
    assert dropout.rate == 0.3
    assert (hidden.activation, last.activation) == (
        keras.activations.relu,
        keras.activations.softmax,
    )


@pytest.mark.parametrize(("name", "hidden"), [("mnist-mlp-small", 1), ("mnist-mlp-wide", 2)])
def test_the_mnist_networks_drop_a_fifth_after_every_hidden_layer(name, hidden):
    model = build(WORKLOADS[name])
    assert kinds(model) == ["Flatten", *["Dense", "Dropout"] * hidden, "Dense"]
    assert {layer.rate for layer in model.layers if hasattr(layer, "rate")} == {0.2}
    *relus, last = [layer.activation for layer in model.layers if hasattr(layer, "units")]
    assert set(relus) == {keras.activations.relu}
    assert last is keras.activations.softmax


@every_workload
def test_the_optimizer_is_adam_as_published(workload):
    optimizer = build(workload).optimizer
    assert isinstance(optimizer, keras.optimizers.Adam)
    assert float(optimizer.learning_rate) == pytest.approx(0.001)


@pytest.mark.parametrize("dataset", DATASETS)
def test_real_data_without_a_network_is_a_sentence(dataset, tmp_path):
    script = f"""
from workloads.data import DataError, load
try:
    load({dataset!r}, "real")
except DataError as error:
    print(error)
"""
    nowhere = "http://127.0.0.1:9"
    told = subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | {"KERAS_HOME": str(tmp_path), "https_proxy": nowhere, "no_proxy": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    sentence = told.stdout.splitlines()[-1]
    assert sentence.startswith(f"the {dataset} data could not be fetched (URL fetch failure on ")
    assert sentence.endswith(f"; choose synthetic data, or put a copy into {tmp_path}/datasets")
