"""A callback for scripts that name dlmon themselves: `from dlmon.keras import ThroughputCallback`.

Under `dlmon exec` every `fit` is reported without it; it is for where a script can't be entered,
such as `python -I`, and counts nothing twice.

Runs in the trained interpreter: Python 3.10 syntax.
"""

from __future__ import annotations

import sys

import keras

from dlmon.instrument.fits import callback_class
from dlmon.instrument.keras_iterators import watch_data
from dlmon.instrument.reporter import REPORTER

# It is found by this name where it is copied or pickled.
ThroughputCallback = callback_class(keras.callbacks.Callback, REPORTER)
ThroughputCallback.__module__, ThroughputCallback.__qualname__ = __name__, "ThroughputCallback"
ThroughputCallback.__name__ = "ThroughputCallback"

if REPORTER.is_on:
    watch_data(sys.modules["keras.src.trainers.epoch_iterator"], REPORTER)
