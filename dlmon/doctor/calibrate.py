"""Measure the matmul peak of this machine's devices, in a child process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from dlmon.comparison.peaks import (
    CalibrationError,
    Peak,
    checked_text,
    checked_texts,
    flop_s_text,
    read_peak,
    read_peaks,
    write_peaks,
)
from dlmon.launch.children import python_command
from dlmon.records.sanitize import clean

DEADLINE_S = 900.0
_LONGEST_LINE = 65_536


@dataclass(frozen=True)
class Calibration:
    """The result of a measurement: peaks, and in words what could not be measured."""

    peaks: tuple[Peak, ...]
    problems: tuple[str, ...] = ()


def calibrate(
    path: Path,
    cpu_name: str | None,
    report: Callable[[str], object],
    command: Sequence[str] | None = None,
) -> Calibration:
    """Measure every device of this machine, and keep what was found in `path`.

    Takes about twenty seconds a device. Peaks of other devices stay in the
    file; one that can't be read is replaced.

    Args:
        path: the file.
        cpu_name: the CPU's model, as results name it.
        report: is called with a line of text for each size that was measured.
        command: what measures; our own by default.

    Raises:
        CalibrationError: nothing could be measured, or not be kept.
    """
    found = measure_peaks(cpu_name, report, command)
    try:
        before = read_peaks(path)
    except CalibrationError:
        before = ()
    write_peaks(path, (*before, *found.peaks))
    return found


def measure_peaks(
    cpu_name: str | None,
    report: Callable[[str], object],
    command: Sequence[str] | None = None,
    deadline_s: float = DEADLINE_S,
) -> Calibration:
    """Measure in a child process, which is ended after `deadline_s`, and keep nothing.

    Raises:
        CalibrationError: the child could not be started, or brought no peak.
    """
    with tempfile.TemporaryFile() as errors:
        try:
            process = subprocess.Popen(
                command or python_command("workloads.calibrate"),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
            )
        except OSError as error:
            reason = error.strerror or str(error)
            raise CalibrationError(f"calibration could not be started: {reason}") from None
        assert process.stdout is not None
        late = threading.Event()

        def end() -> None:
            late.set()
            process.kill()

        timer = threading.Timer(deadline_s, end)
        timer.start()
        answer = _Answer(cpu_name or "CPU", report)
        try:
            while line := process.stdout.readline(_LONGEST_LINE):
                answer.take(line)
            code = process.wait()
        finally:
            timer.cancel()
            if process.poll() is None:
                process.kill()
                process.wait()
            process.stdout.close()
        problems = list(answer.problems)
        if late.is_set():
            problems.append(f"it took more than {deadline_s:.0f} s and was ended")
        elif code != 0 and not answer.failed:
            problems.append(_why_it_ended(code, errors))
    if not answer.peaks:
        raise CalibrationError(
            f"calibration measured nothing: {'; '.join(problems) or 'it reported nothing'}"
        )
    return Calibration(tuple(answer.peaks), tuple(problems))


class _Answer:
    """What the child has reported so far."""

    def __init__(self, cpu_name: str, report: Callable[[str], object]) -> None:
        self.peaks: list[Peak] = []
        self.problems: list[str] = []
        self.failed = False
        self._cpu_name = cpu_name
        self._report = report
        self._versions: dict[str, str] = {}

    def take(self, line: bytes) -> None:
        """Take one line of JSON; one that is invalid is a problem of its own."""
        try:
            fields = json.loads(line)
            if not isinstance(fields, dict):
                raise TypeError("an object was expected")
            self._take(fields)
        except (ValueError, TypeError, KeyError, RecursionError, OverflowError):
            self.problems.append(f"not understood: {clean(line.decode('utf-8', 'replace'), 80)}")

    def _take(self, fields: dict[str, Any]) -> None:
        kind = fields.get("type")
        if kind == "versions":
            self._versions = checked_texts(fields["versions"])
        elif kind in ("rate", "peak"):
            self._take_rate(fields)
        elif kind == "skipped":
            self.problems.append(f"{self._about(fields)}: {checked_text(fields['text'])}")
        elif kind == "failed":
            self.failed = True
            self.problems.append(checked_text(fields["text"]))

    def _take_rate(self, fields: dict[str, Any]) -> None:
        measured = {
            **fields,
            "device_name": self._name(fields),
            "wall": round(time.time(), 1),
            "versions": self._versions,
        }
        peak = read_peak(measured)
        if fields["type"] == "peak":
            self.peaks.append(peak)
        else:
            size = f"{peak.size:,}"
            self._report(f"{self._about(fields)}: {flop_s_text(peak.flop_s)} at {size} × {size}")

    def _name(self, fields: dict[str, Any]) -> str:
        if fields["device"] == "cpu":
            return self._cpu_name
        return checked_text(fields["device_name"]) if fields["device_name"] else "GPU"

    def _about(self, fields: dict[str, Any]) -> str:
        return f"{self._name(fields)}, {checked_text(fields['precision'])}"


def _why_it_ended(code: int, errors: IO[bytes]) -> str:
    if code == -signal.SIGKILL:
        return "it was killed, probably because memory ran out"
    errors.seek(0, os.SEEK_END)
    errors.seek(max(0, errors.tell() - _LONGEST_LINE))
    lines = errors.read().decode("utf-8", "replace").strip().splitlines()
    how = f"exit code {code}" if code > 0 else f"signal {-code}"
    return f"it ended with {how}: {clean(lines[-1], 300)}" if lines else f"it ended with {how}"
