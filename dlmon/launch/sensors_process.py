"""Run a sensors process: start it, read it, and replace it when it dies or sends no samples.

The supervisor, and a screen without a session, use this on their asyncio loop. It never waits
for a process to die, because one that hangs in a driver may not. After such a loss the next
process does not use NVIDIA's driver, and after another loss no GPU, so that the other readings go
on, and a second process (the probe) tries the driver again, with back-off, until the driver answers
and the probe takes over.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace

from dlmon.records import Facts, Gpu, Machine, Notice, RecordError, decode
from dlmon.records.sanitize import clean
from dlmon.system.children import die_with_parent, end_process, python_command

# Without persistence mode, a driver takes a second or two per GPU to initialise.
START_S = 20.0
FACTS_S = 25.0
"""The time limit for a machine's facts before a run, or in `dlmon doctor`."""
BACK_OFF_S = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0)
# After running this long, a process's next loss starts the back-off from the beginning.
HEALTHY_S = 60.0
# If a check is this late, we were suspended ourselves.
SUSPENDED_S = 1.0
_EXIT_WAIT_S = 0.1
LINE_BYTES = 4 << 20


class SensorsProcess:
    """A sensors process and its successors.

    Args:
        interval_s: time between samples.
        on_facts: called with the static facts of the machine, after every start and when a GPU
            is found later.
        on_sample: called with every sample.
        on_notice: called with a sentence when the process, or a GPU, is lost or back.
        pcie: also measure the traffic of the GPUs' PCIe links, which takes 40 ms per GPU.
        wake: a GPU is about to be used, so suspended GPUs may be woken.
        at_once: send the first sample with the facts, sooner, for a person who waits to see the
            machine; its CPU load is not representative.
        processes: read all processes each time, and nothing else.
        on_no_facts: called when a process that does not use the GPUs ended without facts.
    """

    def __init__(
        self,
        interval_s: float,
        on_facts: Callable[[Facts], None],
        on_sample: Callable[[Machine], None],
        on_notice: Callable[[str], None],
        command: list[str] | None = None,
        pcie: bool = False,
        wake: bool = False,
        at_once: bool = False,
        processes: bool = False,
        on_no_facts: Callable[[], None] = lambda: None,
    ) -> None:
        self._command = command or [
            *python_command("dlmon.sensors"),
            "--interval",
            str(interval_s),
            *(["--pcie"] if pcie else []),
            *(["--wake"] if wake else []),
            *(["--at-once"] if at_once else []),
            *(["--processes"] if processes else []),
        ]
        self._deadline_s = max(3 * interval_s, 2.0)
        self._check_s = min(max(interval_s, 0.25), 1.0)
        self._on_facts = on_facts
        self._on_sample = on_sample
        self._on_notice = on_notice
        self._on_no_facts = on_no_facts
        self._current: _Process | None = None
        self._probe: _Process | None = None
        self._unreaped: list[subprocess.Popen[bytes]] = []
        self._no_gpus: str | None = None
        """Why GPUs are not used: NVIDIA's or, if `_no_other_gpus`, all."""
        self._no_other_gpus = False
        self._lost = False
        self._failures = 0
        self._next_start_at = 0.0
        self._checked_at = time.monotonic()
        self._watched_pids: list[int] = []
        self._timer: asyncio.TimerHandle | None = None

    @property
    def pids(self) -> set[int]:
        return {process.pid for process in self._running()}

    def start(self) -> None:
        """Start the process; call this on the loop, in the main thread."""
        self._start_current()
        self._check_later()

    def watch(self, pid: int) -> None:
        """Count a process and its descendants, besides those before, as the run's processes."""
        self._watched_pids.append(pid)
        for process in self._running():
            process.watch(pid, too=len(self._watched_pids) > 1)

    def reaped(self, pid: int, exit_code: int) -> None:
        """Note the exit code of one of our processes that the caller's waitpid reaped."""
        for popen in [*self._unreaped, *(process.popen for process in self._running())]:
            if popen.pid == pid:
                popen.returncode = exit_code

    def close(self) -> None:
        """Kill the process; wait only a moment, because it may hang in a driver."""
        if self._timer is not None:
            self._timer.cancel()
        for process in self._running():
            self._end(process)
        self._current = self._probe = None
        for popen in self._unreaped:
            with contextlib.suppress(subprocess.TimeoutExpired):
                popen.wait(0.5)

    def _running(self) -> list[_Process]:
        return [process for process in (self._current, self._probe) if process is not None]

    def _start_current(self) -> None:
        try:
            self._current = self._spawn(self._no_gpus)
        except OSError as error:
            self._back_off()
            self._report_lost(f"could not be started ({error.strerror})", "they are tried again")

    def _start_probe(self) -> None:
        # If the machine can't fork now, this is tried again later.
        self._back_off()
        with contextlib.suppress(OSError):
            self._probe = self._spawn(None)

    def _spawn(self, no_gpus: str | None) -> _Process:
        # With such an option it reports the reason instead of the GPUs.
        option = "--no-gpus" if self._no_other_gpus else "--no-nvidia"
        process = _Process([*self._command, *([option, no_gpus] if no_gpus else [])])
        asyncio.get_running_loop().add_reader(process.fd, self._read, process)
        for number, pid in enumerate(self._watched_pids):
            process.watch(pid, too=number > 0)
        return process

    def _read(self, process: _Process) -> None:
        lines = process.read()
        if lines is None:
            reason = _signal_that_ended(process.popen) or process.last_output
            self._handle_loss(process, f"ended ({reason})" if reason else "ended")
            return
        for line in lines:
            self._take(process, line)

    def _take(self, process: _Process, line: bytes) -> None:
        try:
            record = decode(line)
        except RecordError:
            process.last_output = clean(line.decode("utf-8", "replace"), 200) or process.last_output
            return
        # Text before a record is not the reason why the process ends.
        process.last_output = ""
        process.last_record_at = time.monotonic()
        if isinstance(record, Facts):
            process.facts = record
            if process is self._current:
                self._on_facts(record)
        elif isinstance(record, Notice):
            self._on_notice(record.text)
        elif isinstance(record, Machine):
            all_answer = bool(record.gpus) and all(map(_answers, record.gpus or ()))
            asks_all = self._no_gpus is None or process is self._probe
            process.may_reopen = asks_all and process.may_use_a_driver and not all_answer
            if process is self._probe:
                self._promote(process, record)
            self._report_back()
            self._on_sample(record)

    def _promote(self, probe: _Process, sample: Machine) -> None:
        """Replace the process without GPUs by the probe, which the driver answers."""
        if self._current is not None:
            self._end(self._current)
        self._current, self._probe = probe, None
        self._no_gpus, self._no_other_gpus = None, False
        why = _why_no_gpu_answers(sample)
        if why is None:
            self._on_notice("the sensors reach the GPUs again")
        else:
            self._on_notice(f"the sensors ask for the GPUs again, but: {why}")
        if probe.facts is not None:
            self._on_facts(probe.facts)

    def _check(self) -> None:
        self._unreaped = [popen for popen in self._unreaped if popen.poll() is None]
        now = time.monotonic()
        slept = now - self._checked_at > self._check_s + SUSPENDED_S
        self._checked_at = now
        for process in self._running():
            if slept:
                # We were suspended, so the sensors may well have sent samples.
                process.last_record_at = now
            silent_s = now - process.last_record_at
            if silent_s > self._timeout_s(process):
                self._handle_loss(process, f"gave no sample for {silent_s:.0f} s")
        if now >= self._next_start_at:
            if self._current is None:
                self._start_current()
            elif self._no_gpus is not None and self._probe is None and not self._unreaped:
                self._start_probe()
        self._check_later()

    def _check_later(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._check_s, self._check)

    def _timeout_s(self, process: _Process) -> float:
        # Samples follow soon after the facts. Reopening a lost GPU takes as long as a start.
        starts = process.facts is None or process.may_reopen
        return START_S if starts else self._deadline_s

    def _handle_loss(self, process: _Process, reason: str) -> None:
        self._end(process)
        if time.monotonic() - process.started_at > HEALTHY_S:
            self._failures = 0
        self._back_off()
        if process is self._probe:
            self._probe = None
            return
        self._current = None
        if self._no_gpus is not None and process.facts is None:
            self._on_no_facts()
        if process.may_use_a_driver and not self._no_other_gpus:
            self._no_other_gpus = self._no_gpus is not None
            self._no_gpus = f"lost: the sensors {reason}"
            is_mixed = process.uses_other_drivers and not self._no_other_gpus
            gpus = "NVIDIA's GPUs" if is_mixed else "the GPUs"
            self._report_lost(reason, f"they go on without {gpus}, which are tried again")
            self._start_current()
        else:
            self._report_lost(reason, "they are started again")

    def _back_off(self) -> None:
        delay_s = BACK_OFF_S[min(self._failures, len(BACK_OFF_S) - 1)]
        self._failures += 1
        self._next_start_at = time.monotonic() + delay_s

    def _report_lost(self, reason: str, next_action: str) -> None:
        if not self._lost:
            self._on_notice(f"the sensors {reason}; {next_action}")
        self._lost = True

    def _report_back(self) -> None:
        if self._lost and self._no_gpus is None:
            self._on_notice("the sensors are back")
        self._lost = False

    def _end(self, process: _Process) -> None:
        asyncio.get_running_loop().remove_reader(process.fd)
        if process.end():
            self._unreaped.append(process.popen)


def _answers(gpu: Gpu) -> bool:
    return replace(gpu, state=None, why={}) != Gpu(gpu.index)


def _why_no_gpu_answers(sample: Machine) -> str | None:
    """Return why a sample has no reading of any GPU; None if it has one."""
    if not sample.gpus:
        return sample.why.get("gpus", "it has no GPU")
    if any(map(_answers, sample.gpus)):
        return None
    return next(iter(sample.gpus[0].why.values()), "no GPU is reported")


def _signal_that_ended(popen: subprocess.Popen[bytes]) -> str | None:
    """Return in words the signal that ended a process whose pipe is closed."""
    # The kernel closes a process's files a moment before it can be waited for.
    with contextlib.suppress(subprocess.TimeoutExpired):
        popen.wait(_EXIT_WAIT_S)
    if popen.returncode is None or popen.returncode >= 0:
        return None
    description = signal.strsignal(-popen.returncode)
    return description.lower() if description else f"signal {-popen.returncode}"


class _Process:
    """A running sensors process."""

    def __init__(self, command: list[str]) -> None:
        self.popen = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            bufsize=0,
            preexec_fn=die_with_parent(os.getpid()),
        )
        assert self.popen.stdin is not None
        assert self.popen.stdout is not None
        self._stdin = self.popen.stdin
        self._stdout = self.popen.stdout
        self._unfinished = b""
        self.pid = self.popen.pid
        self.fd = self._stdout.fileno()
        self.started_at = self.last_record_at = time.monotonic()
        self.facts: Facts | None = None
        self.may_reopen = False
        self.last_output = ""
        os.set_blocking(self.fd, False)

    @property
    def may_use_a_driver(self) -> bool:
        """False once its facts show that it does not use the GPUs."""
        return self.facts is None or self.facts.machine.gpus is not None

    @property
    def uses_other_drivers(self) -> bool:
        """True if its facts show GPUs that are not NVIDIA's."""
        gpus = self.facts.machine.gpus if self.facts is not None else None
        return any(gpu.vendor != "nvidia" for gpu in gpus or ())

    def read(self) -> list[bytes] | None:
        try:
            data = os.read(self.fd, 1 << 16)
        except BlockingIOError:
            return []
        if not data:
            return None
        *lines, self._unfinished = (self._unfinished + data).split(b"\n")
        if len(self._unfinished) > LINE_BYTES:
            self._unfinished = b""
        return lines

    def watch(self, pid: int, too: bool) -> None:
        # The end of its output tells that it died.
        with contextlib.suppress(BrokenPipeError):
            self._stdin.write(f"{'watch_too' if too else 'watch'} {pid}\n".encode())

    def end(self) -> bool:
        """Kill it without waiting; return whether it must still be reaped."""
        unreaped = self.popen.poll() is None
        if unreaped:
            end_process(self.pid, signal.SIGKILL)
        self._stdin.close()
        self._stdout.close()
        return unreaped
