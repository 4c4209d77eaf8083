"""Report what this process trains to the monitor, and wrap functions with hooks.

A process has one reporter. In a script it connects at the first training, so a process that only
imports a framework, such as a loader worker, never shows up; a workload is connected from its
start. Any error here turns the reporter off, with a notice in the log if that can still be sent,
and the script goes on.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import os
import platform
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial, wraps
from pathlib import Path
from typing import Any, TypeVar

from dlmon.instrument.asked_length import EPOCHS, OF_A_BAR, STEPS, asked_length, bar_total
from dlmon.instrument.descriptors import connect
from dlmon.instrument.emitter import Emitter, TrainingFlags
from dlmon.instrument.queued import LEAST_NAMED_NS, Mark, Queued
from dlmon.instrument.stacks import HELD, HeldLock
from dlmon.records import (
    GARBAGE,
    SCRIPT_PHASE,
    Model,
    NamedPause,
    Notice,
    OutOfMemory,
    Phase,
    Record,
    Stack,
    Trainer,
    encode,
)

SOCKET = "DLMON_SOCKET"
"""The environment variable with the path of the monitor's socket."""

SEEN = "seen "
"""The prefix of the files beside the socket that each name an event of a process."""

# The longest that the end of the process waits for a busy monitor.
CLOSE_S = 2.0
# The most records that wait until the process first trains.
MOST_EARLY_RECORDS = 4096
# A loop searches for the script's progress bar at the start of at most this many epochs.
MOST_BAR_CHECKS = 5

WATCHED = "_dlmon_watched"
"""The attribute of functions that `wrap` has wrapped."""

_Function = TypeVar("_Function", bound=Callable[..., Any])


def _nothing(*arguments: Any, **named: Any) -> None:
    """Do nothing, in place of a hook."""


class Reporter:
    """Reports what this process trains; does nothing if no monitor listens.

    Args:
        path: the monitor's socket; None without a monitor, or if `attach` connects.
    """

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._emitter: Emitter | None = None
        self.owner = ""
        """The name of the instrument that reports; empty if none does."""
        self._release: Callable[[], None] | None = None
        self._model: Model | None = None
        self._epochs = 0
        self._closing: list[Callable[[], None]] = []
        self._at_loops: list[Callable[[], None]] = []
        self._events: set[str] = set()
        self._early: deque[NamedPause | OutOfMemory] = deque(maxlen=MOST_EARLY_RECORDS)
        self._thread = threading.main_thread().ident
        self._garbage_ns = 0
        self._checks_bar, self._loop_begin_s = False, 0.0
        self.loops = 0
        """The number of loops that have begun."""
        self.batch_ended: Callable[[Queued], None] = _nothing
        """Queue a batch; the only call on a training loop's fast path."""
        self.reads = TrainingFlags()
        """The flags that training checks; one object for the life of the process."""
        os.register_at_fork(after_in_child=self._reset)

    @property
    def is_on(self) -> bool:
        """A monitor listens, or may listen."""
        return self._path is not None or self._emitter is not None

    @property
    def path(self) -> str:
        return self._path or ""

    def may_take(self, owner: str) -> bool:
        return self.is_on and (self.owner in ("", owner) or self._release is not None)

    def saw(self, event: str) -> None:
        """Tell the monitor of an event once; events explain why a script trains nothing."""
        if event not in self._events and self._path is not None:
            self._events.add(event)
            with contextlib.suppress(OSError):
                Path(self._path).with_name(SEEN + event).touch()

    def take(
        self, owner: str, release: Callable[[], None] | None = None, by_force: bool = False
    ) -> bool:
        """Make `owner` the instrument that reports; return False if another one goes on reporting.

        Keras and the Trainer of transformers read from a PyTorch loader, which is watched too. Only
        the first instrument that takes the reporter counts batches, until it lets go.

        Args:
            owner: the name of an instrument.
            release: ends what is reported, so that another owner can take the reporter.
            by_force: take it from any other owner, for a script that reports itself.
        """
        if not self.is_on:
            return False
        if self.owner not in ("", owner):
            if self._release is not None:
                self._release()
            elif not by_force:
                return False
        self.owner, self._release = owner, release
        return True

    def let_go(self, owner: str) -> None:
        if self.owner == owner:
            self.owner, self._release = "", None

    def start(self, framework: str, version: str | None, backend: str | None = None) -> bool:
        """Connect if that is not done yet; return whether a monitor listens."""
        if self._emitter is not None:
            return True
        if self._path is None:
            return False
        connect_again = partial(connect, self._path, CLOSE_S)
        try:
            connection = connect_again()
        except OSError:
            self._path = None
            return False
        try:
            emitter = Emitter(connection, self.turn_off, connect_again)
        except Exception as error:  # noqa: BLE001 - whatever it is, the script goes on
            connection.close()
            self.turn_off(error)
            return False
        self.attach(emitter)
        rank, world_size = _rank_and_world_size()
        emitter.send(
            Trainer(
                t=time.monotonic_ns(),
                number=0,
                pid=os.getpid(),
                framework=framework,
                framework_version=version,
                python=platform.python_version(),
                backend=backend,
                rank=rank,
                world_size=world_size,
            )
        )
        emitter.held_lock = HeldLock(str(Path(self._path).with_name(f"{HELD}{os.getpid()}")))
        emitter.take_requests()
        while self._early:
            emitter.send(self._early.popleft())
        if self._time_garbage_collection not in gc.callbacks:
            gc.callbacks.append(self._time_garbage_collection)
        atexit.register(self._close_at_exit)
        _flush_before_hard_exit(self)
        return True

    def attach(self, emitter: Emitter) -> None:
        """Report through a connected emitter."""
        self._emitter, self.batch_ended = emitter, emitter.batch_ended
        emitter.reads, self.reads.is_due = self.reads, True
        emitter.steps = self

    def send(self, item: Mark | Record) -> None:
        if self._emitter is not None:
            self._emitter.send(item)

    def send_or_keep(self, record: NamedPause | OutOfMemory) -> None:
        """Queue a record, or keep it until the process first trains."""
        if self._emitter is not None:
            self._emitter.send(record)
        elif self._path is not None:
            self._early.append(record)

    @property
    def awaits_first_step(self) -> bool:
        """A monitor listens, and this process has not trained yet."""
        return self._emitter is None and self._path is not None

    @property
    def rank(self) -> int | None:
        return _rank_and_world_size()[0]

    def send_now(self, record: NamedPause | Stack) -> None:
        """Send a record at once, even before training: the process may end before it trains."""
        if self._emitter is not None:
            self._emitter.send(record)
        elif self._path is not None:
            # If the monitor is gone, the record doesn't matter.
            with contextlib.suppress(OSError), connect(self._path, CLOSE_S) as connection:
                connection.sendall(encode(record), socket.MSG_NOSIGNAL)

    def _time_garbage_collection(self, phase: str, info: dict[str, int]) -> None:
        """Report a collection of garbage: no other thread runs meanwhile."""
        if phase == "start":
            self._garbage_ns = time.monotonic_ns()
        elif (now := time.monotonic_ns()) - self._garbage_ns >= LEAST_NAMED_NS:
            self.send_or_keep(NamedPause(self._garbage_ns, now, GARBAGE))

    def is_trained_here(self) -> bool:
        """Return whether the running thread is the one that trains."""
        return threading.get_ident() == self._thread

    def send_metrics(self, t: int, values: Mapping[str, Any]) -> None:
        if self._emitter is not None:
            self._emitter.send_metrics(t, values)

    def steady_left_us(self, steady_us: int) -> int:
        """Return how much longer the steady state must last to reach a length of `steady_us`."""
        return 0 if self._emitter is None else self._emitter.steady_left_us(steady_us)

    def enter(self, phase: str, t: int | None = None) -> None:
        self.send(Phase(time.monotonic_ns() if t is None else t, phase))

    def begin_loop(
        self, why: Mapping[str, str] | None = None, infers_length: bool = False, **fields: Any
    ) -> None:
        """Report that a loop, or a `fit`, begins.

        Args:
            why: the reasons of fields that are None.
            infers_length: look for the number of epochs or steps in the script's command line and
                its progress bar.
            fields: fields of `Model`; `epochs` are those of this loop alone.
        """
        self._checks_bar = False
        self._thread = threading.get_ident()
        epochs, why = fields.pop("epochs", None), dict(why or {})
        if infers_length and epochs is None and fields.get("steps") is None:
            if fields.get("has_epochs") is not False:
                length = asked_length(EPOCHS)
                if length is not None and length.number > self._epochs:
                    epochs = length.number - self._epochs
                    fields["length_from"] = length.source
                self._checks_bar, self._loop_begin_s = epochs is None, time.time()
            if epochs is None:
                length = asked_length(STEPS)
                if length is not None:
                    fields |= {"steps": length.number, "length_from": length.source}
            else:
                why.pop("epochs", None)
        sizes = ("parameters", "batch_size", "samples_per_epoch", "steps_per_epoch")
        self._model = Model(
            **{**dict.fromkeys(sizes), **fields},
            flops_per_sample=None,
            epochs=None if epochs is None else self._epochs + epochs,
            loop=self.loops,
            first_epoch=self._epochs,
            why={"flops_per_sample": _why_not_by_sample(fields, why), **why},
        )
        self.send(self._model)
        self.loops += 1
        for hook in self._at_loops:
            hook()

    def describe_loop(self, why: Mapping[str, str] | None = None, **fields: Any) -> None:
        """Report fields of `Model` that were unknown when the loop began.

        Fields that stay unknown are None, and `why` has their reasons.
        """
        if self._model is not None:
            reasons = {name: text for name, text in self._model.why.items() if name not in fields}
            if "flops_per_token" in fields:
                reasons["flops_per_sample"] = _why_not_by_sample(fields, why or {})
            reasons |= {name: text for name, text in (why or {}).items() if name in fields}
            if fields.get("flops_per_sample") is not None:
                reasons.pop("flops_per_sample", None)
            self._model = replace(self._model, why=reasons, **fields)
            self.send(self._model)

    def next_epoch(self) -> int:
        """Return the number of the epoch that begins, counted over all loops."""
        first = self._model.first_epoch if self._model is not None else None
        ended_epochs = self._epochs - (first or 0)
        if self._checks_bar and ended_epochs:
            total = bar_total(ended_epochs, self._loop_begin_s)
            self._checks_bar = total is None and ended_epochs < MOST_BAR_CHECKS
            if total is not None:
                total += first or 0
                self.describe_loop(epochs=total, steps=None, length_from=OF_A_BAR)
        self._epochs += 1
        return self._epochs - 1

    def end_loop(self) -> None:
        self.enter(SCRIPT_PHASE)

    def at_close(self, hook: Callable[[], None]) -> None:
        """Call `hook` as the process ends, before the last records are sent."""
        self._closing.append(guarded(self)(hook))

    def at_loop(self, hook: Callable[[], None]) -> None:
        """Call `hook` whenever a loop has begun, and as the process ends."""
        self._at_loops.append(guarded(self)(hook))

    def turn_off(self, error: BaseException) -> None:
        """Report no more from this process, and send the error as a notice."""
        emitter, self._emitter = self._emitter, None
        path, self._path = self._path, None
        self.batch_ended, self.reads.is_due = _nothing, False
        # If memory is short, this may fail too.
        with contextlib.suppress(Exception):
            why = f"{type(error).__name__}: {error}".removesuffix(": ")
            now, pid = time.monotonic_ns(), os.getpid()
            if emitter is not None:
                text = f"dlmon stopped watching process {pid}: {why}"
                emitter.abandon(Notice(now, text[:500]))
            elif path is not None:
                notice = Notice(now, f"process {pid} is not watched: {why}"[:500])
                with connect(path, CLOSE_S) as connection:
                    # The script may have reset SIGPIPE, which would end it.
                    connection.sendall(encode(notice), socket.MSG_NOSIGNAL)

    def _close_at_exit(self) -> None:
        self._call_closing_hooks()
        self.enter("closing")
        self.close()

    def _call_closing_hooks(self) -> None:
        hooks, self._closing = self._closing, []
        for hook in (*hooks, *self._at_loops):
            hook()

    def close(self, wait_s: float = CLOSE_S) -> None:
        """Send all queued records within `wait_s`, then report no more."""
        self._call_closing_hooks()
        emitter, self._path = self._emitter, None
        self.batch_ended, self.reads.is_due = _nothing, False
        if emitter is not None:
            try:
                emitter.close(wait_s)
            except Exception as error:  # noqa: BLE001 - whatever it is, the script ends well
                self.turn_off(error)
        self._emitter = None

    def _reset(self) -> None:
        """Begin anew in a forked child, which may train on its own."""
        self._emitter, self.owner, self._release, self._model = None, "", None, None
        self._epochs = self.loops = 0
        self._checks_bar = False
        self._closing = []
        self._early.clear()
        self._thread = threading.get_ident()
        self.batch_ended = _nothing
        self.reads.is_due = self.reads.are_reported = False


def _why_not_by_sample(fields: Mapping[str, Any], why: Mapping[str, str]) -> str:
    """Return the reason why a script's operations per sample are unknown."""
    if fields.get("flops_per_token"):
        return "a script's operations are known by token"
    return why.get("flops_per_token", "a script's operations are not counted")


def guarded(reporter: Reporter) -> Callable[[_Function], _Function]:
    """Return a decorator of hooks: an error turns the reporter off and doesn't reach the script."""

    def decorate(hook: _Function) -> _Function:
        @wraps(hook)
        def guard(*arguments: Any, **named: Any) -> Any:
            try:
                return hook(*arguments, **named)
            except Exception as error:  # noqa: BLE001 - whatever it is, the script goes on
                reporter.turn_off(error)
                return None

        return guard  # type: ignore[return-value]

    return decorate


def uncompiled(function: _Function) -> _Function:
    """Let `torch.compile` call a function as it is, without a warning."""
    function._torchdynamo_disable = True  # type: ignore[attr-defined]
    return function


def hide_this_frame(error: BaseException) -> None:
    """Remove the calling frame from a script's error, so that it prints as without dlmon.

    The caller must have caught it, and re-raise it by a bare `raise`.
    """
    if error.__traceback__ is not None:
        error.__traceback__ = error.__traceback__.tb_next


def wrap(
    holder: Any,
    name: str,
    reporter: Reporter,
    *,
    before: Callable[..., Any] = _nothing,
    after: Callable[..., None] = _nothing,
    always: bool = False,
) -> None:
    """Call hooks before and after a function or method; their errors turn the reporter off.

    Args:
        holder: the module or class of the function.
        name: the name of the function.
        reporter: while it is off, no hook is called.
        before: called with the function's arguments.
        after: called with the results of `before` and of the function, and its arguments.
        always: call `after` also if the function raises, with a result of None.
    """
    function = getattr(holder, name)
    if hasattr(function, WATCHED):
        return

    @uncompiled
    @wraps(function)
    def wrapped(*arguments: Any, **named: Any) -> Any:
        if not reporter.is_on:
            return function(*arguments, **named)
        prepared = result = None
        try:
            prepared = before(*arguments, **named)
        except Exception as error:  # noqa: BLE001 - whatever it is, the script goes on
            reporter.turn_off(error)
        calls_after = always
        try:
            result = function(*arguments, **named)
            calls_after = True
        except BaseException as error:
            hide_this_frame(error)
            raise
        finally:
            if calls_after:
                try:
                    after(prepared, result, *arguments, **named)
                except Exception as error:  # noqa: BLE001 - as above
                    reporter.turn_off(error)
        return result

    setattr(wrapped, WATCHED, True)
    setattr(holder, name, wrapped)


def _whole_number(name: str) -> int | None:
    value = os.environ.get(name, "")
    return int(value) if value.isascii() and value.isdecimal() else None


def _rank_and_world_size() -> tuple[int | None, int | None]:
    """Return the rank and world size from the environment, else from PyTorch.

    `multiprocessing` and Lightning start ranks without setting the environment.
    """
    rank, world_size = _whole_number("RANK"), _whole_number("WORLD_SIZE")
    distributed = sys.modules.get("torch.distributed")
    if rank is None and distributed is not None:
        try:
            if distributed.is_available() and distributed.is_initialized():
                return distributed.get_rank(), distributed.get_world_size()
        except Exception:  # noqa: BLE001 - whatever it is, the script goes on
            return None, None
    return rank, world_size


def _flush_before_hard_exit(reporter: Reporter) -> None:
    """Make `os._exit`, which runs no other hook, send all queued records first."""
    exit_now, pid = os._exit, os.getpid()

    @wraps(exit_now)
    def flush_and_exit(status: int) -> None:
        if os.getpid() == pid:
            reporter.close()
        exit_now(status)

    os._exit = flush_and_exit  # type: ignore[assignment]


REPORTER = Reporter(os.environ.get(SOCKET))
"""The reporter of this process."""
