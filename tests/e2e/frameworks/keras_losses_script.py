"""A person's script that prints what Keras says of the loss after each batch."""

import os
import time

if os.environ.get("FLAVOUR") == "tf_keras":
    import tf_keras as keras
else:
    import keras
import numpy as np

keras.utils.set_random_seed(1)
random = np.random.default_rng(1)
x, y = random.normal(size=(400, 4)), random.normal(size=(400, 1))
model = keras.Sequential([keras.layers.Dense(1)])
model.compile(loss="mse", optimizer="sgd")
losses = []


class Kept(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        time.sleep(0.04)
        losses.append(float(logs["loss"]))


history = model.fit(x, y, 10, epochs=2, verbose=0, validation_split=0.1, callbacks=[Kept()])
print(losses)
print(history.history)
