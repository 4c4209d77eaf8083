"""A person's script that names dlmon's callback in one fit, and not in the other."""

import sys

import keras
import numpy as np

from dlmon.keras import ThroughputCallback

keras.utils.set_random_seed(1)
x, y = np.ones((25, 4), "float32"), np.ones((25, 1), "float32")
model = keras.Sequential([keras.layers.Dense(1)])
model.compile(loss="mse")
callbacks = [ThroughputCallback()]
for named in (callbacks, []):
    history = model.fit(x, y, 10, epochs=2, verbose=2, callbacks=named)
    print(history.history, history is model.history)
print(len(callbacks), file=sys.stdout)
