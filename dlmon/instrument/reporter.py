"""What a process reports to the monitor that started it, over a socket, and how hooks are set.

There is one reporter in a process. In a script it connects when that first trains, so a process
that only imports a framework, as one that loads data does, never shows up; a workload of ours has
its connection from its start. Whatever goes wrong here turns it off, with a notice in the log where
that still can be sent, and the script goes on.
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
    Trainer,
    encode,
)

SOCKET = "DLMON_SOCKET"
"""The environment's name for the path of the monitor's socket."""

SEEN = "seen "
"""How the names of the files begin that say, beside the socket, what a process was seen to do."""

# What is left is sent at the end of the process: no monitor holds it up for longer.
CLOSE_S = 2.0
# So many pauses and errors are kept for when the process first trains.
WAITING_PAUSES = 4096
# At the starts of so many epochs it is looked whether a progress bar counts them.
MOST_LOOKS = 5

WATCHED = "_dlmon_watched"
"""The attribute of a function that calls hooks of ours."""

_Function = TypeVar("_Function", bound=Callable[..., Any])


def _nothing(*arguments: Any, **named: Any) -> None:
    """Stand for a hook, or for what takes a batch, where none is needed."""


class Reporter:
    """Reports what this process trains; does nothing where no monitor listens.

    Args:
        path: the monitor's socket; None where there is none, or `attach` connects.
    """

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._emitter: Emitter | None = None
        self.owner = ""
        """What reports; empty where nothing does."""
        self._yields: Callable[[], None] | None = None
        self._model: Model | None = None
        self._epochs = 0
        self._closing: list[Callable[[], None]] = []
        self._seen: set[str] = set()
        self._early: deque[NamedPause | OutOfMemory] = deque(maxlen=WAITING_PAUSES)
        self._thread = threading.main_thread().ident
        self._garbage_ns = 0
        self._looks_at_bar, self._began_wall = False, 0.0
        self.loops = 0
        """How many loops have begun."""
        self.batch_ended: Callable[[Queued], None] = _nothing
        """Queue a batch; the one call on a training loop's fast path."""
        self.reads = TrainingFlags()
        """What is asked of training; the same object for as long as the process lives."""
        os.register_at_fork(after_in_child=self._forget)

    @property
    def is_on(self) -> bool:
        """Whether a monitor listens, or may."""
        return self._path is not None or self._emitter is not None

    @property
    def path(self) -> str:
        return self._path or ""

    def may_take(self, owner: str) -> bool:
        return self.is_on and (self.owner in ("", owner) or self._yields is not None)

    def saw(self, what: str) -> None:
        """Leave a word for the monitor, once: of a script that trains nothing, it says why."""
        if what not in self._seen and self._path is not None:
            self._seen.add(what)
            leave_word(self._path, what)

    def take(
        self, owner: str, yields: Callable[[], None] | None = None, by_force: bool = False
    ) -> bool:
        """Return whether `owner` is what reports from now on.

        Keras on Torch reads a loader, and a Trainer of Transformers too: of what sees the same
        batches, the first that takes the reporter counts them, until it lets go.

        Args:
            owner: what reports.
            yields: lets something else have the reporter that asks for it: ends what was reported.
            by_force: whatever reported so far: a script that reports itself knows best.
        """
        if not self.is_on:
            return False
        if self.owner not in ("", owner):
            if self._yields is not None:
                self._yields()
            elif not by_force:
                return False
        self.owner, self._yields = owner, yields
        return True

    def let_go(self, owner: str) -> None:
        if self.owner == owner:
            self.owner, self._yields = "", None

    def start(self, framework: str, version: str | None, backend: str | None = None) -> bool:
        """Connect, unless that is done; return whether anybody listens.

        Args:
            framework: what counts the batches.
            version: its version.
            backend: what Keras runs on.
        """
        if self._emitter is not None:
            return True
        if self._path is None:
            return False
        reach = partial(connect, self._path, CLOSE_S)
        try:
            connection = reach()
        except OSError:
            self._path = None
            return False
        try:
            emitter = Emitter(connection, self.turn_off, reach)
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
        if self._collecting not in gc.callbacks:
            gc.callbacks.append(self._collecting)
        atexit.register(self._end_with_process)
        _flush_before_hard_exit(self)
        return True

    def attach(self, emitter: Emitter) -> None:
        """Report by this emitter, which is connected."""
        self._emitter, self.batch_ended = emitter, emitter.batch_ended
        emitter.reads, self.reads.is_due = self.reads, True
        emitter.steps = self

    def send(self, item: Mark | Record) -> None:
        if self._emitter is not None:
            self._emitter.send(item)

    def send_or_keep(self, record: NamedPause | OutOfMemory) -> None:
        """Queue a record; before the process first trains, keep it until then."""
        if self._emitter is not None:
            self._emitter.send(record)
        elif self._path is not None:
            self._early.append(record)

    def send_now(self, record: NamedPause) -> None:
        """Send a record, also before the process first trains: it may be ended before that."""
        if self._emitter is not None:
            self._emitter.send(record)
        elif self._path is not None:
            # Where nobody listens any more, nobody misses it.
            with contextlib.suppress(OSError), connect(self._path, CLOSE_S) as connection:
                connection.sendall(encode(record), socket.MSG_NOSIGNAL)

    def _collecting(self, phase: str, known: dict[str, int]) -> None:
        """Time a collection of garbage: whatever thread collects, no other one runs meanwhile."""
        if phase == "start":
            self._garbage_ns = time.monotonic_ns()
        elif (now := time.monotonic_ns()) - self._garbage_ns >= LEAST_NAMED_NS:
            self.send_or_keep(NamedPause(self._garbage_ns, now, GARBAGE))

    def is_trained_here(self) -> bool:
        """Return whether it is the running thread that trains, as far as that is known."""
        return threading.get_ident() == self._thread

    def send_metrics(self, t: int, values: Mapping[str, Any]) -> None:
        """Queue metrics that were read as a batch ended."""
        if self._emitter is not None:
            self._emitter.send_metrics(t, values)

    def steady_left_us(self, steady_us: int) -> int:
        """Return how much longer batches must run until the steady state has lasted so long."""
        return 0 if self._emitter is None else self._emitter.steady_left_us(steady_us)

    def enter(self, phase: str, t: int | None = None) -> None:
        self.send(Phase(time.monotonic_ns() if t is None else t, phase))

    def begin_loop(
        self, why: Mapping[str, str] | None = None, infers_length: bool = False, **known: Any
    ) -> None:
        """Report that another loop, or another `fit`, begins: what it trains, and on how much.

        Args:
            why: reasons of what is None.
            infers_length: look for the number of epochs, or of steps, in the script's command line
                and its progress bar.
            known: fields of `Model`; `epochs` are those that this loop is to have.
        """
        self._looks_at_bar = False
        self._thread = threading.get_ident()
        epochs, why = known.pop("epochs", None), dict(why or {})
        if infers_length and epochs is None and known.get("steps") is None:
            if known.get("has_epochs") is not False:
                length = asked_length(EPOCHS)
                if length is not None and length.number > self._epochs:
                    epochs = length.number - self._epochs
                    known["length_from"] = length.said_by
                self._looks_at_bar, self._began_wall = epochs is None, time.time()
            if epochs is None:
                length = asked_length(STEPS)
                if length is not None:
                    known |= {"steps": length.number, "length_from": length.said_by}
            else:
                why.pop("epochs", None)
        sizes = ("parameters", "batch_size", "samples_per_epoch", "steps_per_epoch")
        self._model = Model(
            **{**dict.fromkeys(sizes), **known},
            flops_per_sample=None,
            epochs=None if epochs is None else self._epochs + epochs,
            loop=self.loops,
            first_epoch=self._epochs,
            why={"flops_per_sample": _why_not_by_sample(known, why), **why},
        )
        self.send(self._model)
        self.loops += 1

    def describe_loop(self, why: Mapping[str, str] | None = None, **known: Any) -> None:
        """Report more of the loop that runs: fields of `Model` that were not known at its start.

        Those that turn out not to be known are None, and `why` has the reason.
        """
        if self._model is not None:
            reasons = {name: text for name, text in self._model.why.items() if name not in known}
            if "flops_per_token" in known:
                reasons["flops_per_sample"] = _why_not_by_sample(known, why or {})
            reasons |= {name: text for name, text in (why or {}).items() if name in known}
            if known.get("flops_per_sample") is not None:
                reasons.pop("flops_per_sample", None)
            self._model = replace(self._model, why=reasons, **known)
            self.send(self._model)

    def next_epoch(self) -> int:
        """Return the number of the epoch that begins; those of all loops count on."""
        first = self._model.first_epoch if self._model is not None else None
        ended = self._epochs - (first or 0)
        if self._looks_at_bar and ended:
            total = bar_total(ended, self._began_wall)
            self._looks_at_bar = total is None and ended < MOST_LOOKS
            if total is not None:
                total += first or 0
                self.describe_loop(epochs=total, steps=None, length_from=OF_A_BAR)
        self._epochs += 1
        return self._epochs - 1

    def end_loop(self) -> None:
        """Report that what follows is no training."""
        self.enter(SCRIPT_PHASE)

    def at_close(self, hook: Callable[[], None]) -> None:
        """Call `hook` before the last is sent, for what counts only once it has ended."""
        self._closing.append(guarded(self)(hook))

    def turn_off(self, error: BaseException) -> None:
        """Report no more from this process, and let the log say why."""
        emitter, self._emitter = self._emitter, None
        path, self._path = self._path, None
        self.batch_ended, self.reads.is_due = _nothing, False
        # Where memory is short, this may fail too.
        with contextlib.suppress(Exception):
            why = f"{type(error).__name__}: {error}".removesuffix(": ")
            now, pid = time.monotonic_ns(), os.getpid()
            if emitter is not None:
                text = f"dlmon stopped watching process {pid}: {why}"
                emitter.abandon(Notice(now, text[:500]))
            elif path is not None:
                notice = Notice(now, f"process {pid} is not watched: {why}"[:500])
                with connect(path, CLOSE_S) as connection:
                    # A script may have made SIGPIPE end it again.
                    connection.sendall(encode(notice), socket.MSG_NOSIGNAL)

    def _end_with_process(self) -> None:
        """Say that the script is over and its process ends, and send what is left."""
        self._call_hooks()
        self.enter("closing")
        self.close()

    def _call_hooks(self) -> None:
        hooks, self._closing = self._closing, []
        for hook in hooks:
            hook()

    def close(self, wait_s: float = CLOSE_S) -> None:
        """Send what is left, for so long at most, and nothing more."""
        self._call_hooks()
        emitter, self._path = self._emitter, None
        self.batch_ended, self.reads.is_due = _nothing, False
        if emitter is not None:
            try:
                emitter.close(wait_s)
            except Exception as error:  # noqa: BLE001 - whatever it is, the script ends well
                self.turn_off(error)
        self._emitter = None

    def _forget(self) -> None:
        """Begin again in a forked child, which trains itself or doesn't; the parent goes on."""
        self._emitter, self.owner, self._yields, self._model = None, "", None, None
        self._epochs = self.loops = 0
        self._looks_at_bar = False
        self._closing = []
        self._early.clear()
        self._thread = threading.get_ident()
        self.batch_ended = _nothing
        self.reads.is_due = self.reads.are_reported = False


def _why_not_by_sample(known: Mapping[str, Any], why: Mapping[str, str]) -> str:
    """Say why the operations of a script aren't known by sample, from what is known by token."""
    if known.get("flops_per_token"):
        return "a script's operations are known by token"
    return why.get("flops_per_token", "a script's operations are not counted")


def leave_word(path: str, what: str) -> None:
    """Leave an empty file beside the monitor's socket."""
    with contextlib.suppress(OSError):
        Path(path).with_name(SEEN + what).touch()


def guarded(reporter: Reporter) -> Callable[[_Function], _Function]:
    """Return what keeps an error of ours in a hook from the script that the hook is called by."""

    def keep(hook: _Function) -> _Function:
        @wraps(hook)
        def guard(*arguments: Any, **named: Any) -> Any:
            try:
                return hook(*arguments, **named)
            except Exception as error:  # noqa: BLE001 - whatever it is, the script goes on
                reporter.turn_off(error)
                return None

        return guard  # type: ignore[return-value]

    return keep


def hide_this_frame(error: BaseException) -> None:
    """Let what a script prints of its own error be the same as without us.

    To be called by the frame that caught it, which then raises it again without naming it.
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


def _whole_number(name: str) -> int | None:
    value = os.environ.get(name, "")
    return int(value) if value.isascii() and value.isdecimal() else None


def _rank_and_world_size() -> tuple[int | None, int | None]:
    """Return what the launcher says of a data-parallel run; else PyTorch, where it is set up.

    `multiprocessing`, and Lightning, start ranks without saying so in the environment.
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
    """Send what is left where a script ends by `os._exit`, which runs nothing else."""
    leave, pid = os._exit, os.getpid()

    @wraps(leave)
    def flush_and_leave(status: int) -> None:
        if os.getpid() == pid:
            reporter.close()
        leave(status)

    os._exit = flush_and_leave  # type: ignore[assignment]


REPORTER = Reporter(os.environ.get(SOCKET))
"""The one of this process."""
