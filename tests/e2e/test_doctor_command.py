"""`dlmon doctor` as a whole: the real TensorFlow, and stand-ins for drivers and frameworks."""

from __future__ import annotations

import json
import os

import pytest

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


def test_the_real_tensorflow_reports_what_it_sees(dlmon, two_gpus):
    done = dlmon("doctor", "--json", environment={**two_gpus, "CUDA_VISIBLE_DEVICES": "-1"})
    (finding,) = findings(done, "frameworks")
    assert finding["text"].startswith("TensorFlow 2.")
    assert "sees no GPU, and NVML 2: " in finding["text"]


def test_a_framework_that_sees_fewer_gpus_than_nvml_says_why(dlmon, two_gpus, tmp_path):
    for name, text in {
        "tensorflow": "raise ImportError('broken')",
        "jax": JAX,
        "jaxlib": "",
    }.items():
        (tmp_path / f"{name}.py").write_text(text)
    path = os.pathsep.join(filter(None, (str(tmp_path), os.environ.get("PYTHONPATH"))))
    done = dlmon("doctor", "--json", environment={**two_gpus, "PYTHONPATH": path})
    broken, seen = findings(done, "frameworks")
    assert seen["state"] == broken["state"] == "warning"
    assert "sees 1 GPU (H100), and NVML 2: it was built without CUDA." in seen["text"]
    assert "jax[cuda" in seen["next_step"]
    assert "ImportError: broken" in broken["text"]


def test_quick_asks_no_framework_and_says_what_would_end_a_detached_run(dlmon):
    done = dlmon("doctor", "--quick", "--json", environment={"SLURM_JOB_ID": "4711"})
    assert not findings(done, "frameworks")
    assert "with this Slurm job 4711" in findings(done, "detached runs")[0]["text"]
