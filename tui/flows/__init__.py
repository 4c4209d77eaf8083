"""Functions that do what a screen requests: they take the app, show screens and await them.

A screen posts a request (`tui.messages`), and `tui.app` maps it to a function. Each module is
imported on first use, as a start needs few of them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tui.flows import hosts, recordings, runs, sessions, settings, stack

__all__ = ["hosts", "recordings", "runs", "sessions", "settings", "stack"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"tui.flows has no {name}")
    return import_module(f"tui.flows.{name}")
