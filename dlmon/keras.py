"""A callback for scripts that name dlmon themselves: `from dlmon.keras import ThroughputCallback`.

Under `dlmon exec` every `fit` is reported without it; it is for where a script can't be entered,
such as `python -I`, and counts nothing twice.
"""

from __future__ import annotations

import sys

import keras

from dlmon import module_that_reports

_REPORTER = module_that_reports("instrument.reporter").REPORTER
_fits = module_that_reports("instrument.fits")

# It is found by this name where it is copied or pickled.
ThroughputCallback = _fits.callback_class(keras.callbacks.Callback, _REPORTER)
ThroughputCallback.__module__, ThroughputCallback.__qualname__ = __name__, "ThroughputCallback"
ThroughputCallback.__name__ = "ThroughputCallback"

if _REPORTER.is_on:
    _data = sys.modules["keras.src.trainers.epoch_iterator"]
    module_that_reports("instrument.keras_iterators").watch_data(_data, _REPORTER)
