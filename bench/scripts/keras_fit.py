"""A `fit` of Keras, as it is written everywhere; prints how long its steps took.

`--bar` shows Keras's own progress bar, which is what a script has without dlmon.
"""

import json
import os
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np

EPOCHS, SAMPLES, WARM_UP = 4, 64_000, 1


class Clock(keras.callbacks.Callback):
    """Adds up the epochs after the first, which compiles."""

    seconds = 0.0

    def on_epoch_begin(self, epoch, logs=None):
        self.start = time.perf_counter()

    def on_epoch_end(self, epoch, logs=None):
        if epoch >= WARM_UP:
            self.seconds += time.perf_counter() - self.start


def main():
    begin = time.clock_gettime(time.CLOCK_BOOTTIME)
    keras.utils.set_random_seed(0)
    inputs = np.random.rand(SAMPLES, 64).astype("float32")
    targets = np.random.randint(0, 10, SAMPLES)
    model = keras.Sequential(
        [keras.Input((64,)), keras.layers.Dense(256, "relu"), keras.layers.Dense(10)]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("sgd", loss)
    clock, verbose = Clock(), 1 if "--bar" in sys.argv else 0
    history = model.fit(
        inputs, targets, batch_size=64, epochs=EPOCHS, verbose=verbose, callbacks=[clock]
    )
    steps = (EPOCHS - WARM_UP) * SAMPLES // 64
    figures = {"step_us": clock.seconds / steps * 1e6, "begin": begin}
    print(json.dumps({**figures, "loss": history.history["loss"][-1]}))


main()
