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
    read_peaks,
    with_peak,
    write_peaks,
)
from dlmon.records import GpuFacts, MachineFacts, Model

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
    ],
)
def test_a_peak_is_found_by_device_name_and_precision(device, name, precision, peak):
    assert find_peak([CPU, GPU], device, name, precision) == peak


def test_a_directory_in_the_place_of_the_file_is_said(path):
    path.mkdir(parents=True)
    with pytest.raises(CalibrationError, match="can't be read"):
        read_peaks(path)
    with pytest.raises(CalibrationError, match="can't be kept"):
        write_peaks(path, [CPU])
    assert [entry.name for entry in path.parent.iterdir()] == ["calibration.json"]


def test_rates_are_written_as_people_do():
    rates = {1.86e11: "186 GFLOP/s", 1.25e12: "1.25 TFLOP/s", 1.1e15: "1.1 PFLOP/s"}
    assert {rate: flop_s_text(rate) for rate in rates} == rates
    assert flop_s_text(5e6) == "5 MFLOP/s"


# The peak of what runs

H100 = "NVIDIA H100 80GB HBM3"
MACHINE = MachineFacts(cpu_model="Some CPU", gpus=(GpuFacts(0, H100), GpuFacts(1, "a GPU")))
UNSAID = dict.fromkeys(
    ("parameters", "flops_per_sample", "batch_size", "samples_per_epoch", "steps_per_epoch")
)
SCRIPT = Model(**UNSAID, epochs=None, device="gpu:0", compute_precision="bfloat16")


@pytest.fixture
def kept(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return calibration_path()


@pytest.mark.parametrize(
    ("changes", "peak", "precision"),
    [
        ({}, 989.4e12, "bfloat16"),
        ({"compute_precision": "tf32"}, 494.7e12, "tf32"),
        ({"compute_precision": "float32"}, 66.9e12, "float32"),
        ({"compute_precision": None, "precision": "mixed_float16"}, 989.4e12, "float16"),
        # TensorFlow and JAX take TF32 where there is any.
        (
            {"compute_precision": None, "precision": "float32", "backend": "jax"},
            494.7e12,
            "tf32",
        ),
        (
            {"compute_precision": None, "precision": "float32", "backend": "torch"},
            66.9e12,
            "float32",
        ),
        ({"compute_precision": "tf32", "device_name": "Tesla T4"}, 8.14e12, "float32"),
    ],
)
def test_without_a_measured_peak_it_is_the_makers_dense_figure(kept, changes, peak, precision):
    found = with_peak(replace(SCRIPT, **changes), MACHINE)
    assert (found.peak_flop_s, found.peak_from) == (pytest.approx(peak), "NVIDIA")
    assert found.compute_precision == precision
    assert "peak_flop_s" not in found.why


def test_a_measured_peak_comes_first(kept):
    write_peaks(kept, [GPU])
    found = with_peak(SCRIPT, MACHINE)
    assert (found.peak_flop_s, found.peak_from) == (7e14, "measured")
    # What can't be read is said where no maker says more.
    kept.write_text("{")
    unknown = with_peak(replace(SCRIPT, device="gpu:1"), MACHINE)
    assert "holds no calibration" in unknown.why["peak_flop_s"]
    # What a supervisor of another machine said stays.
    assert with_peak(replace(SCRIPT, peak_flop_s=1.0), MACHINE).peak_flop_s == 1.0


def test_a_peak_in_tf32_is_none_of_float32(kept):
    with_tf32 = replace(GPU, precision="float32", flop_s=4e14, note="TF32 where the GPU has it")
    write_peaks(kept, [with_tf32])
    in_tf32, in_float32 = (
        with_peak(replace(SCRIPT, compute_precision=name), MACHINE) for name in ("tf32", "float32")
    )
    assert (in_tf32.peak_flop_s, in_tf32.peak_from) == (4e14, "measured")
    assert (in_float32.peak_flop_s, in_float32.peak_from) == (pytest.approx(66.9e12), "NVIDIA")
    write_peaks(kept, [replace(with_tf32, flop_s=5e13, note="without TF32")])
    assert with_peak(replace(SCRIPT, compute_precision="tf32"), MACHINE).peak_from == "NVIDIA"


@pytest.mark.parametrize(
    ("changes", "some_cpus", "why"),
    [
        ({"device": "gpu:1"}, False, "not calibrated for bfloat16"),
        ({"device": None}, False, "its device is not known"),
        ({"device": None, "why": {"device": "it is mps"}}, False, "it is mps"),
        ({"compute_precision": None}, False, "what it computes in is not known"),
        ({"device": "cpu"}, False, "not calibrated for bfloat16"),
        ({"device": "cpu"}, True, "only some of them"),
        # Volta has none.
        ({"device_name": "Tesla V100-SXM2-16GB"}, False, "not calibrated for bfloat16"),
    ],
)
def test_without_any_peak_it_says_why(kept, changes, some_cpus, why):
    found = with_peak(replace(SCRIPT, **changes), MACHINE, some_cpus)
    assert (found.peak_flop_s, found.peak_from) == (None, None)
    assert why in found.why["peak_flop_s"]
