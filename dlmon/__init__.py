"""Train a neural network and watch its speed and the hardware on one time axis.

A script may report its own loop; all of it does nothing where no monitor listens:

    with dlmon.training(samples=50_000, epochs=10):
        ...
        dlmon.step(samples=128)
        ...
        dlmon.epoch(loss=0.3)

In a notebook, `dlmon.start()` begins a session for this very process.
"""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from dlmon.instrument.loops import epoch as epoch
    from dlmon.instrument.loops import step as step
    from dlmon.instrument.loops import training as training
    from dlmon.notebook import start as start

_LOOPS = "instrument.loops"
_PLACES = {"training": _LOOPS, "step": _LOOPS, "epoch": _LOOPS, "start": "notebook"}


class _Nothing:
    """Stands for all that a script may call where it can't be watched."""

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self

    def __getattr__(self, name: str) -> Any:
        return self

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *error: object) -> None:
        return None


def module_that_reports(place: str) -> Any:
    """Return a module of ours for a script that reports itself.

    Under `dlmon exec`, what watches the script is not this package: it may be another version, and
    two would report everything twice.
    """
    import sys
    from importlib import import_module

    for finder in sys.meta_path:
        load = getattr(finder, "load_of_dlmon", None)
        if load is not None and place.startswith("instrument."):
            try:
                return load(place)
            except Exception:  # noqa: BLE001 - the log says why: the script goes on unwatched
                finder.load_of_dlmon = lambda place: _Nothing()  # type: ignore[attr-defined]
                return _Nothing()
    return import_module(f"dlmon.{place}")


def __getattr__(name: str) -> Any:
    # Most of what imports dlmon needs none of these.
    if name in _PLACES:
        reporting = getattr(module_that_reports(_PLACES[name]), name)
        if not reporting.__module__.startswith("dlmon."):
            # What watches the script stays, and is found at once the next time.
            globals()[name] = reporting
        return reporting
    raise AttributeError(f"dlmon has no {name}")
