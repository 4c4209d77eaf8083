"""A callback for scripts that name dlmon themselves: `from dlmon.keras import ThroughputCallback`.

Under `dlmon exec` every `fit` is reported without it. It is for interpreters that ignore
`dlmon exec`, such as `python -I`, and counts nothing twice.
"""

from __future__ import annotations

import sys

import keras

from dlmon import module_that_reports

_REPORTER = module_that_reports("instrument.reporter").REPORTER
_fits = module_that_reports("instrument.fits")

# Copying and pickling import it by this name.
ThroughputCallback = _fits.callback_class(keras.callbacks.Callback, _REPORTER)
ThroughputCallback.__module__, ThroughputCallback.__qualname__ = __name__, "ThroughputCallback"
ThroughputCallback.__name__ = "ThroughputCallback"

if _REPORTER.is_on:
    _data = sys.modules["keras.src.trainers.epoch_iterator"]
    module_that_reports("instrument.keras_iterators").watch_data(_data, _REPORTER)
