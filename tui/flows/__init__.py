"""What the app does for a person: functions that take the app, show screens and wait for them.

A screen posts what it asks for (`tui.messages`); `tui.app` says which function answers it. Each
module is imported when it is first needed: a start needs few of them.
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
