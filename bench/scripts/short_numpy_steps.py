"""Multiply matrices with NumPy on one thread, about 1.3 ms a step, until it is stopped.

It starts in a fraction of a second, PyTorch in several: so more pairs of it fit into a minute.
With SLEEP_MS in the environment, it sleeps so long before each fourth step.
"""

from __future__ import annotations

import os
import time

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np

import dlmon

BATCH_SIZE, WIDTH = 32, 256
SLEEP_S = float(os.environ.get("SLEEP_MS", "0")) / 1000

generator = np.random.default_rng(1)
weights = generator.standard_normal((WIDTH, WIDTH)) / WIDTH**0.5
batch = generator.standard_normal((BATCH_SIZE, WIDTH))
number = 0
while True:
    if SLEEP_S and number % 4 == 0:
        time.sleep(SLEEP_S)
    activations = batch
    for _ in range(6):
        activations = np.tanh(activations @ weights)
    dlmon.step(samples=BATCH_SIZE)
    number += 1
