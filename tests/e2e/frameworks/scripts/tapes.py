"""Trains with Keras on TensorFlow in loops of its own, and prints what it counted itself."""

import json

import keras
import numpy as np
import tensorflow as tf

random = np.random.default_rng(1)
X = random.normal(size=(103, 4)).astype("float32")
Y = X[:, :1] * 2
train = tf.data.Dataset.from_tensor_slices((X, Y)).shuffle(103, seed=1).batch(16)
held_out = tf.data.Dataset.from_tensor_slices((X[:40], Y[:40])).batch(16)
mean_squared = keras.losses.MeanSquaredError()
counted = {"epochs": [], "steps": 0}


class Trained:
    """A model with an optimizer of its own, and the steps that train and that test it."""

    def __init__(self, optimizers=1, scaled=False):
        keras.utils.set_random_seed(1)
        self.model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(1)])
        self.optimizers = [keras.optimizers.SGD(0.01) for _ in range(optimizers)]
        if scaled:
            self.optimizers = [keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.01))]

    def step(self, x, y):
        for optimizer in self.optimizers:
            with tf.GradientTape() as tape:
                loss = optimizer.scale_loss(mean_squared(y, self.model(x, training=True)))
            weights = self.model.trainable_weights
            optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))

    def test(self, x, y):
        return mean_squared(y, self.model(x))

    def train(self, step, test, epochs=2):
        for _ in range(epochs):
            batches = samples = 0
            for x, y in train:
                step(x, y)
                batches, samples = batches + 1, samples + len(x)
            for x, y in held_out:
                test(x, y)
            counted["epochs"].append([samples, batches, 3])
            counted["steps"] += batches


def in_a_graph(trained):
    return tf.function(trained.step), tf.function(trained.test)


eager = Trained()
eager.train(eager.step, eager.test)
graph = Trained()
graph.train(*in_a_graph(graph))
# Two optimizers, of which each batch counts once.
two = Trained(optimizers=2)
two.train(*in_a_graph(two), epochs=1)
scaled = Trained(scaled=True)
scaled.train(*in_a_graph(scaled), epochs=1)

fitted = Trained()
fitted.model.compile(fitted.optimizers[0], "mse")
fitted.model.fit(train, epochs=2, verbose=0, validation_data=held_out)
counted["epochs"] += [[103, 7, 3]] * 2
counted["steps"] += 14

# Without a dataset, and so without epochs.
arrays = Trained()
step, test = in_a_graph(arrays)
for _ in range(20):
    step(X[:16], Y[:16])
    test(X[:16], Y[:16])
counted["steps"] += 20

# Its loop is in the graph, where nothing can be seen of it.
hidden = Trained()
step, test = in_a_graph(hidden)


@tf.function
def epoch(dataset):
    for x, y in dataset:
        step(x, y)


epoch(train)
optimizers = [one.optimizers[0] for one in (eager, graph, two, scaled, fitted, arrays, hidden)]
print([int(optimizer.iterations) for optimizer in optimizers])
print(json.dumps(counted))
