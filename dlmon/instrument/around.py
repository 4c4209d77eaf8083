"""Stand around a function of a script's, or of a framework's, without a trace in its errors."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from dlmon.instrument.reporter import Reporter

WATCHED = "_dlmon_watched"
"""The attribute of a function that calls hooks of ours."""


def hide_this_frame(error: BaseException) -> None:
    """Let what a script prints of its own error be the same as without us.

    To be called by the frame that caught it, which then raises it again without naming it.
    """
    if error.__traceback__ is not None:
        error.__traceback__ = error.__traceback__.tb_next


def _nothing(*arguments: Any, **named: Any) -> None:
    """Stand for a hook that is not needed."""


def wrap(
    holder: Any,
    name: str,
    reporter: Reporter,
    *,
    before: Callable[..., Any] = _nothing,
    after: Callable[..., None] = _nothing,
    always: bool = False,
) -> None:
    """Have a function or a method call hooks of ours; an error of theirs turns the reporter off.

    Args:
        holder: the module or class that it is in.
        name: of the function.
        reporter: where it is off, no hook is called.
        before: is called first, with the same arguments.
        after: is called with what `before` returned, what the function returned, and its arguments.
        always: call `after` too where the function raises: it returned None then.
    """
    following = getattr(holder, name)
    if hasattr(following, WATCHED):
        return

    @wraps(following)
    def wrapped(*arguments: Any, **named: Any) -> Any:
        if not reporter.is_on:
            return following(*arguments, **named)
        prepared = result = None
        try:
            prepared = before(*arguments, **named)
        except Exception as error:  # noqa: BLE001 - whatever it is, the script goes on
            reporter.turn_off(error)
        has_ended = always
        try:
            result = following(*arguments, **named)
            has_ended = True
        except BaseException as error:
            hide_this_frame(error)
            raise
        finally:
            if has_ended:
                try:
                    after(prepared, result, *arguments, **named)
                except Exception as error:  # noqa: BLE001 - as above
                    reporter.turn_off(error)
        return result

    setattr(wrapped, WATCHED, True)
    # `torch.compile` calls such a function as it is, without a word.
    wrapped._torchdynamo_disable = True  # type: ignore[attr-defined]
    setattr(holder, name, wrapped)
