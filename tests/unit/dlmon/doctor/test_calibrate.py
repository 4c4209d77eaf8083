"""The child that measures, and what is kept of what it reports."""

import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from dlmon.comparison.peaks import CalibrationError, Peak, read_peaks, write_peaks
from dlmon.doctor.calibrate import calibrate

CPU = Peak("cpu", "Some CPU", "float32", 1.86e11, 2048, 1e9, {"tensorflow": "2.21.0"})
GPU = Peak("gpu", "NVIDIA H100 80GB HBM3", "bfloat16", 7e14, 8192, 1e9, {}, "a note")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "calibration.json"


def child(*lines: object, ending: str = "") -> list[str]:
    """Return the command of a child that prints these lines, and then runs `ending`."""
    reported = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    return [sys.executable, "-c", f"for line in {reported!r}: print(line, flush=True)\n{ending}"]


VERSIONS = {"type": "versions", "versions": {"tensorflow": "2.21.0"}}
MEASURED = {"device": "cpu", "device_name": None, "precision": "float32", "size": 2048}
RATE = {"type": "rate", **MEASURED, "flop_s": 1.5e11}
PEAK = {"type": "peak", **MEASURED, "flop_s": 1.86e11}


def test_the_childs_peaks_are_kept_beside_those_of_other_devices(path):
    write_peaks(path, [GPU, CPU])
    reported: list[str] = []
    assert calibrate(path, "Some CPU", reported.append, child(VERSIONS, RATE, PEAK)) == []
    assert reported == ["Some CPU, float32: 150 GFLOP/s at 2,048 × 2,048"]
    _, peak = read_peaks(path)
    assert replace(peak, wall=CPU.wall) == CPU
    assert peak.wall > CPU.wall
    assert read_peaks(path) == (GPU, peak)


def test_lines_that_are_not_understood_and_a_broken_file_harm_nothing(path):
    path.parent.mkdir()
    path.write_text("{")
    skipped = {"type": "skipped", **MEASURED, "precision": "float16", "text": "not here"}
    lines = ("garbage \x1b[31m", "[]", '{"type": "peak"}', '{"type": "later"}', PEAK, skipped)
    assert calibrate(path, None, str, child(*lines)) == ["CPU, float16: not here"]
    assert [peak.device_name for peak in read_peaks(path)] == ["CPU"]


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (child(), "it reported nothing"),
        (child({"type": "failed", "text": "no TensorFlow"}, ending="exit(1)"), "no TensorFlow$"),
        (child(ending="raise RuntimeError('boom')"), "exit code 1: RuntimeError: boom"),
        (child(ending="import os; os.kill(os.getpid(), 9)"), "killed, probably because memory"),
        (child(ending="import os; os.abort()"), "signal 6"),
        (["/not/there"], "could not be started: No such file"),
    ],
)
def test_a_child_without_a_peak_says_why(path, command, why):
    with pytest.raises(CalibrationError, match=why):
        calibrate(path, None, str, command)
    assert not path.exists()


def test_what_was_measured_before_the_child_died_is_kept(path):
    problems = calibrate(path, None, str, child(PEAK, ending="import os; os.abort()"))
    assert problems == ["it ended with signal 6"]
    assert len(read_peaks(path)) == 1


@pytest.mark.slow
def test_a_child_that_takes_too_long_is_ended(path):
    slow = child(PEAK, ending="import time; time.sleep(600)")
    problems = calibrate(path, "Some CPU", str, slow, deadline_s=2)
    assert problems == ["it took more than 2 s and was ended"]


def test_no_child_outlives_a_listener_that_fails(path):
    reported: list[str] = []

    def stop(text: str) -> None:
        reported.append(text)
        raise KeyboardInterrupt

    own_pid = "import json, os, time; rate['precision'] = str(os.getpid()); print(json.dumps(rate))"
    program = f"rate = {RATE!r}; {own_pid}; os.close(1); time.sleep(600)"
    with pytest.raises(KeyboardInterrupt):
        calibrate(path, "Some CPU", stop, [sys.executable, "-u", "-c", program])
    pid = int(reported[0].split(":")[0].removeprefix("Some CPU, "))
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
