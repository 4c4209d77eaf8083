"""Train a neural network and watch its speed and the hardware on one time axis.

A script may report its own loop; the calls do nothing if no monitor listens:

    with dlmon.training(samples=50_000, epochs=10):
        ...
        dlmon.step(samples=128)
        ...
        dlmon.epoch(loss=0.3)

In a notebook, `dlmon.start()` starts a session for its process.
"""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from dlmon.instrument.loops import epoch as epoch
    from dlmon.instrument.loops import step as step
    from dlmon.instrument.loops import training as training
    from dlmon.notebook import start as start

_LOOPS = "instrument.loops"
_MODULES = {"training": _LOOPS, "step": _LOOPS, "epoch": _LOOPS, "start": "notebook"}


class _Nothing:
    """Replaces every function that a script may call if it can't be watched."""

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self

    def __getattr__(self, name: str) -> Any:
        return self

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *error: object) -> None:
        return None


def module_that_reports(name: str) -> Any:
    """Return the module `name` of dlmon, for a script that reports its own training.

    Under `dlmon exec`, another copy of dlmon watches the script. Return that copy's module, because
    two copies would report everything twice.
    """
    import sys
    from importlib import import_module

    for finder in sys.meta_path:
        load = getattr(finder, "load_of_dlmon", None)
        if load is not None and name.startswith("instrument."):
            try:
                return load(name)
            except Exception:  # noqa: BLE001 - the log says why; the script continues
                finder.load_of_dlmon = lambda name: _Nothing()  # type: ignore[attr-defined]
                return _Nothing()
    return import_module(f"dlmon.{name}")


def __getattr__(name: str) -> Any:
    # Imported on first use, because most importers of dlmon need none of these.
    if name in _MODULES:
        function = getattr(module_that_reports(_MODULES[name]), name)
        if not function.__module__.startswith("dlmon."):
            # The copy that watches the script does not change, so its function can be kept.
            globals()[name] = function
        return function
    raise AttributeError(f"dlmon has no {name}")
