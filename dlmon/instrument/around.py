"""Stand around a function of a script's, or of a framework's, without a trace in its errors."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from types import ModuleType
from typing import Any

from dlmon.instrument.reporter import Reporter, guarded

Watch = Callable[[ModuleType, Reporter], None]


def hide_this_frame(error: BaseException) -> None:
    """Let what a script prints of its own error be the same as without us.

    To be called by the frame that caught it, which then raises it again without naming it.
    """
    if error.__traceback__ is not None:
        error.__traceback__ = error.__traceback__.tb_next


def after(hook: Callable[..., None], following: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls `hook`, which never raises, with the same arguments first."""

    @wraps(following)
    def both(*arguments: Any, **named: Any) -> Any:
        hook(*arguments, **named)
        try:
            return following(*arguments, **named)
        except BaseException as error:
            hide_this_frame(error)
            raise

    return both


def where_a_monitor_listens(watch: Watch) -> Watch:
    """Return what watches a module only for a monitor, and gives up where it is not as expected."""

    @wraps(watch)
    def begin(module: ModuleType, reporter: Reporter) -> None:
        if reporter.is_on:
            guarded(reporter)(watch)(module, reporter)

    return begin
