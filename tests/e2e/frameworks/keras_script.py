"""A person's script: it trains in all the ways that Keras knows, and prints what it counted itself.

The counting is done within the training step, by metrics. One line of JSON for each way.
"""

import functools
import json
import os
import sys
import time

if os.environ.get("FLAVOUR") == "tf_keras":
    import tensorflow as tf
    import tf_keras as keras

    size_of, add = (lambda y: tf.shape(y)[0]), tf.cast
else:
    import keras

    size_of, add = (lambda y: keras.ops.shape(y)[0]), keras.ops.cast
import numpy as np

random = np.random.default_rng(1)
X = random.normal(size=(103, 4)).astype("float32")
Y = random.normal(size=(103, 1)).astype("float32")


class Count(keras.metrics.Metric):
    """Counts samples, or batches, since the epoch began."""

    def __init__(self, name):
        super().__init__(name=name)
        self.count = self.add_weight(name="count", initializer="zeros")

    def update_state(self, y_true, y_pred, sample_weight=None):
        # TensorFlow would count a batch that doesn't come, if this didn't depend on it.
        size = add(size_of(y_true), "float32")
        self.count.assign(self.count + (size if self.name == "samples" else size / size))

    def result(self):
        return self.count + 0.0

    def reset_state(self):
        self.count.assign(0.0)


def compiled(model, **how):
    model.compile(loss="mse", optimizer="sgd", metrics=[Count("samples"), Count("batches")], **how)
    return model


def new_model(**how):
    return compiled(keras.Sequential([keras.layers.Dense(3), keras.layers.Dense(1)]), **how)


@functools.cache
def known_model():
    """Return the one model of all cases that need no new one: to compile it takes longest."""
    return new_model()


class Fit:
    """What a case counted: epochs as [samples, batches], and losses."""

    def __init__(self):
        self.epochs, self.validations, self.losses, self.evaluations = [], [], [], []
        self.loops = 0
        self.losses_of_batches = []
        self.tokens = []

    def add(self, history):
        self.loops += 1
        found = history.history
        self.epochs += zip(found["samples"], found["batches"], strict=True)
        self.validations += found.get("val_batches", [])
        self.losses += found["loss"]

    def evaluated(self, logs):
        self.evaluations.append([logs["samples"], logs["batches"]])
        self.losses.append(logs["loss"])


class Callback(keras.callbacks.Callback):
    """Calls a function when something happens."""

    def __init__(self, **hooks):
        super().__init__()
        self.__dict__.update(hooks)


def arrays(case):
    model = new_model()
    case.add(model.fit(X, Y, 10, epochs=3, verbose=0, validation_split=0.2))
    # The second time nothing is compiled, and the last two batches of an epoch are short.
    case.add(model.fit(X, Y, 50, epochs=2, verbose=0))


def arrays_in_parts(case):
    case.add(known_model().fit(X, Y, 20, epochs=3, steps_per_epoch=3, verbose=0))


def stopped_early(case):
    callback = keras.callbacks.EarlyStopping("loss", min_delta=1e9, patience=1)
    case.add(known_model().fit(X, Y, epochs=9, verbose=0, callbacks=[callback]))


def stopped_within_an_epoch(case):
    model = known_model()

    def stop(batch, logs=None):
        model.stop_training = batch == 2

    callbacks = [Callback(on_train_batch_end=stop)]
    case.add(model.fit(X, Y, 10, epochs=3, verbose=0, callbacks=callbacks))


def from_an_epoch_on(case):
    case.add(known_model().fit(X, Y, epochs=5, initial_epoch=3, verbose=0))


def several_steps_at_once(case):
    model = new_model(steps_per_execution=4)
    case.add(model.fit(X, Y, 10, epochs=2, verbose=0, validation_data=(X[:95], Y[:95])))
    case.evaluated(model.evaluate(X, Y, 10, verbose=0, return_dict=True))
    if hasattr(keras.utils, "PyDataset"):
        case.add(model.fit(Dataset(), epochs=2, verbose=0))


def evaluated_and_predicted(case):
    model = known_model()
    case.evaluated(model.evaluate(X, Y, verbose=0, return_dict=True))
    case.losses.append(float(model.predict(X, verbose=0).sum()))
    case.evaluated(model.evaluate(X[:40], Y[:40], 15, verbose=0, return_dict=True))


class Dataset(getattr(keras.utils, "PyDataset", keras.utils.Sequence)):
    """Batches of 16, 17, 18 … samples."""

    def __len__(self):
        return 5

    def __getitem__(self, index):
        start, size = 16 * index, 16 + index
        return X[start : start + size], Y[start : start + size]


def dataset_in_python(case):
    case.add(known_model().fit(Dataset(), epochs=2, verbose=0, validation_data=Dataset()))


def dataset_with_workers(case):
    # Which batches an epoch gets depends on how far Keras's workers had come: each time others.
    if hasattr(keras.utils, "PyDataset"):
        data, how = Dataset(workers=2, max_queue_size=2), {}
    else:
        data, how = Dataset(), {"workers": 2}
    case.add(known_model().fit(data, epochs=3, verbose=0, shuffle=False, **how))


def generator(case):
    def batches():
        while True:
            for size in (5, 9, 1, 30):
                yield X[:size], Y[:size]

    model = known_model()
    case.add(model.fit(batches(), epochs=3, steps_per_epoch=3, verbose=0))


def one_by_one(case):
    model = known_model()
    sizes = (7, 7, 9)
    for size in sizes:
        logs = model.train_on_batch(X[:size], Y[:size], return_dict=True)
        case.losses.append(float(logs["loss"]))
    case.epochs.append([sum(sizes), len(sizes)])
    case.loops += 1


def named_callback(case):
    """A script that names dlmon's callback."""
    from dlmon.keras import ThroughputCallback

    callbacks = [ThroughputCallback()]
    case.add(known_model().fit(X, Y, 50, epochs=2, verbose=0, callbacks=callbacks))
    assert len(callbacks) == 1


class OwnStep(keras.Model):
    """A model with a training step of its own, on top of Keras's."""

    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(1)
        self.steps = 0

    def call(self, inputs):
        return self.dense(inputs)

    def train_step(self, *arguments):
        self.steps += 1
        return super().train_step(*arguments)


def own_step(case):
    case.add(compiled(OwnStep()).fit(X, Y, 25, epochs=2, verbose=0))


def broken_off(case):
    """Ctrl-C after three batches, an error in the second epoch, and then another fit."""
    model = known_model()

    def interrupt(batch, logs=None):
        if batch == 2:
            raise KeyboardInterrupt

    try:
        model.fit(X, Y, 10, verbose=0, callbacks=[Callback(on_train_batch_end=interrupt)])
    except KeyboardInterrupt:
        case.epochs.append([30, 3])

    def fail(epoch, logs=None):
        if epoch == 1:
            raise ValueError("of the script's own")

    try:
        model.fit(X, Y, 50, epochs=3, verbose=0, callbacks=[Callback(on_epoch_begin=fail)])
    except ValueError as error:
        # Its traceback holds what `fit` had.
        kept = error
        case.epochs += [[103, 3], [0, 0]]
        case.add(model.fit(X, Y, 50, epochs=1, verbose=0))
        assert kept.__traceback__ is not None
    case.loops += 2


def one_within_the_other(case):
    """Evaluates and trains another model between epochs, and predicts within one."""
    outer, inner = new_model(), new_model()

    def evaluate(epoch, logs=None):
        case.evaluated(outer.evaluate(X, Y, 64, verbose=0, return_dict=True))
        if epoch == 0:
            nested.append(inner.fit(X[:20], Y[:20], 10, epochs=1, verbose=0))

    def predict(batch, logs=None):
        if batch == 1:
            inner.predict(X[:10], verbose=0)

    nested = []
    callbacks = [Callback(on_epoch_end=evaluate, on_train_batch_end=predict)]
    history = outer.fit(X, Y, 50, epochs=2, verbose=0, callbacks=callbacks)
    case.add(history)
    case.add(nested[0])
    # In the order in which they ended; the outer one goes on as another loop.
    case.epochs.insert(1, case.epochs.pop())
    case.loops += 1


def own_loop(case):
    """A loop of the script's own that calls callbacks, as Keras's documentation shows."""
    callbacks = keras.callbacks.CallbackList([], add_history=True, model=new_model(), epochs=2)
    callbacks.on_train_begin()
    for epoch in range(2):
        callbacks.on_epoch_begin(epoch)
        for batch in range(4):
            callbacks.on_train_batch_begin(batch)
            callbacks.on_train_batch_end(batch, {"loss": 1.0 / (batch + 1)})
        callbacks.on_epoch_end(epoch, {"loss": 0.25})
        case.epochs.append([None, 4])
    callbacks.on_train_end()
    case.loops += 1


def torch_loader(case):
    import torch

    data = torch.utils.data.TensorDataset(torch.tensor(X), torch.tensor(Y))
    loader = torch.utils.data.DataLoader(data, batch_size=40)
    case.add(known_model().fit(loader, epochs=2, verbose=0))


def tensorflow_dataset(inputs=X):
    import tensorflow as tf

    return tf.data.Dataset.from_tensor_slices((inputs, Y))


def datasets(case):
    def same(x, y):
        return x, y

    batched = tensorflow_dataset().shuffle(200, seed=1).batch(16).map(same).prefetch(2)
    case.add(known_model().fit(batched, epochs=2, verbose=0, validation_data=batched.take(3)))
    # The short batch comes in the middle of epochs.
    repeated = tensorflow_dataset().batch(40).repeat()
    case.add(known_model().fit(repeated, epochs=3, steps_per_epoch=4, verbose=0))
    fixed = tensorflow_dataset().batch(16, drop_remainder=True)
    case.add(known_model().fit(fixed, epochs=2, verbose=0))
    several = new_model(steps_per_execution=4)
    case.add(several.fit(batched, epochs=2, verbose=0))
    if os.environ.get("FLAVOUR") != "tf_keras":
        # Keras 3 runs three times four batches here.
        case.add(several.fit(repeated, epochs=2, steps_per_epoch=10, verbose=0))


def datasets_of_unknown_length(case):
    batched = tensorflow_dataset().filter(lambda x, y: True).batch(16)
    case.add(known_model().fit(batched, epochs=3, verbose=0, validation_data=batched))
    ragged = (
        tensorflow_dataset()
        .filter(lambda x, y: True)
        .group_by_window(lambda x, y: 0, lambda key, window: window.batch(60), window_size=60)
    )
    case.add(known_model().fit(ragged, epochs=2, verbose=0))


def words(case):
    """Texts of six words: as an array, by name, as a dataset; and numbers that nothing looks up."""
    words = random.integers(0, 20, size=(103, 6))

    def network(inputs, outputs):
        hidden = keras.layers.GlobalAveragePooling1D()(keras.layers.Embedding(20, 3)(outputs))
        return compiled(keras.Model(inputs, keras.layers.Dense(1)(hidden)))

    one, mask = keras.Input((6,), dtype="int32"), keras.Input((6,), name="padding_mask")
    model = network(one, one)
    case.add(model.fit(words, Y, 20, verbose=0))
    named = keras.Input((6,), dtype="int32", name="token_ids")
    by_name = {"padding_mask": np.ones((103, 6)), "token_ids": words}
    inputs = {"padding_mask": mask, "token_ids": named}
    case.add(network(inputs, named).fit(by_name, Y, 20, verbose=0))
    case.add(new_model().fit(words, Y, 20, verbose=0))
    case.tokens = [6, 6, None]
    if keras.backend.backend() == "tensorflow":
        case.add(model.fit(tensorflow_dataset(words).batch(20), verbose=0))
        case.tokens.append(6)


def losses_of_batches(case):
    """What Keras says of the loss after each batch, for about three seconds."""

    def keep(batch, logs=None):
        time.sleep(0.05)
        case.losses_of_batches.append(float(logs["loss"]))

    model = known_model()
    callbacks = [Callback(on_train_batch_end=keep)]
    case.add(model.fit(X, Y, 3, epochs=2, verbose=0, validation_split=0.1, callbacks=callbacks))


def main():
    for name in sys.argv[1:]:
        keras.utils.set_random_seed(1)
        case = Fit()
        globals()[name](case)
        print(json.dumps({"case": name, **vars(case)}))


main()
