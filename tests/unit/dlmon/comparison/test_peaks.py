"""The calibration's file and what is looked up in it."""

from __future__ import annotations

import json
import math
import os
from dataclasses import replace
from pathlib import Path

import pytest

from dlmon.comparison.peaks import (
    CalibrationError,
    Peak,
    calibration_path,
    find_peak,
    flop_s_text,
    peak_of_run,
    read_peaks,
    write_peaks,
)

CPU = Peak("cpu", "Some CPU", "float32", 1.86e11, 2048, 1e9, {"tensorflow": "2.21.0"})
GPU = Peak("gpu", "NVIDIA H100 80GB HBM3", "bfloat16", 7e14, 8192, 1e9, {}, "a note")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "calibration.json"


# The file


def test_what_is_written_is_read_clean_and_the_last_of_equal_peaks_stands(path):
    assert read_peaks(path) == ()
    write_peaks(path, [CPU, GPU])
    assert read_peaks(path) == (CPU, GPU)
    newer = replace(CPU, flop_s=2e11, wall=2e9)
    write_peaks(path, [CPU, GPU, newer])
    assert read_peaks(path) == (newer, GPU)
    write_peaks(path, [replace(CPU, device_name="\x1b[31mred\u202e", note="x" * 9999)])
    (peak,) = read_peaks(path)
    assert peak.device_name == "red"


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"null",
        b"[" * 100_000,
        b'{"schema": 2, "peaks": []}',
        b'{"schema": 1}',
        b'{"schema": 1, "peaks": [1]}',
        b" " * 1_000_001,
    ],
)
def test_a_broken_file_says_what_to_do(path, text):
    path.parent.mkdir()
    path.write_bytes(text)
    with pytest.raises(CalibrationError, match="dlmon doctor --calibrate"):
        read_peaks(path)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("flop_s", value) for value in (0, -1.0, "fast", None, 10**400, math.nan, math.inf)),
        *(("size", value) for value in (1.5, True, 0)),
        *(("wall", value) for value in (None, 1e18, -1)),
        *(("device", 7), ("precision", ["float32"]), ("versions", {"python": 3}), ("note", 5)),
    ],
)
def test_a_peak_with_a_wrong_field_breaks_the_file(path, name, value):
    write_peaks(path, [CPU])
    reported = json.loads(path.read_text())
    reported["peaks"][0][name] = value
    path.write_text(json.dumps(reported))
    with pytest.raises(CalibrationError):
        read_peaks(path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read and write all")
def test_a_file_that_may_not_be_read_or_written_says_so(path):
    path.parent.mkdir(mode=0o500)
    with pytest.raises(CalibrationError, match="can't be kept"):
        write_peaks(path, [CPU])


# Looking up


@pytest.mark.parametrize(
    ("device", "name", "precision", "peak"),
    [
        ("cpu", "Some CPU", "float32", CPU),
        ("cpu", " some  cpu", "float32", CPU),
        ("cpu", "Another CPU", "float32", None),
        ("cpu", None, "float32", None),
        ("cpu", "Some CPU", "float16", None),
        ("gpu:3", "NVIDIA H100 80GB HBM3", "bfloat16", GPU),
        ("gpu", "NVIDIA H100 80GB HBM3", "mixed_bfloat16", GPU),
        ("gpu:0", "NVIDIA H100 80GB HBM3", "mixed_float16", None),
        ("gpu:0", None, "bfloat16", None),
        (None, "Some CPU", "float32", None),
        ("cpu", "Some CPU", None, None),
    ],
)
def test_a_peak_is_found_by_device_name_and_precision(device, name, precision, peak):
    assert find_peak([CPU, GPU], device, name, precision) == peak


def test_a_run_gets_its_peak_or_the_reason(path):
    assert calibration_path().is_relative_to(os.environ["XDG_STATE_HOME"])
    assert peak_of_run(path, "cpu", "Some CPU", "float32") == (
        None,
        "this device was not calibrated for float32 (dlmon doctor --calibrate)",
    )
    write_peaks(path, [CPU])
    assert peak_of_run(path, "cpu", "Some CPU", "float32") == (1.86e11, None)
    path.write_text("{")
    flop_s, why = peak_of_run(path, "cpu", "Some CPU", "float32")
    assert flop_s is None
    assert "holds no calibration" in why
    # A directory in its place says so.
    path.unlink()
    path.mkdir()
    with pytest.raises(CalibrationError, match="can't be read"):
        read_peaks(path)
    with pytest.raises(CalibrationError, match="can't be kept"):
        write_peaks(path, [CPU])
    assert [entry.name for entry in path.parent.iterdir()] == ["calibration.json"]


def test_rates_are_written_as_people_do():
    rates = {1.86e11: "186 GFLOP/s", 1.25e12: "1.25 TFLOP/s", 1.1e15: "1.1 PFLOP/s"}
    assert {rate: flop_s_text(rate) for rate in rates} == rates
    assert flop_s_text(5e6) == "5 MFLOP/s"
