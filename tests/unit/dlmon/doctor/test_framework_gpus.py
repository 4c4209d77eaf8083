"""Why a framework sees other GPUs than NVML does, by cases."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from dlmon.doctor.finding import Finding
from dlmon.doctor.framework_gpus import compare_gpus, visible_gpus
from dlmon.doctor.frameworks import Framework
from dlmon.records import GpuFacts, MachineFacts

ONE = MachineFacts(
    gpus=(GpuFacts(index=0, name="H100", uuid="GPU-a1"),), driver="580.65", cuda="13.0"
)
TWO = replace(ONE, gpus=(*ONE.gpus, GpuFacts(index=1, name="H100", uuid="GPU-b2")))
LOST = replace(ONE, gpus=(*ONE.gpus, GpuFacts(index=1, name="H100", why={"uuid": "lost"})))
NONE = MachineFacts(why={"gpus": "no NVIDIA driver"})
TENSORFLOW = Framework("tensorflow", "2.21.0", (), "cuda", "12.5.1")
JAX = Framework("jax", "0.7.1", (), "cuda", "12")
TORCH = Framework("torch", "2.8.0", (), "cuda", "12.8")
FILES = ("dev/nvidia0", "dev/nvidia1", "dev/nvidia-uvm")


@pytest.fixture
def compare(tmp_path: Path):
    def findings(*frameworks, machine=ONE, files=FILES, environment=None) -> list[Finding]:
        for name in files:
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).touch()
        return list(compare_gpus(frameworks, machine, environment or {}, tmp_path))

    return findings


def seeing(framework: Framework, *names: str) -> Framework:
    return replace(framework, gpus=names)


def test_frameworks_that_see_what_nvml_sees_share_a_line(compare):
    for machine in (ONE, LOST):
        assert compare(seeing(TENSORFLOW, "H100"), seeing(TORCH, ""), machine=machine) == [
            Finding(
                "frameworks",
                "ok",
                "TensorFlow 2.21.0 (CUDA 12.5.1) and PyTorch 2.8.0 (CUDA 12.8) see 1 GPU, as NVML "
                "does",
            )
        ]
    (finding,) = compare(TENSORFLOW, machine=NONE)
    assert (finding.state, finding.next_step) == ("ok", None)
    assert finding.text.endswith("sees no GPU either")


def test_where_the_sensors_failed_each_reports_what_it_sees(compare):
    assert compare(seeing(TENSORFLOW, "H100"), machine=None) == [
        Finding("frameworks", "ok", "TensorFlow 2.21.0 (CUDA 12.5.1) sees 1 GPU (H100)")
    ]


def test_gpus_that_nvml_does_not_see_are_reported(compare):
    (found,) = compare(seeing(TENSORFLOW, "H100"), machine=NONE)
    assert found.state == "warning"
    assert "sees 1 GPU (H100), and NVML none" in found.text


CPU = {"platform": None, "cuda": None}
CUINIT = "failed call to cuInit: CUDA_ERROR_UNKNOWN"
HIDDEN = {"CUDA_VISIBLE_DEVICES": "-1"}
CAPABILITIES = "proc/driver/nvidia/capabilities"


@pytest.mark.parametrize(
    ("framework", "given", "text", "step"),
    [
        (replace(TENSORFLOW, **CPU), {}, "without CUDA", "[and-cuda]', without tensorflow-cpu"),
        (replace(JAX, **CPU), {}, "without CUDA", "'jax[cuda13]'"),
        (replace(JAX, **CPU), {"machine": replace(ONE, cuda="12.2")}, "CUDA", "'jax[cuda12]'"),
        (replace(TORCH, **CPU), {}, "without CUDA", "build for CUDA 13"),
        (TENSORFLOW, {"environment": HIDDEN}, "CUDA_VISIBLE_DEVICES is '-1'", None),
        (JAX, {"environment": {"JAX_PLATFORMS": "cpu"}}, "JAX_PLATFORMS is 'cpu'", None),
        (
            seeing(TENSORFLOW, "H100"),
            {"machine": TWO, "environment": {"CUDA_VISIBLE_DEVICES": "GPU-b"}},
            "CUDA_VISIBLE_DEVICES is 'GPU-b'",
            None,
        ),
        (
            TENSORFLOW,
            {"environment": {"CUDA_VISIBLE_DEVICES": "GPU-zz"}},
            "names none of them",
            "nvidia-smi -L",
        ),
        (
            TENSORFLOW,
            {"machine": TWO, "environment": {"CUDA_VISIBLE_DEVICES": "0"}},
            "it does not say why",
            "dmesg",
        ),
        (
            TENSORFLOW,
            {"machine": replace(ONE, driver="470.82", cuda="11.4")},
            "the driver 470.82 knows CUDA 11.4 at most, and it was built for CUDA 12.5.1",
            "Update the NVIDIA driver",
        ),
        (TENSORFLOW, {"machine": replace(ONE, cuda="12.0")}, "it does not say why", "dmesg"),
        (TENSORFLOW, {"files": ()}, "only 0 of the device files", "nvidia-modprobe -c=0"),
        (TENSORFLOW, {"files": (".dockerenv",)}, "only 0 of the device files", "--gpus all"),
        (TENSORFLOW, {"files": FILES[:2]}, "no /dev/nvidia-uvm", "nvidia-modprobe -u -c=0"),
        (TENSORFLOW, {"files": ("dev/dxg",)}, "it does not say why", "dmesg"),
        (
            TENSORFLOW,
            {"files": (*FILES, f"{CAPABILITIES}/gpu0/mig/gi1/ci0/access")},
            "MIG divides the GPU",
            "CUDA_VISIBLE_DEVICES=MIG-",
        ),
        (
            replace(TORCH, problems=("Found no NVIDIA driver on your system.", CUINIT)),
            {},
            "libcuda.so.1",
            "NVIDIA_DRIVER_CAPABILITIES",
        ),
        (
            replace(JAX, problems=("Unable to load cuDNN. Is it installed?",)),
            {},
            "does not find CUDA's libraries: “Unable to load cuDNN. Is it installed?”",
            "'jax[cuda12]'",
        ),
        (replace(TORCH, problems=("Slow.", CUINIT)), {}, f"it says “{CUINIT}”", "dmesg"),
    ],
)
def test_why_one_sees_fewer_and_what_to_do(compare, framework, given, text, step):
    (found,) = compare(framework, **given)
    assert text in found.text
    assert found.state == ("ok" if step is None else "warning")
    assert (found.next_step is None) if step is None else (step in found.next_step)


def test_files_that_may_not_be_opened_are_named(compare, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path).name == "nvidia0")
    (found,) = compare(TENSORFLOW)
    assert "may not open /dev/nvidia-uvm and /dev/nvidia1" in found.text
    assert "group `video`" in found.next_step


@pytest.mark.parametrize(
    ("chosen", "left"),
    [
        *[("", 0), ("-1", 0), ("0", 1), ("1,0", 2), ("0,-1,1", 1), ("7", 0), (" 0 , 1 ", 2)],
        *[("GPU-a", 1), ("GPU-a,GPU-b2", 2), ("MIG-1", 1), ("NoDevFiles", 0)],
    ],
)
def test_the_gpus_that_a_choice_leaves(chosen, left):
    assert visible_gpus(chosen, TWO.gpus) == left


def test_a_framework_that_could_not_be_asked_says_so_with_a_step(compare):
    broken = Framework("tensorflow", why="ImportError: numpy.core")
    reported, alike = compare(broken, seeing(TORCH, ""))
    assert alike.state == "ok"
    assert reported.text == "TensorFlow could not report its GPUs: ImportError: numpy.core."
    assert reported.next_step == "Run `python -c 'import tensorflow'` to see all that it says."
