"""Profile the next steps with the framework's own profiler, on request.

A profile starts and ends as the training thread queues a batch. `batch_ended` is replaced only
during a profile, so that other steps cost nothing. A thread of its own writes the trace.

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
"""The longest wait for a step: a script may never run another one."""
WAIT_IN_PAUSE_NS = 1_500_000_000
"""The longest wait for the first step in a pause, which may never end."""
_RUNNING = "a profile is being made already"
BESIDE_A_GPU = (
    "on a GPU, Keras calls its hooks beside the training, and a profiler that starts there may "
    "break the run"
)
"""On an H100, three of eight JAX runs that were profiled this way failed in cuDNN."""

Write = Callable[[], None]
"""Writes the trace of a profiler that has stopped."""


class Torch:
    """PyTorch's profiler."""

    def has_gpu(self) -> bool:
        return bool(sys.modules["torch"].cuda.is_initialized())

    def wait(self) -> None:
        """Wait for the devices, so that the trace has only its own steps."""
        if self.has_gpu():
            sys.modules["torch"].cuda.synchronize()

    def start(self, path: str) -> Callable[[], Write]:
        """Start a profiler that writes to a path; return the function that stops it."""
        profiler: Any = sys.modules["torch"].profiler
        options: dict[str, Any] = {}
        with contextlib.suppress(Exception):
            # From PyTorch 2.5 on; before, it sees only the thread that starts it, and backward's.
            config = sys.modules["torch._C._profiler"]._ExperimentalConfig
            options["experimental_config"] = config(profile_all_threads=True)
        profile = profiler.profile(**options)
        profile.start()

        def stop() -> Write:
            profile.stop()
            # Compressed if the name ends in .gz.
            return lambda: profile.export_chrome_trace(path)

        return stop


class Jax:
    """JAX's profiler."""

    def has_gpu(self) -> bool:
        return bool(sys.modules["jax"].default_backend() != "cpu")

    def wait(self) -> None:
        jax: Any = sys.modules["jax"]
        for device in jax.local_devices():
            # A device computes in order: this ends after all that was queued.
            (jax.device_put(0.0, device) + 1).block_until_ready()

    def start(self, path: str) -> Callable[[], Write]:
        profiler: Any = sys.modules["jax"].profiler
        return _start_in_folder(path, profiler.start_trace, profiler.stop_trace)


class TensorFlow:
    """TensorFlow's profiler."""

    def has_gpu(self) -> bool:
        return bool(sys.modules["tensorflow"].config.list_physical_devices("GPU"))

    def wait(self) -> None:
        sys.modules["tensorflow"].test.experimental.sync_devices()

    def start(self, path: str) -> Callable[[], Write]:
        profiler: Any = sys.modules["tensorflow"].profiler.experimental
        return _start_in_folder(path, profiler.start, profiler.stop)


def _start_in_folder(
    path: str, start: Callable[[str], None], stop_trace: Callable[[], None]
) -> Callable[[], Write]:
    """Start a profiler that writes a folder, of which only the file of events is kept."""
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
        send: takes the records and marks of a profile.
        steps: returns the object whose `batch_ended` the training thread calls.
        pause_ns: returns the length of training's pause at a time; 0 if there is none.
    """

    def __init__(
        self,
        send: Callable[[Mark | Record], None],
        steps: Callable[[], Any],
        pause_ns: Callable[[int], int] = lambda now: 0,
    ) -> None:
        self._send, self._steps, self._pause_ns = send, steps, pause_ns
        self.backend: str | None = None
        """The framework that computes the batches, if known."""
        self._profile: _Steps | None = None

    def begin(self, number: int, request: Mapping[str, Any]) -> None:
        """Profile the next steps.

        Raises:
            RefusedRequest: they can't be profiled.
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
        """Give up a profile whose next step does not come."""
        if self._profile is not None and not self._profile.is_over:
            self._profile.tick(now, self._pause_ns(now))


class _Steps:
    """One profile; its `ended` replaces `batch_ended` of the training thread."""

    def __init__(
        self,
        number: int,
        steps: int,
        path: str,
        name: str,
        send: Callable[[Mark | Record], None],
        holder: Any,
    ) -> None:
        self._number, self._steps_wanted, self._path, self._name = number, steps, path, name
        self._send, self._holder = send, holder
        self._lock = threading.Lock()
        self._profiler = PROFILERS[name]
        self._stop: Callable[[], Write] | None = None
        self._begin = self._end = self._last = time.monotonic_ns()
        self._steps_done = 0
        self.is_over = False
        self._queue: Callable[[Queued], None] = holder.batch_ended
        # One object to compare with: each access to a method creates another.
        self._replacement = self.ended
        holder.batch_ended = self._replacement

    def ended(self, item: Queued) -> None:
        """Queue a batch, and begin or end the profile; an error ends only the profile."""
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
        self._steps_done += 1
        if self._steps_done >= self._steps_wanted:
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
        """Restore `batch_ended`, unless the reporter was turned off meanwhile."""
        self.is_over = True
        if self._stop is not None:
            self._send(ProfiledSteps(False))
        if self._holder.batch_ended is self._replacement:
            self._holder.batch_ended = self._queue

    def _write(self, write: Write) -> None:
        try:
            write()
        except Exception as error:  # noqa: BLE001 - a full disk, or an error of the framework
            self._remove_trace()
            self._report(f"the trace can't be written: {type(error).__name__}: {error}"[:300])
        else:
            self._report(None)

    def _fail(self, why: str) -> None:
        if not self.is_over:
            self._leave()
        self._remove_trace()
        self._report(why)

    def _report(self, why: str | None) -> None:
        has_begun = self._stop is not None
        self._send(
            Profile(
                t=time.monotonic_ns(),
                request=self._number,
                begin=self._begin if has_begun else None,
                end=self._end if has_begun else None,
                steps=self._steps_done,
                profiler=self._name,
                why={} if why is None else {"file": why},
            )
        )

    def _remove_trace(self) -> None:
        with contextlib.suppress(OSError):
            Path(self._path).unlink()

    def tick(self, now: int, pause_ns: int) -> None:
        """Give up if no step came for long; a profile that has begun ends with the steps it has."""
        in_pause = pause_ns > 0 and self._stop is None
        wait_ns = WAIT_IN_PAUSE_NS if in_pause else WAIT_NS
        if now - self._last < wait_ns or not self._lock.acquire(blocking=False):
            return
        try:
            if self._stop is not None and self._steps_done:
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
