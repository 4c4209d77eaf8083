"""How a session ended: its status, why in words, and the result record."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from pathlib import Path

from dlmon.job import Job
from dlmon.records import Model, Result
from dlmon.session import Snapshot

SIGNAL_WORDS = {
    signal.SIGSEGV: "it crashed with a segmentation fault (SIGSEGV)",
    signal.SIGABRT: "it aborted (SIGABRT)",
    signal.SIGBUS: "it crashed with a bus error (SIGBUS)",
    signal.SIGILL: "it used an instruction that this CPU lacks (SIGILL)",
    signal.SIGFPE: "it crashed with an arithmetic error (SIGFPE)",
    signal.SIGTERM: "it was ended from outside (SIGTERM)",
}


@dataclass(frozen=True)
class Ending:
    """How the workload's process ended.

    `exit_code` is negative for a signal, None when it never started. `failure`
    is the reason that it told itself. `out_of_memory` says that the kernel
    killed something for want of memory while it ran.
    """

    exit_code: int | None
    stop_asked: bool
    failure: str | None
    out_of_memory: bool


def make_result(
    job: Job, log: str, snapshot: Snapshot, ending: Ending, now_ns: int, wall: float
) -> Result:
    """Return the result record of a session whose figures are in `snapshot`."""
    header, model = snapshot.header, snapshot.model
    status, error = _status(ending, _batch_size(job, model))
    why = dict(snapshot.why)
    if snapshot.seconds_per_epoch is not None and not snapshot.seconds_per_epoch.projected:
        why.pop("validation", None)
    if model is None:
        why["device"] = "the workload ended before it chose one"
    return Result(
        status=status,
        session=header.id,
        log=log,
        workload=job.workload,
        device=model.device if model else None,
        device_name=_device_name(snapshot),
        data=model.data if model else None,
        options=job.options,
        wall_s=round((now_ns - header.t) / 1e9, 3),
        seconds_per_epoch=snapshot.seconds_per_epoch,
        run_seconds=snapshot.run_seconds,
        samples_per_second=snapshot.samples_per_second,
        step_ms=snapshot.step_ms,
        compile_s=snapshot.compile_s,
        error=error,
        exit_code=ending.exit_code,
        epochs=len(snapshot.epochs),
        batches=snapshot.batches,
        stalls=snapshot.stalls,
        t=now_ns,
        wall=wall,
        why=why,
    )


def oom_kills() -> int | None:
    """Return how many processes the kernel has killed for want of memory since it booted."""
    try:
        with Path("/proc/vmstat").open() as lines:
            for line in lines:
                if line.startswith("oom_kill "):
                    return int(line.split()[1])
    except OSError:
        return None
    return None


def _status(ending: Ending, batch_size: object) -> tuple[str, str | None]:
    """Return completed, stopped or failed, and the error in words."""
    code = ending.exit_code
    if code == 0:
        return "completed", None
    if ending.stop_asked:
        return "stopped", None
    if ending.failure is not None:
        return "failed", ending.failure
    if code is None or code > 0:
        return "failed", f"the workload ended with exit code {code} and gave no reason"
    if -code == signal.SIGKILL and ending.out_of_memory:
        size = f" (batch size {batch_size})" if batch_size else ""
        return "failed", f"memory ran out{size} and the kernel killed it"
    return "failed", _signal_words(-code)


def _signal_words(number: int) -> str:
    if number == signal.SIGKILL:
        return "it was killed from outside (SIGKILL)"
    try:
        known = signal.Signals(number)
    except ValueError:
        return f"it ended by signal {number}"
    return SIGNAL_WORDS.get(known, f"it ended by {known.name}")


def _batch_size(job: Job, model: Model | None) -> object:
    return model.batch_size if model is not None else job.options.get("batch_size")


def _device_name(snapshot: Snapshot) -> str | None:
    model = snapshot.model
    if model is not None and model.device == "cpu":
        return model.device_name or snapshot.header.machine.cpu_model
    return model.device_name if model is not None else None
