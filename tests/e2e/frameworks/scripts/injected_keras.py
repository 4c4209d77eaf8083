"""Train a small model of Keras on TensorFlow, and print what the hooks have made of it."""

import json

import keras
import tensorflow as tf

data = tf.data.Dataset.from_tensor_slices((tf.random.uniform((64, 8)), tf.zeros(64)))
model = keras.Sequential([keras.layers.Input((8,)), keras.layers.Dense(4), keras.layers.Dense(2)])
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(data.batch(8).prefetch(1), epochs=2, verbose=0)
print(
    json.dumps(
        {
            "jit_compile": model.jit_compile,
            "steps_per_execution": model.steps_per_execution,
            "precision": [layer.dtype_policy.name for layer in model.layers],
        }
    )
)
