"""Why a framework sees other GPUs than NVML does, by cases."""

from __future__ import annotations

import signal
from dataclasses import replace

import pytest

from dlmon.doctor.device_files import DeviceFiles
from dlmon.doctor.finding import Finding
from dlmon.doctor.framework_gpus import compare_gpus, visible_gpus
from dlmon.doctor.frameworks import Framework
from dlmon.records import GpuFacts, MachineFacts

ONE = MachineFacts(
    gpus=(GpuFacts(index=0, name="H100", uuid="GPU-a1"),), driver="580.65", cuda="13.0"
)
TWO = replace(ONE, gpus=(*ONE.gpus, GpuFacts(index=1, name="H100", uuid="GPU-b2")))
NONE = MachineFacts(why={"gpus": "no NVIDIA driver"})
FILES = DeviceFiles(cards=2, uvm=True)
TENSORFLOW = Framework("tensorflow", "2.21.0", (), "cuda", "12.5.1")
JAX = Framework("jax", "0.7.1", (), "cuda", "12")
TORCH = Framework("torch", "2.8.0", (), "cuda", "12.8")


def compare(
    *frameworks: Framework,
    machine: MachineFacts | None = ONE,
    files: DeviceFiles = FILES,
    environment: dict[str, str] | None = None,
) -> list[Finding]:
    return list(compare_gpus(frameworks, machine, environment or {}, files))


def why(framework: Framework, **rest) -> Finding:
    (finding,) = compare(framework, **rest)
    return finding


def seeing(framework: Framework, *names: str) -> Framework:
    return replace(framework, gpus=names)


def test_frameworks_that_see_what_nvml_sees_share_a_line():
    assert compare(seeing(TENSORFLOW, "H100"), seeing(TORCH, "")) == [
        Finding(
            "frameworks",
            "ok",
            "TensorFlow 2.21.0 (CUDA 12.5.1) and PyTorch 2.8.0 (CUDA 12.8) see 1 GPU, as NVML does",
        )
    ]


def test_without_a_gpu_there_is_one_line_and_no_advice():
    cpu_alone = replace(TORCH, platform=None, cuda=None)
    assert compare(TENSORFLOW, cpu_alone, machine=NONE) == [
        Finding(
            "frameworks",
            "ok",
            "TensorFlow 2.21.0 (CUDA 12.5.1) and PyTorch 2.8.0 (no CUDA) see no GPU either",
        )
    ]


def test_where_the_sensors_failed_each_reports_what_it_sees():
    assert why(seeing(TENSORFLOW, "H100"), machine=None) == Finding(
        "frameworks", "ok", "TensorFlow 2.21.0 (CUDA 12.5.1) sees 1 GPU (H100)"
    )


def test_a_gpu_that_nvml_has_lost_is_not_missed():
    lost = replace(TWO, gpus=(*ONE.gpus, GpuFacts(index=1, name="H100", why={"uuid": "lost"})))
    assert why(seeing(TENSORFLOW, "H100"), machine=lost).state == "ok"


def test_gpus_that_nvml_does_not_see_are_reported():
    found = why(seeing(TENSORFLOW, "H100"), machine=NONE)
    assert found.state == "warning"
    assert "sees 1 GPU (H100), and NVML none" in found.text


def test_gpus_of_amd_are_reported():
    found = why(replace(TORCH, gpus=("",), platform="rocm", cuda=None), machine=NONE)
    assert (found.state, found.next_step) == ("warning", None)
    assert "NVIDIA GPUs only" in found.text


@pytest.mark.parametrize(
    ("framework", "step"),
    [
        (TENSORFLOW, "'tensorflow[and-cuda]' in an environment without tensorflow-cpu"),
        (JAX, "'jax[cuda13]'"),
        (TORCH, "PyTorch's build for CUDA 13"),
    ],
)
def test_a_build_without_cuda(framework, step):
    found = why(replace(framework, platform=None, cuda=None))
    assert found.state == "warning"
    assert "sees no GPU, and NVML 1: it was built without CUDA." in found.text
    assert step in found.next_step


def test_an_older_driver_gets_the_build_that_it_is_new_enough_for():
    old = replace(ONE, cuda="12.2")
    assert "jax[cuda12]" in why(replace(JAX, platform=None, cuda=None), machine=old).next_step


def test_a_driver_of_an_older_major_version_is_too_old():
    found = why(TENSORFLOW, machine=replace(ONE, driver="470.82", cuda="11.4"))
    assert (
        "the driver 470.82 knows CUDA 11.4 at most, and it was built for CUDA 12.5.1" in found.text
    )
    assert found.next_step == "Update the NVIDIA driver to 525 or newer."


@pytest.mark.parametrize("cuda", ["12.0", "12.5", "12.9", "13.1"])
def test_a_driver_of_the_same_or_a_newer_major_version_is_not_too_old(cuda):
    assert "at most" not in why(TENSORFLOW, machine=replace(ONE, cuda=cuda)).text


def test_hidden_on_purpose_needs_no_next_step():
    for chosen in ("-1", ""):
        found = why(TENSORFLOW, environment={"CUDA_VISIBLE_DEVICES": chosen})
        assert (found.state, found.next_step) == ("ok", None)
        assert f"CUDA_VISIBLE_DEVICES is {chosen!r}" in found.text
    one_of_two = why(
        seeing(TENSORFLOW, "H100"), machine=TWO, environment={"CUDA_VISIBLE_DEVICES": "GPU-b"}
    )
    assert one_of_two.state == "ok"


def test_a_misspelt_choice_is_reported():
    found = why(TENSORFLOW, environment={"CUDA_VISIBLE_DEVICES": "GPU-zz"})
    assert found.state == "warning"
    assert "names none of them" in found.text


def test_a_choice_that_leaves_gpus_does_not_say_why_none_is_seen():
    found = why(TENSORFLOW, machine=TWO, environment={"CUDA_VISIBLE_DEVICES": "0"})
    assert "CUDA_VISIBLE_DEVICES" not in found.text
    assert found.state == "warning"


def test_jax_set_to_use_the_cpu():
    found = why(JAX, environment={"JAX_PLATFORMS": "cpu"})
    assert found.state == "ok"
    assert found.text.endswith("JAX_PLATFORMS is 'cpu'.")


@pytest.mark.parametrize(
    ("chosen", "left"),
    [
        *[("", 0), ("-1", 0), ("0", 1), ("1,0", 2), ("0,-1,1", 1), ("7", 0), (" 0 , 1 ", 2)],
        *[("GPU-a", 1), ("GPU-a,GPU-b2", 2), ("MIG-1", 1), ("NoDevFiles", 0)],
    ],
)
def test_the_gpus_that_a_choice_leaves(chosen, left):
    assert visible_gpus(chosen, TWO.gpus) == left


@pytest.mark.parametrize(
    ("files", "text", "step"),
    [
        (DeviceFiles(), "there is no /dev/nvidia0", "nvidia-modprobe -c=0"),
        (DeviceFiles(in_container=True), "there is no /dev/nvidia0", "--gpus all"),
        (DeviceFiles(cards=1), "there is no /dev/nvidia-uvm", "nvidia-modprobe -u -c=0"),
        (DeviceFiles(cards=1, in_container=True), "no /dev/nvidia-uvm", "--gpus all"),
        (
            replace(FILES, denied=("/dev/nvidia0", "/dev/nvidia-uvm")),
            "this user may not open /dev/nvidia0 and /dev/nvidia-uvm",
            "group `video` or `render`",
        ),
        (replace(FILES, mig_parts=3), "MIG divides the GPU", "CUDA_VISIBLE_DEVICES=MIG-"),
    ],
)
def test_what_device_files_show(files, text, step):
    found = why(TENSORFLOW, files=files)
    assert found.state == "warning"
    assert text in found.text
    assert step in found.next_step


def test_a_second_gpu_without_a_file_is_reported():
    found = why(seeing(TENSORFLOW, "H100"), machine=TWO, files=replace(FILES, cards=1))
    assert (
        "sees 1 GPU (H100), and NVML 2: only 1 of the device files /dev/nvidia0, … exist"
        in found.text
    )


def test_where_cuda_goes_by_other_files_none_is_missed():
    assert "/dev" not in why(TENSORFLOW, files=DeviceFiles(needed=False)).text


@pytest.mark.parametrize(
    ("framework", "complaint"),
    [
        (TENSORFLOW, "Could not find cuda drivers on your machine, GPU will not be used."),
        (TENSORFLOW, "Could not load dynamic library 'libcuda.so.1'; dlerror: …"),
        (TORCH, "Found no NVIDIA driver on your system."),
    ],
)
def test_a_missing_driver_library(framework, complaint):
    complaining = replace(framework, problems=(complaint, "failed call to cuInit"))
    assert "libcuda.so.1" in why(complaining).text
    assert "libcuda1" in why(complaining).next_step
    in_container = why(complaining, files=replace(FILES, in_container=True))
    assert "NVIDIA_DRIVER_CAPABILITIES=compute,utility" in in_container.next_step
    in_wsl = why(complaining, files=replace(FILES, in_wsl=True))
    assert "/usr/lib/wsl/lib" in in_wsl.next_step


def test_missing_cuda_libraries_are_named():
    names = ["libcudnn.so.9", "libcufft.so.11", "libcublas.so.12", "libcusparse.so.12"]
    problems = [f"Could not load dynamic library '{name}'; dlerror: …" for name in names]
    found = why(replace(TENSORFLOW, problems=(*problems, "Cannot dlopen some GPU libraries.")))
    assert (
        "does not find CUDA's libraries (libcudnn.so.9, libcufft.so.11, libcublas.so.12, …)"
        in found.text
    )
    assert found.next_step == "python -m pip install 'tensorflow[and-cuda]'"


def test_jax_without_its_libraries():
    found = why(replace(JAX, problems=("Unable to load cuDNN. Is it installed?",)))
    assert "does not find CUDA's libraries" in found.text
    assert "'jax[cuda12]'" in found.next_step


def test_for_any_other_reason_its_own_words_stand():
    problems = ("It was slow.", "failed call to cuInit: CUDA_ERROR_UNKNOWN", "Falling back.")
    found = why(replace(TENSORFLOW, problems=problems))
    assert "it says “failed call to cuInit: CUDA_ERROR_UNKNOWN”" in found.text
    assert "dmesg" in found.next_step
    assert "does not say why" in why(TENSORFLOW).text


def test_a_framework_that_could_not_be_asked_comes_last_with_a_step():
    broken = Framework("tensorflow", why="ImportError: numpy.core")
    alike, reported = compare(broken, seeing(TORCH, ""))
    assert alike.state == "ok"
    assert reported.text == "TensorFlow could not report its GPUs: ImportError: numpy.core."
    assert reported.next_step == "Run `python -c 'import tensorflow'` to see all that it says."


def test_a_cpu_without_the_instructions_of_the_build_is_reported():
    broken = Framework("tensorflow", why="it was ended by a signal", ended_by=signal.SIGILL)
    assert "AVX" in why(broken).next_step
