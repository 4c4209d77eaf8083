import functools
import importlib
import math
import os
import pickle
import zlib
from dataclasses import replace

import numpy as np
import pytest

from workloads.catalog import WORKLOADS

# One process alone imports TensorFlow, and only where these tests run.
pytestmark = pytest.mark.xdist_group("models")

SAMPLES = 8
SIDE = 64
"""Height and width of an image where a network takes less than it was published with."""


def workloads(names):
    """Run a test for each of these workloads."""
    return pytest.mark.parametrize("workload", [WORKLOADS[n] for n in names], ids=list(names))


every_workload = workloads(WORKLOADS)
# Others are lists of the same layers and blocks; transformers have tests of their own.
KINDS = ("mnist-cnn", "imdb-fasttext", "imdb-bilstm", "nietzsche-lstm", "googlenet", "resnet50")
every_kind = workloads(["cifar10-deep-cnn", "alexnet", *KINDS])
TRANSFORMERS = ("gpt2-124m", "bert-base", "vit-b16")


VOCABULARY = 20_500
"""Ids of words where the full number of them would only take memory."""


@pytest.fixture(scope="module", autouse=True)
def _frameworks():
    """Import what takes seconds, and memory, once a test needs it."""
    global keras, tf, variables, batches, attention, Data, DataError, Feed, DATASETS, load
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import keras
    import tensorflow as tf
    from keras.src.backend.common import variables

    from workloads import attention
    from workloads.data import batches
    from workloads.data.dataset import Data, DataError
    from workloads.data.feed import Feed
    from workloads.data.load import DATASETS, load


def build(workload, vocabulary=VOCABULARY):
    counts_words = workload.name == "imdb-fasttext"
    models = importlib.import_module("workloads.models")
    return models.build(workload, vocabulary if counts_words else None)


@functools.cache
def built(name):
    """Return the model of a workload at its full size, without memory for its weights."""
    add_weight = keras.layers.Layer.add_weight

    def add_no_memory(layer, *arguments, **named):
        with keras.StatelessScope():
            return add_weight(layer, *arguments, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keras.layers.Layer, "add_weight", add_no_memory)
        # What is known to have no value yet is given one at the end of any such scope.
        patch.setattr(variables, "register_uninitialized_variable", lambda variable: None)
        return build(WORKLOADS[name], None)


def quick(workload):
    """Return the workload for less data: a small image or a short sequence where it can be."""
    if workload.steps is not None:
        return replace(workload, input_shape=(SIDE, SIDE, 3))
    if workload.family == "Nietzsche":
        return replace(workload, input_shape=(5, 57))
    if workload.name == "imdb-bilstm":
        return replace(workload, input_shape=(5,))
    return workload


def few_samples(workload, samples=SAMPLES):
    """Return few samples that a (quick) workload takes, and as few for testing."""
    dataset = DATASETS[workload.dataset]
    if workload.family == "Nietzsche":
        length = workload.input_shape[0]
        text_length = length + dataset.step * (samples - 1) + 1
        few = replace(dataset, length=length, text_length=text_length).synthesize()
    elif workload.family == "IMDB":
        (length,) = workload.input_shape
        few = replace(
            dataset, length=length, train_samples=samples, test_samples=samples
        ).synthesize()
        most = VOCABULARY if workload.name == "imdb-fasttext" else 20_000
        few = replace(few, x_train=few.x_train % most, x_test=few.x_test % most)
    elif workload.steps is not None:
        return replace(
            dataset, train_samples=samples, sample_shape=workload.input_shape
        ).synthesize()
    else:
        few = replace(dataset, train_samples=samples, test_samples=samples).synthesize()
    return few


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


def multiply_adds(layer, of_input_alone=False):
    """Count the products of one sample with a built layer's weights.

    A recurrent layer multiplies its state, too, unless it is `of_input_alone`.
    """
    if isinstance(layer, keras.layers.Bidirectional):
        return sum(
            multiply_adds(each, of_input_alone)
            for each in (layer.forward_layer, layer.backward_layer)
        )
    if isinstance(layer, keras.layers.LSTM):
        weights = [layer.cell.kernel, layer.cell.recurrent_kernel][: 1 if of_input_alone else 2]
        return layer.input.shape[1] * sum(math.prod(weight.shape) for weight in weights)
    if isinstance(layer, attention.Attention):
        _, length, width = layer.output.shape
        return 2 * length * length * width
    if isinstance(layer, attention.Words):
        # Read in reverse it gives logits of each word, at each place; ids are looked up.
        reverse = [] if of_input_alone else layer._inbound_nodes[1:]
        places = sum(node.output_tensors[0].shape[1] for node in reverse)
        return places * math.prod(layer.embeddings.shape)
    if hasattr(layer, "kernel"):
        return math.prod(layer.output.shape[1:-1]) * math.prod(layer.kernel.shape)
    return 0


def flops_of(model):
    """Return the operations of the forward pass, and of training: no sample needs a gradient."""
    for layer in model.layers:
        if isinstance(layer, keras.layers.Bidirectional):
            # The wrapper alone is connected; its two layers read what it reads.
            layer.forward_layer(layer.input)
            layer.backward_layer(layer.input)
    forward = 2 * sum(map(multiply_adds, model.layers))
    first = next(layer for layer in model.layers if layer.weights)
    return forward, 3 * forward - 2 * multiply_adds(first, of_input_alone=True)


@every_workload
def test_parameters_shapes_and_operations_equal_the_catalogs(workload):
    model = built(workload.name)
    assert model.count_params() == workload.parameters
    assert model.input_shape == (None, *workload.input_shape)
    assert flops_of(model) == (workload.forward_flops, workload.train_flops)


@workloads(["mnist-cnn", "imdb-fasttext", "imdb-bilstm", "nietzsche-lstm", "alexnet"])
def test_operations_of_training_are_the_products_that_tensorflow_needs_for_gradients(workload):
    workload = quick(workload)
    model, few = build(workload), few_samples(workload)
    _, train_flops = flops_of(model)
    recurrent_step = 0
    for layer in model.layers:
        directions = [getattr(layer, f"{way}_layer", None) for way in ("forward", "backward")]
        for lstm in (layer, *directions):
            if isinstance(lstm, keras.layers.LSTM):
                # A loop would hide how often its products are computed.
                lstm.unroll = True
                recurrent_step += 2 * math.prod(lstm.cell.recurrent_kernel.shape)

    @tf.function
    def gradients(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(model(x, training=True) ** 2)
        return tape.gradient(loss, model.trainable_variables)

    graph = gradients.get_concrete_function(tf.constant(few.x_train)).graph
    outputs = [each for each in graph.outputs if each is not None]
    flops = sum(product_flops(operation) for operation in operations_behind(outputs))
    # The state that a sequence starts from is constant, and needs no gradient.
    assert flops == SAMPLES * (train_flops - recurrent_step)


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


def kernels(model):
    """Return the weights that are multiplied by; a bias before a normalization stays as it is."""
    return [each for each in model.trainable_variables if "kernel" in each.path]


def checksum(weight):
    """Return what tells a weight from another, without a copy of it."""
    return zlib.crc32(np.ascontiguousarray(weight.value.numpy()))


@every_kind
def test_a_training_step_moves_every_kernel_and_probabilities_are_whole_and_evaluated(workload):
    keras.utils.set_random_seed(1)
    workload = quick(workload)
    samples = 1 if workload.steps is not None else SAMPLES
    model, few = build(workload), few_samples(workload, samples)
    # To trace a large network takes longer than a step, and TensorFlow keeps the graph's memory.
    model.run_eagerly = workload.steps is not None
    before = [checksum(weight) for weight in kernels(model)]

    losses = model.train_on_batch(few.x_train, few.y_train)

    assert np.isfinite(losses).all()
    for weight, old in zip(kernels(model), before, strict=True):
        assert checksum(weight) != old, weight.path
    if workload.steps is not None:
        return
    # On labels as the data holds them.
    x, y = (few.x_test, few.y_test) if len(few.x_test) else (few.x_train, few.y_train)
    probabilities = model.predict(x, verbose=0)
    assert probabilities.shape == (SAMPLES, *model.output_shape[1:])
    assert ((probabilities >= 0) & (probabilities <= 1)).all()
    if model.output_shape != (None, 1):
        assert np.allclose(probabilities.sum(axis=1), 1, atol=1e-5)
    assert np.isfinite(model.evaluate(x, y, verbose=0)).all()


@workloads(["mnist-mlp", "imdb-fasttext", "alexnet"])
@pytest.mark.usefixtures("half_precision")
def test_in_half_precision_the_loss_is_computed_in_whole(workload):
    model = build(quick(workload))
    assert model.layers[-2].compute_dtype == "bfloat16"
    assert model.outputs[0].dtype == "float32"
    few = few_samples(quick(workload))
    assert np.isfinite(model.train_on_batch(few.x_train, few.y_train)).all()


@workloads(["cifar10-cnn", "imdb-bilstm", "resnet50"])
@pytest.mark.usefixtures("channels_first")
def test_a_user_who_has_keras_put_channels_first_gets_the_same_network(workload):
    small = quick(workload)
    model = build(small)
    assert model.count_params() == built(workload.name).count_params()
    assert np.isfinite(model(few_samples(small, 1).x_train)).all()


# What is dropped, the activations, the optimizer and its learning rate; the rest is in the catalog.
PUBLISHED = {
    "cifar10-cnn": ([0.3], [*["linear"] * 6, "relu", "softmax"], "Adam", 0.001),
    "mnist-mlp-small": ([0.2], ["relu", "softmax"], "Adam", 0.001),
    "mnist-mlp-wide": ([0.2, 0.2], ["relu", "relu", "softmax"], "Adam", 0.001),
    "mnist-mlp": ([0.2, 0.2], ["relu", "relu", "softmax"], "RMSprop", 0.001),
    "mnist-cnn": ([0.25, 0.5], ["relu", "relu", "relu", "softmax"], "Adadelta", 1.0),
    "cifar10-deep-cnn": ([0.25, 0.25, 0.5], [*["relu"] * 5, "softmax"], "RMSprop", 1e-4),
    "imdb-fasttext": ([], ["sigmoid"], "Adam", 0.001),
    "imdb-bilstm": ([0.5], ["sigmoid"], "Adam", 0.001),
    "nietzsche-lstm": ([], ["tanh", "softmax"], "RMSprop", 0.01),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_networks_are_as_published(name):
    model = built(name)
    dropped, activations, optimizer, rate = PUBLISHED[name]
    assert [layer.rate for layer in model.layers if hasattr(layer, "rate")] == dropped
    found = [each.activation for each in model.layers if hasattr(each, "activation")]
    assert [each.__name__ for each in found] == activations
    assert type(model.optimizer).__name__ == optimizer
    assert float(model.optimizer.learning_rate) == pytest.approx(rate)
    if activations[-1] == "sigmoid":
        assert model.loss == "binary_crossentropy"


@workloads([n for n in WORKLOADS if WORKLOADS[n].steps is not None and n not in TRANSFORMERS])
def test_benchmark_networks_have_no_dropout_and_give_logits(workload):
    model = built(workload.name)
    assert "Dropout" not in kinds(model)
    assert type(model.optimizer).__name__ == "SGD"
    assert float(model.optimizer.learning_rate) == pytest.approx(0.01)
    assert model.layers[-1].activation is keras.activations.linear
    assert model.loss.get_config()["from_logits"] is True
    assert model.output_shape == (None, 1000)
    hidden = [layer for layer in model.layers[:-1] if isinstance(layer, keras.layers.Dense)]
    assert {layer.activation for layer in hidden} <= {keras.activations.relu}
    convolutions = [layer for layer in model.layers if isinstance(layer, keras.layers.Conv2D)]
    rectified = {layer.activation for layer in convolutions} == {keras.activations.relu}
    # Keras's residual networks rectify after a normalization.
    assert rectified != ("BatchNormalization" in kinds(model))


@pytest.mark.parametrize(
    ("name", "dropped", "optimizer", "rate"),
    [
        ("gpt2-124m", 0, "AdamW", 6e-4),
        ("bert-base", 2 * 12 + 2, "AdamW", 2e-5),
        ("vit-b16", 0, "SGD", 0.01),
    ],
)
def test_transformers_have_twelve_blocks_and_give_logits(name, dropped, optimizer, rate):
    model = built(name)
    assert kinds(model).count("Attention") == 12
    assert kinds(model).count("Dropout") == dropped
    assert type(model.optimizer).__name__ == optimizer
    assert float(model.optimizer.learning_rate) == pytest.approx(rate)
    assert model.loss.get_config()["from_logits"] is True


def test_a_keras_without_attention_is_refused_in_a_sentence(monkeypatch):
    monkeypatch.delattr(keras.ops, "dot_product_attention")
    with pytest.raises(Exception, match="needs a newer Keras than 3"):
        build(WORKLOADS["vit-b16"])


@pytest.mark.parametrize(
    ("name", "precision"), [("gpt2-124m", "mixed_bfloat16"), ("bert-base", "float32")]
)
def test_a_small_language_model_learns_and_gpt2_looks_back_only(name, precision, monkeypatch):
    monkeypatch.setitem(attention.WORDS, name, 97)
    keras.config.set_dtype_policy(precision)
    keras.utils.set_random_seed(1)
    small = replace(WORKLOADS[name], input_shape=(16,))
    try:
        model = attention.build_text(small, depth=1)
    finally:
        keras.config.set_dtype_policy("float32")
    model.run_eagerly = True
    dataset = replace(DATASETS[small.dataset], length=16, words=97, train_samples=2)
    few = dataset.synthesize()
    other = few.x_train.copy()
    other[:, 10:] = 0
    whole, changed = (np.array(tf.cast(model(x), "float32")) for x in (few.x_train, other))
    if name == "gpt2-124m":
        assert np.array_equal(whole[:, :10], changed[:, :10])
        assert not np.allclose(whole[:, 10:], changed[:, 10:])
    losses = [float(model.train_on_batch(few.x_train, few.y_train)) for _ in range(4)]
    assert np.isfinite(losses).all()
    assert losses[-1] < losses[0]


def test_the_learning_rate_of_the_deep_cifar10_network_wanes_batch_by_batch():
    rate = build(WORKLOADS["cifar10-deep-cnn"]).optimizer._learning_rate
    for batch in (0, 1, 1_562, 31_240):
        assert float(rate(batch)) == pytest.approx(1e-4 / (1 + 1e-6 * batch), rel=1e-6)


def numbered_images(count):
    """Return images that are each of one value, their number, and their numbers as labels."""
    numbers = np.arange(count, dtype=np.uint8)
    return np.ones((count, 8, 8, 3), np.float32) * numbers[:, None, None, None], numbers


def test_an_augmented_epoch_has_whole_batches_of_different_samples_in_a_new_order():
    images, numbers = numbered_images(50)
    data = Data(images, numbers, images[:0], numbers[:0], "synthetic", augmented=True)
    feed = data.training(8)
    assert (feed.samples, feed.steps, feed.y, feed.shuffle) == (48, 6, None, False)
    assert isinstance(feed.x, batches.AugmentedBatches)

    epochs = []
    for _ in range(2):
        taken = [feed.x[index] for index in range(feed.x.num_batches)]
        assert {x.shape for x, _ in taken} == {(8, 8, 8, 3)}
        seen = np.concatenate([y for _, y in taken])
        assert len(set(seen)) == 48
        # Each image stays with its label.
        pixels = np.concatenate([x[:, 0, 0, 0] for x, _ in taken])
        assert np.allclose(pixels, seen, atol=1e-5)
        epochs.append(seen)
        feed.x.on_epoch_end()
    assert not np.array_equal(*epochs)


def test_the_published_epoch_of_the_deep_cifar10_network_has_1562_batches():
    images = np.zeros((50_000, 1, 1, 3), np.float32)
    data = Data(images, images, images[:0], images[:0], "synthetic", augmented=True)
    assert (data.training(32).steps, data.training(32).samples) == (1_562, 49_984)
    assert data.training(32, steps=10).samples == 320
    assert data.training(32, steps=9_999).samples == 49_984


def slope(axis):
    """Return an image whose pixels rise by 1 along an axis."""
    line = np.arange(20, dtype=np.float32)
    return np.broadcast_to(np.expand_dims(line, (1 - axis, 2)), (20, 20, 1))


def test_augmented_images_are_shifted_by_up_to_a_tenth_and_keep_their_edge():
    images = np.repeat(slope(0)[None], 500, axis=0)
    seen = batches.shifted_and_flipped(images, np.random.default_rng(1))

    assert (seen.shape, seen.dtype) == (images.shape, np.float32)
    # No column differs from another: shifted down or up, and mirrored, it is the same.
    assert np.allclose(seen, seen[:, :, :1])
    shifts = seen[:, 10, 0, 0] - 10
    assert -2 <= shifts.min() < -1.9
    assert 1.9 < shifts.max() <= 2
    assert abs(shifts.mean()) < 0.2
    for image, shift in zip(seen, shifts, strict=True):
        assert np.allclose(image[:, 0, 0], np.clip(np.arange(20) + shift, 0, 19), atol=1e-5)


def test_every_other_augmented_image_is_mirrored():
    images = np.repeat(slope(1)[None], 500, axis=0)
    seen = batches.shifted_and_flipped(images, np.random.default_rng(1))
    mirrored = seen[:, 0, 0, 0] > seen[:, 0, -1, 0]
    assert 0.4 < mirrored.mean() < 0.6
    for image, is_mirrored in zip(seen, mirrored, strict=True):
        row = image[0, ::-1, 0] if is_mirrored else image[0, :, 0]
        assert np.allclose(row, np.clip(np.arange(20) + row[10] - 10, 0, 19), atol=1e-5)


def batches_of(dataset):
    return [(np.asarray(x), np.asarray(y)) for x, y in dataset]


@pytest.mark.parametrize(("batch_size", "different"), [(3, 3), (4, 2), (10, 1), (25, 1)])
def test_repeated_batches_come_over_and_over_as_many_as_asked_for(batch_size, different):
    images, numbers = numbered_images(10)
    data = Data(images, numbers, images[:0], numbers[:0], "synthetic", repeated=True)
    for passes in (data.training, data.inference):
        feed = passes(batch_size, 7)
        assert (feed.samples, feed.steps, feed.y, feed.shuffle) == (7 * batch_size, 7, None, False)
        taken = batches_of(feed.x)
        assert len(taken) == 7
        for index, (x, y) in enumerate(taken):
            first = index % different * batch_size
            assert y.tolist() == [n % 10 for n in range(first, first + batch_size)]
            assert np.array_equal(x[:, 0, 0, 0], y)


def test_batches_without_autotuning_are_those_that_keras_cuts():
    images = np.arange(10, dtype=np.float32).reshape(10, 1)
    numbers = np.arange(10, dtype=np.uint8)
    feed = batches.untuned(Feed(images, numbers, 4, 10))
    assert not feed.x.options().autotune.enabled
    assert (feed.steps, feed.samples, feed.shuffle) == (3, 10, False)
    assert int(feed.x.cardinality()) == 3
    reported = [(x[:, 0].numpy().tolist(), y.numpy().tolist()) for x, y in feed.x]
    assert reported == [([0, 1, 2, 3],) * 2, ([4, 5, 6, 7],) * 2, ([8, 9],) * 2]


def test_batches_without_autotuning_are_shuffled_each_epoch():
    # Another test's seed would hold here: each iterator then begins its random numbers again.
    tf.random.set_seed(None)
    numbers = np.arange(200, dtype=np.uint8)
    feed = Feed(numbers[:, None].astype(np.float32), numbers, 50, 200)
    shuffled = batches.untuned(feed, shuffle=True).x
    epochs = [[n for _, y in shuffled for n in y.numpy().tolist()] for _ in range(2)]
    assert epochs[0] != epochs[1]
    assert [sorted(epoch) for epoch in epochs] == [list(range(200))] * 2


def test_repeated_batches_know_their_number_on_every_backend(monkeypatch):
    images, numbers = numbered_images(10)
    on_tensorflow = batches.repeated_batches(images, numbers, 3, 7)
    assert int(on_tensorflow.cardinality()) == 7

    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    elsewhere = batches.repeated_batches(images, numbers, 3, 7)
    assert isinstance(elsewhere, batches.RepeatedBatches)
    assert elsewhere.num_batches == 7
    for index in range(7):
        x, y = elsewhere[index]
        assert np.shares_memory(x, images)
        assert y.tolist() == numbers[index % 3 * 3 :][:3].tolist()


@pytest.mark.parametrize("name", ["alexnet", "cifar10-deep-cnn"])
@pytest.mark.filterwarnings("error")
def test_keras_takes_every_batch_that_the_feed_promises(name):
    images, labels = numbered_images(10)
    repeated = name == "alexnet"
    data = Data(
        *(images, labels, images[:0], labels[:0], "synthetic"),
        repeated=repeated,
        augmented=not repeated,
    )
    flat = [keras.Input((8, 8, 3)), keras.layers.Flatten(), keras.layers.Dense(10)]
    model = keras.Sequential(flat)
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    ends = keras.callbacks.Callback()
    last = {}
    ends.on_train_batch_end = lambda batch, logs=None: last.update(trained=batch)
    ends.on_predict_batch_end = lambda batch, logs=None: last.update(predicted=batch)

    feed = data.training(4, 5 if repeated else None)
    how = {"batch_size": 4, "callbacks": [ends], "verbose": 0}
    model.fit(feed.x, feed.y, epochs=2, shuffle=feed.shuffle, **how)
    assert last["trained"] == feed.steps - 1 == (4 if repeated else 1)

    feed = data.inference(4, 5 if repeated else None)
    given = model.predict(feed.x, **how)
    assert last["predicted"] == feed.steps - 1 == (4 if repeated else 2)
    assert len(given) == feed.samples


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """Keras's folder of data sets, whatever hash its files have."""
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    folder = tmp_path / "datasets"
    folder.mkdir()
    modules = [
        importlib.import_module(f"keras.src.datasets.{n}") for n in ("mnist", "cifar10", "imdb")
    ]
    for module in (*modules, keras.utils):
        monkeypatch.setattr(module, "get_file", lambda fname, **options: str(folder / fname))
    return folder


def test_what_keras_has_cached_is_trained_on(cache):
    images, labels = np.full((4, 28, 28), 255, np.uint8), np.arange(4, dtype=np.uint8)
    arrays = {"x_train": images, "y_train": labels, "x_test": images, "y_test": labels}
    np.savez(cache / "mnist.npz", **arrays)
    reviews = np.empty(2, object)
    reviews[:] = [1, 2], [30_000]
    arrays = {"x_train": reviews, "y_train": labels[:2], "x_test": reviews, "y_test": labels[:2]}
    np.savez(cache / "imdb.npz", **arrays)
    folder = cache / "cifar-10-batches-py-target/cifar-10-batches-py"
    folder.mkdir(parents=True)
    batch = {b"data": np.full((10_000, 3_072), 255, np.uint8), b"labels": [3] * 10_000}
    for name in (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"):
        (folder / name).write_bytes(pickle.dumps(batch))
    (cache / "nietzsche.txt").write_text("supposing that truth is a woman, what then?")

    read = {name: load(name, "auto") for name in ("mnist", "cifar10", "imdb-words", "nietzsche")}

    assert {data.origin for data in read.values()} == {"real"}
    assert {(read[name].x_train == 1).all() for name in ("mnist", "cifar10")} == {np.True_}
    assert read["cifar10"].y_test.tolist() == [[3]] * 10_000
    assert sorted(row[-3:] for row in read["imdb-words"].x_train.tolist()) == [[0, 1, 2], [1, 4, 5]]
    assert read["nietzsche"].x_train.shape == (1, 40, 57)


def test_real_data_without_a_network_is_a_sentence(tmp_path, monkeypatch):
    names = {"mnist": "mnist", "cifar10": "cifar10", "imdb-bigrams": "imdb"}
    names["nietzsche"] = "nietzsche"
    nowhere = {"https_proxy": "http://127.0.0.1:9", "no_proxy": "", "KERAS_HOME": str(tmp_path)}
    for name, value in nowhere.items():
        monkeypatch.setenv(name, value)
    sentences = []
    for dataset in names:
        with pytest.raises(DataError) as refused:
            load(dataset, "real")
        sentences.append(str(refused.value))
    for name, sentence in zip(names.values(), sentences, strict=True):
        begin = f"Keras can't load the {name} data (Exception: URL fetch failure on "
        assert sentence.startswith(begin)
        assert sentence.endswith(
            f"; choose synthetic data, or put a good copy into {tmp_path}/datasets"
        )
