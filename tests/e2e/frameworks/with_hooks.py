"""Installs the hooks for Keras in a process, and runs a script in it."""

import os
import runpy
import sys


def install():
    from dlmon.instrument.fits import watch_fits
    from dlmon.instrument.keras_iterators import watch_data
    from dlmon.instrument.reporter import REPORTER
    from dlmon.instrument.single_batches import watch_single_batches

    if os.environ.get("FLAVOUR") == "tf_keras":
        import tf_keras  # noqa: F401

        watch_fits(sys.modules["tf_keras.src.callbacks"], REPORTER)
        watch_data(sys.modules["tf_keras.src.engine.data_adapter"], REPORTER)
        watch_single_batches(sys.modules["tf_keras.src.engine.training"], REPORTER)
        return
    import keras

    backend = keras.backend.backend()
    watch_fits(sys.modules["keras.src.callbacks.callback_list"], REPORTER)
    watch_data(sys.modules["keras.src.trainers.epoch_iterator"], REPORTER)
    watch_single_batches(sys.modules[f"keras.src.backend.{backend}.trainer"], REPORTER)


install()
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
