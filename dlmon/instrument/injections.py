"""Set inside a script what the job asks for, and report what came of it.

The environment variable stays for the processes that the script starts, as the ranks of a launcher
need it. Nothing is set in a loader worker or another daemonic process.
"""

from __future__ import annotations

import inspect
import json
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from functools import cache, wraps
from typing import Any

from dlmon.instrument.reporter import Reporter, hide_this_frame, uncompiled
from dlmon.records import FRAMEWORKS, Injection
from dlmon.records.injections import INJECTIONS

VARIABLE = "DLMON_INJECTED"
"""The environment variable with the injections of a job, as JSON."""
SET_BY_SCRIPT = "the script sets it itself afterwards"
_MOST_CHECKS = 16

Check = Callable[[], str | None]
"""Returns the reason if an injection is not in effect any more."""
Arguments = dict[str, Any]
Changed = tuple[Arguments, dict[str, Check | None]]
"""Other arguments, and the injections that they set, each with its check."""


class _Outcome:
    """The outcome of one injection so far."""

    def __init__(self, name: str) -> None:
        framework = INJECTIONS[name].framework
        self.times = 0
        self.is_as_asked = self.is_overruled = False
        self.nothing = f"{FRAMEWORKS[framework]} was not imported"
        """The reason as long as it was set nowhere."""
        self.refusal: str | None = None
        """The reason why it was not set in some object or call."""
        self.checks: deque[Check] = deque(maxlen=_MOST_CHECKS)
        self.sent: tuple[bool, int, str | None] | None = None

    def now(self) -> tuple[bool, int, str | None]:
        """Return whether it is applied, how many times, and why not, or not everywhere."""
        # The object that the script has changed may be gone later.
        reasons = [reason for check in self.checks if (reason := check()) is not None]
        self.is_overruled |= SET_BY_SCRIPT in reasons
        if self.is_overruled or reasons:
            return False, self.times, SET_BY_SCRIPT if self.is_overruled else reasons[0]
        if self.times:
            return True, self.times, self.refusal
        return self.is_as_asked, 0, self.refusal or self.nothing


class Injections:
    """The injections of this process.

    They are reported whenever a loop begins, as the process ends, and if one is applied for the
    first time within a loop.

    Args:
        reporter: reports them.
        values: their values, by name.
    """

    def __init__(self, reporter: Reporter, values: Mapping[str, Any]) -> None:
        self.reporter = reporter
        self._values = {name: value for name, value in values.items() if name in INJECTIONS}
        self._outcomes = {name: _Outcome(name) for name in self._values}
        os.register_at_fork(after_in_child=self._reset)
        reporter.at_loop(self.report)

    def are_asked_for(self, names: Iterable[str]) -> bool:
        return any(name in self._values for name in names)

    def value(self, name: str) -> Any:
        """Return the value to set; None if there is none in this process."""
        return None if _is_daemonic() else self._values.get(name)

    def expect(self, names: Iterable[str], nothing: str, is_as_asked: bool = False) -> None:
        """Note the reason of injections that are set nowhere.

        Args:
            names: their names; those that nobody asked for are skipped.
            nothing: the reason.
            is_as_asked: whether the script has the wanted value then.
        """
        for name in names:
            if (outcome := self._outcomes.get(name)) is not None:
                outcome.nothing, outcome.is_as_asked = nothing, is_as_asked

    def applied(self, name: str, check: Check | None = None) -> None:
        """Note that an injection was set in an object or call."""
        outcome = self._outcomes[name]
        if check is not None:
            outcome.checks.append(check)
        outcome.times += 1
        if outcome.times == 1 and self.reporter.loops:
            self.report()

    def all_applied(self, checks: Mapping[str, Check | None]) -> None:
        for name, check in checks.items():
            self.applied(name, check)

    def refused(self, names: Iterable[str], reason: str | Exception) -> None:
        """Note why injections were not set in an object or call."""
        if isinstance(reason, Exception):
            reason = f"{type(reason).__name__}: {reason}".removesuffix(": ")
        for name in names:
            if (outcome := self._outcomes.get(name)) is not None:
                outcome.refusal = reason[:300]

    def report(self) -> None:
        """Send the outcomes that have changed."""
        for name, outcome in self._outcomes.items():
            if outcome.sent != (now := outcome.now()):
                outcome.sent = now
                self.reporter.send(Injection(time.monotonic_ns(), name, *now))

    def _reset(self) -> None:
        """Report all of them again in a forked child that trains."""
        for outcome in self._outcomes.values():
            outcome.sent = None


def _is_daemonic() -> bool:
    processes = sys.modules.get("multiprocessing.process")
    return processes is not None and bool(processes.current_process().daemon)


@cache
def injections_of(reporter: Reporter) -> Injections:
    """Return the injections of this process."""
    try:
        values = json.loads(os.environ.get(VARIABLE) or "{}")
    except ValueError:
        values = None
    return Injections(reporter, values if isinstance(values, dict) else {})


def set_up(
    injections: Injections, names: Iterable[str], nothing: str, install: Callable[[], None]
) -> None:
    """Install the hook of some injections if they are asked for; an error of it is their reason."""
    if injections.are_asked_for(names):
        injections.expect(names, nothing)
        try:
            install()
        except Exception as error:  # noqa: BLE001 - an unexpected version of the framework
            injections.refused(names, error)


def replace_arguments(
    holder: Any,
    name: str,
    injections: Injections,
    names: Iterable[str],
    change: Callable[[Arguments], Changed],
    retries: bool = True,
) -> None:
    """Call a function or method with other arguments from now on.

    Args:
        holder: the module or class of the function.
        name: the name of the function.
        injections: take note of what was set.
        names: the names of the injections that may be set.
        change: takes the script's arguments by name, and may replace an iterator among them.
        retries: if the function raises an exception, call it again with the script's arguments.
    """
    function = getattr(holder, name)
    signature = inspect.signature(function)

    @uncompiled
    @wraps(function)
    def replaced(*arguments: Any, **named: Any) -> Any:
        bound: inspect.BoundArguments | None = None
        others: Arguments = {}
        try:
            bound = signature.bind(*arguments, **named)
            others, is_set = change(bound.arguments)
        except Exception as error:  # noqa: BLE001 - whatever it is, the script goes on
            injections.refused(names, error)
        if bound is not None:
            arguments, named = bound.args, bound.kwargs
        if bound is not None and others:
            bound.arguments.update(others)
            if not retries:
                arguments, named = bound.args, bound.kwargs
                injections.all_applied(is_set)
        try:
            if bound is not None and others and retries:
                try:
                    result = function(*bound.args, **bound.kwargs)
                except Exception as error:  # noqa: BLE001 - it may take the script's own
                    injections.refused(is_set, error)
                else:
                    injections.all_applied(is_set)
                    return result
            return function(*arguments, **named)
        except BaseException as error:
            hide_this_frame(error)
            raise

    setattr(holder, name, replaced)
