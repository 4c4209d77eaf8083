"""Measure the matmul peak of this machine's devices, in a child process."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

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
from dlmon.records.sanitize import clean
from dlmon.system.children import python_command

DEADLINE_S = 900.0
_LONGEST_LINE = 65_536
_NOT_UNDERSTOOD = (AttributeError, ValueError, TypeError, KeyError, RecursionError, OverflowError)


def calibrate(
    path: Path,
    cpu_name: str | None,
    report: Callable[[str], object],
    command: Sequence[str] | None = None,
    deadline_s: float = DEADLINE_S,
) -> list[str]:
    """Measure the peaks of this machine's devices in a child process, and add them to a file.

    Takes about twenty seconds a device.

    Args:
        path: the file; it is replaced if it can't be read.
        cpu_name: the CPU's model, as in results.
        report: called with a line of text for each measured size.
        command: the child's command; `workloads.calibrate` by default.
        deadline_s: the time limit of the child.

    Returns:
        A text for each device or precision that could not be measured.

    Raises:
        CalibrationError: the child could not be started, it measured nothing, or the file can't be
            written.
    """
    peaks: list[Peak] = []
    problems: list[str] = []
    failed: list[str] = []
    versions: dict[str, str] = {}

    def add(fields: dict[str, Any]) -> None:
        kind = fields.get("type")
        if kind == "versions":
            versions.update(checked_texts(fields["versions"]))
        elif kind == "failed":
            failed.append(checked_text(fields["text"]))
        elif kind in ("rate", "peak", "skipped"):
            of_gpu = fields["device"] != "cpu"
            name = checked_text(fields["device_name"] or "GPU") if of_gpu else cpu_name or "CPU"
            about = f"{name}, {checked_text(fields['precision'])}"
            if kind == "skipped":
                problems.append(f"{about}: {checked_text(fields['text'])}")
                return
            more = {"device_name": name, "wall": round(time.time(), 1), "versions": versions}
            peak = read_peak({**fields, **more})
            if kind == "peak":
                peaks.append(peak)
            else:
                size = f"{peak.size:,}"
                report(f"{about}: {flop_s_text(peak.flop_s)} at {size} × {size}")

    try:
        process = subprocess.Popen(
            command or python_command("workloads.calibrate"),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
    except OSError as error:
        reason = error.strerror or str(error)
        raise CalibrationError(f"calibration could not be started: {reason}") from None
    assert process.stdout is not None
    timer = threading.Timer(deadline_s, process.kill)
    timer.start()
    last_line = ""
    try:
        while line := process.stdout.readline(_LONGEST_LINE):
            try:
                add(json.loads(line))
            except _NOT_UNDERSTOOD:
                # A log line of a framework, or an error of the child.
                last_line = clean(line.decode("utf-8", "replace").strip(), 300) or last_line
        code = process.wait()
    finally:
        is_late = timer.finished.is_set()
        timer.cancel()
        process.kill()
        process.wait()
        process.stdout.close()
    problems += failed
    if is_late:
        problems.append(f"it took more than {deadline_s:.0f} s and was ended")
    elif code == -signal.SIGKILL:
        problems.append("it was killed, probably because memory ran out")
    elif code != 0 and not failed:
        how = f"exit code {code}" if code > 0 else f"signal {-code}"
        problems.append(f"it ended with {how}" + (f": {last_line}" if last_line else ""))
    if not peaks:
        why = "; ".join(problems) or "it reported nothing"
        raise CalibrationError(f"calibration measured nothing: {why}")
    try:
        before = read_peaks(path)
    except CalibrationError:
        before = ()
    write_peaks(path, (*before, *peaks))
    return problems
