"""Have the framework's own profiler watch some steps, from the next one on, when that is asked for.

It starts and ends where the training thread queues a batch: what it calls there is replaced for as
long as a profile is wanted, so that a step costs nothing else otherwise. The trace is written by a
thread of its own.

Runs in the trained interpreter: standard library only, Python 3.10 syntax.
"""

from __future__ import annotations

import contextlib
import shutil
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from dlmon.instrument.queued import Interruption, Mark, ProfiledSteps, Queued
from dlmon.instrument.requests import RefusedRequest
from dlmon.records import Profile, Record

MOST_STEPS = 1000
WAIT_NS = 120_000_000_000
"""So long a step is waited for: a script may never do another one."""
WAIT_IN_PAUSE_NS = 1_500_000_000
"""So long the first step is waited for in a pause, which may be the end of all steps."""
_RUNNING = "a profile is being made already"
BESIDE_A_GPU = (
    "on a GPU, Keras calls its hooks beside the training, and a profiler that starts there may "
    "break the run"
)
"""Seen of JAX on an H100: of eight runs that were profiled so, three failed in cuDNN."""

Write = Callable[[], None]
"""Writes the trace of a profiler that has stopped."""


class Torch:
    """PyTorch's profiler."""

    def has_gpu(self) -> bool:
        """Return whether it computes on a GPU."""
        return bool(sys.modules["torch"].cuda.is_initialized())

    def wait(self) -> None:
        """Wait until devices have done what was queued, so that a trace holds its steps alone."""
        if self.has_gpu():
            sys.modules["torch"].cuda.synchronize()

    def start(self, path: str) -> Callable[[], Write]:
        """Start a profiler that writes to a path; return what stops it."""
        profiler: Any = sys.modules["torch"].profiler
        named: dict[str, Any] = {}
        with contextlib.suppress(Exception):
            # Of PyTorch 2.5 on; else it sees the thread that it is started in, and backward's.
            config = sys.modules["torch._C._profiler"]._ExperimentalConfig
            named["experimental_config"] = config(profile_all_threads=True)
        profile = profiler.profile(**named)
        profile.start()

        def stop() -> Write:
            profile.stop()
            # By its name it is compressed.
            return lambda: profile.export_chrome_trace(path)

        return stop


class Jax:
    """JAX's profiler."""

    def has_gpu(self) -> bool:
        return bool(sys.modules["jax"].default_backend() != "cpu")

    def wait(self) -> None:
        jax: Any = sys.modules["jax"]
        for device in jax.local_devices():
            # A device computes in the order in which it was asked.
            (jax.device_put(0.0, device) + 1).block_until_ready()

    def start(self, path: str) -> Callable[[], Write]:
        profiler: Any = sys.modules["jax"].profiler
        return _started(path, profiler.start_trace, profiler.stop_trace)


class TensorFlow:
    """TensorFlow's profiler."""

    def has_gpu(self) -> bool:
        return bool(sys.modules["tensorflow"].config.list_physical_devices("GPU"))

    def wait(self) -> None:
        sys.modules["tensorflow"].test.experimental.sync_devices()

    def start(self, path: str) -> Callable[[], Write]:
        profiler: Any = sys.modules["tensorflow"].profiler.experimental
        return _started(path, profiler.start, profiler.stop)


def _started(
    path: str, start: Callable[[str], None], stop_trace: Callable[[], None]
) -> Callable[[], Write]:
    """Start a profiler that writes a folder of its own; of that, the one file of events is kept."""
    folder = f"{path}.folder"
    start(folder)

    def stop() -> Write:
        try:
            stop_trace()
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        return keep

    def keep() -> None:
        try:
            (file,) = Path(folder).glob("plugins/profile/*/*.xplane.pb")
            file.replace(path)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    return stop


Profiler = Torch | Jax | TensorFlow
PROFILERS: dict[str, Profiler] = {"torch": Torch(), "jax": Jax(), "tensorflow": TensorFlow()}


class Profiles:
    """Makes one profile at a time.

    Args:
        send: takes what is said of it.
        steps: returns the object whose `batch_ended` the training thread calls.
        pause_ns: returns how long the pause has lasted that training is in by a time; 0 in none.
    """

    def __init__(
        self,
        send: Callable[[Mark | Record], None],
        steps: Callable[[], Any],
        pause_ns: Callable[[int], int] = lambda now: 0,
    ) -> None:
        self._send, self._steps, self._pause_ns = send, steps, pause_ns
        self.backend: str | None = None
        """What the batches are computed with, where that is known."""
        self._profile: _Steps | None = None

    def begin(self, number: int, request: Mapping[str, Any]) -> None:
        """Have the next steps watched.

        Raises:
            RefusedRequest: they can't be.
        """
        steps, path = request.get("steps"), request.get("path")
        if type(steps) is not int or not 0 < steps <= MOST_STEPS or not isinstance(path, str):
            raise RefusedRequest(f"a profile has 1 to {MOST_STEPS:,} steps")
        if self._profile is not None and not self._profile.is_over:
            raise RefusedRequest(_RUNNING)
        loaded = [name for name in PROFILERS if name in sys.modules]
        name = self.backend if self.backend in loaded else next(iter(loaded), None)
        if name is None:
            raise RefusedRequest("it has no profiler: it uses none of PyTorch, JAX and TensorFlow")
        self._profile = _Steps(number, steps, path, name, self._send, self._steps())

    def tick(self, now: int) -> None:
        """Give up what waits for a step that does not come."""
        if self._profile is not None and not self._profile.is_over:
            self._profile.tick(now, self._pause_ns(now))


class _Steps:
    """The steps of one profile; `ended` stands where the training thread queues its batches."""

    def __init__(
        self,
        number: int,
        steps: int,
        path: str,
        name: str,
        send: Callable[[Mark | Record], None],
        holder: Any,
    ) -> None:
        self._number, self._wanted, self._path, self._name = number, steps, path, name
        self._send, self._holder = send, holder
        self._lock = threading.Lock()
        self._profiler = PROFILERS[name]
        self._stop: Callable[[], Write] | None = None
        self._begin = self._end = self._last = time.monotonic_ns()
        self._done = 0
        self.is_over = False
        self._queue: Callable[[Queued], None] = holder.batch_ended
        # One that is there for good: each access to a method makes another.
        self._in_place = self.ended
        holder.batch_ended = self._in_place

    def ended(self, item: Queued) -> None:
        """Queue a batch, and begin or end the profile; what goes wrong ends it alone."""
        self._queue(item)
        # Hooks of Keras may come from several threads at once.
        if self.is_over or not self._lock.acquire(blocking=False):
            return
        try:
            self._step()
        except Exception as error:  # noqa: BLE001 - whatever it is, the script goes on
            self._fail(f"{type(error).__name__}: {error}"[:300])
        finally:
            self._lock.release()

    def _step(self) -> None:
        self._last = time.monotonic_ns()
        if self._stop is None:
            is_beside = threading.current_thread() is not threading.main_thread()
            if is_beside and self._profiler.has_gpu():
                self._fail(BESIDE_A_GPU)
                return
            self._profiler.wait()
            self._stop = self._profiler.start(self._path)
            self._send(ProfiledSteps(True))
            self._begin = time.monotonic_ns()
            return
        self._done += 1
        if self._done >= self._wanted:
            self._finish(self._last)

    def _finish(self, now: int) -> None:
        assert self._stop is not None
        self._leave()
        self._profiler.wait()
        self._end = time.monotonic_ns()
        write = self._stop()
        self._send(Interruption(now, time.monotonic_ns()))
        thread = threading.Thread(target=self._write, args=(write,), name="dlmon-trace")
        thread.daemon = True
        thread.start()

    def _leave(self) -> None:
        """Let batches be queued as before; what turned the reporter off meanwhile stays."""
        self.is_over = True
        if self._stop is not None:
            self._send(ProfiledSteps(False))
        if self._holder.batch_ended is self._in_place:
            self._holder.batch_ended = self._queue

    def _write(self, write: Write) -> None:
        try:
            write()
        except Exception as error:  # noqa: BLE001 - a full disk, or whatever the framework raises
            self._remove()
            self._say(f"the trace can't be written: {type(error).__name__}: {error}"[:300])
        else:
            self._say(None)

    def _fail(self, why: str) -> None:
        if not self.is_over:
            self._leave()
        self._remove()
        self._say(why)

    def _say(self, why: str | None) -> None:
        has_begun = self._stop is not None
        self._send(
            Profile(
                t=time.monotonic_ns(),
                request=self._number,
                begin=self._begin if has_begun else None,
                end=self._end if has_begun else None,
                steps=self._done,
                profiler=self._name,
                why={} if why is None else {"file": why},
            )
        )

    def _remove(self) -> None:
        with contextlib.suppress(OSError):
            Path(self._path).unlink()

    def tick(self, now: int, pause_ns: int) -> None:
        """Give up where no step came for long; a profile that has begun ends with those it has."""
        in_pause = pause_ns > 0 and self._stop is None
        wait_ns = WAIT_IN_PAUSE_NS if in_pause else WAIT_NS
        if now - self._last < wait_ns or not self._lock.acquire(blocking=False):
            return
        try:
            if self._stop is not None and self._done:
                self._finish(now)
                return
            if self._stop is not None:
                self._stop()
            quiet_s = (pause_ns if in_pause else now - self._last) / 1e9
            self._fail(f"no step has come for {quiet_s:.0f} s: ask again once steps come")
        except Exception as error:  # noqa: BLE001 - whatever it is, the script goes on
            self._fail(f"{type(error).__name__}: {error}"[:300])
        finally:
            self._lock.release()
