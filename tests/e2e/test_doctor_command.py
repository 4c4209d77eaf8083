"""`dlmon doctor` as a whole, with stand-ins for drivers and frameworks."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from dlmon.comparison.peaks import CalibrationError, find_peak, read_peaks
from dlmon.doctor.calibrate import calibrate

JAX = """
__version__ = "0.7.1"
class _Device:
    platform, device_kind = "gpu", "H100"
def local_devices():
    return [_Device]
"""


def findings(done, topic):
    assert (done.returncode, done.stderr) == (0, "")
    return [finding for finding in json.loads(done.stdout) if finding["topic"] == topic]


@pytest.fixture
def two_gpus(driver):
    """Return the environment of a machine whose NVML reports two GPUs."""
    driver.says("gpus 2")
    return driver.environment()


def test_a_framework_that_sees_fewer_gpus_than_nvml_says_why(new_dlmon, two_gpus, tmp_path):
    for name, text in {
        "tensorflow": "raise ImportError('broken')",
        "jax": JAX,
        "jaxlib": "",
    }.items():
        (tmp_path / f"{name}.py").write_text(text)
    path = os.pathsep.join(filter(None, (str(tmp_path), os.environ.get("PYTHONPATH"))))
    done = new_dlmon("doctor", "--json", environment={**two_gpus, "PYTHONPATH": path})
    broken, seen = findings(done, "frameworks")
    assert seen["state"] == broken["state"] == "warning"
    assert "sees 1 GPU (H100), and NVML 2: it was built without CUDA." in seen["text"]
    assert "jax[cuda" in seen["next_step"]
    assert "ImportError: broken" in broken["text"]


def test_quick_asks_no_framework_and_says_what_would_end_a_detached_run(dlmon):
    done = dlmon("doctor", "--quick", "--json", environment={"SLURM_JOB_ID": "4711"})
    assert not findings(done, "frameworks")
    assert "with this Slurm job 4711" in findings(done, "detached runs")[0]["text"]


# ---- the child that measures the matmul peak ----

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
