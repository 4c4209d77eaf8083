"""The child that measures the matmul peak, with the real TensorFlow."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from dlmon.comparison.peaks import CalibrationError, find_peak, read_peaks
from dlmon.doctor.calibrate import calibrate

SMALL = "c.PRECISIONS = ('float32', 'bfloat16'); c.LARGEST_SIZE = {'cpu': 512, 'gpu': 512}"


def child(*before: str) -> list[str]:
    program = "; ".join(["import sys", *before, "from workloads import calibrate as c"])
    return [sys.executable, "-P", "-c", f"{program}; {SMALL}; sys.exit(c.main())"]


def test_the_cpu_is_measured_and_its_peak_kept(tmp_path: Path):
    path, reported = tmp_path / "calibration.json", []
    calibrate(path, "Some CPU", reported.append, child("print('noise on stdout')"))
    peaks = read_peaks(path)
    peak = find_peak(peaks, "cpu", "Some CPU", "float32")
    # From a single slow core to a machine larger than any.
    assert 1e8 < peak.flop_s < 1e15
    assert peak.size in (256, 512)
    assert set(peak.versions) == {"python", "tensorflow"}
    assert find_peak(peaks, "cpu", "Some CPU", "mixed_bfloat16")
    assert sum("FLOP/s at" in line for line in reported) >= 4


def test_without_any_framework_one_sentence_says_so(tmp_path: Path):
    missing = child("sys.modules |= dict.fromkeys(('tensorflow', 'jax', 'torch'))")
    with pytest.raises(CalibrationError, match="neither TensorFlow nor JAX nor PyTorch"):
        calibrate(tmp_path / "calibration.json", None, str, missing)
