"""What frameworks report of GPUs (real children, made-up modules), and why it is less than NVML."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from fakes.sessions import is_alive

from dlmon.doctor.frameworks import (
    Framework,
    ask_framework,
    compare_gpus,
    error_line,
    is_installed,
)
from dlmon.records import GpuFacts, MachineFacts

TENSORFLOW = """
import os, sys
from types import SimpleNamespace as _Space
__version__ = "2.21.0"
sysconfig = _Space(get_build_info=lambda: {
    "is_cuda_build": True, "is_rocm_build": False, "cuda_version": "12.5.1"})
def _list(kind):
    sys.stderr.write(
        "I0000 00:00:1795281230.995200   15479 dso_loader.cc:144] Could not load dynamic library "
        "'libcudnn.so.9'; dlerror: libcudnn.so.9: cannot open shared object file\\n"
        "W0000 00:00:1795281230.995200   15479 gpu_device.cc:2342] Cannot dlopen some GPU "
        "libraries. Please make sure that they are there.\\n"
        "I0000 00:00:1795281230.995200   15479 port.cc:153] oneDNN custom operations are on.\\n")
    return [0] * int(os.environ.get("GPUS", "0"))
config = _Space(
    list_physical_devices=_list,
    experimental=_Space(get_device_details=lambda gpu: {"device_name": "H100\\x1b[31m"}))
"""
JAX = """
import os
from types import SimpleNamespace as _Space
__version__ = "0.7.1"
if os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] != "false":
    raise MemoryError("it takes the GPU's memory")
def devices(platform):
    raise RuntimeError("Unable to initialize backend 'cuda': CUDA_ERROR_NO_DEVICE\\n(more)")
def local_devices():
    if "GPUS" in os.environ:
        return [_Space(platform="gpu", device_kind="H100")]
    return [_Space(platform="cpu", device_kind="cpu")]
"""
TORCH = """
import os, warnings
from types import SimpleNamespace as _Space
__version__ = os.environ.get("TORCH", "2.8.0+cu128")
version = _Space(cuda=None if "cpu" in __version__ else "12.8", hip=None)
def _is_available():
    if "GPUS" not in os.environ:
        warnings.warn("The NVIDIA driver on your system is too old (found version 11040).")
    return "GPUS" in os.environ
cuda = _Space(is_available=_is_available, device_count=lambda: 2)
"""


@pytest.fixture
def ask(tmp_path: Path):
    """Return a function that writes modules, and asks the first of them."""

    def write_and_ask(modules: dict[str, str], deadline_s: float = 60.0, **environment: str):
        for name, text in modules.items():
            (tmp_path / name).mkdir()
            (tmp_path / name / "__init__.py").write_text(text)
        reported = {**os.environ, "PYTHONPATH": str(tmp_path), **environment}
        return ask_framework(next(iter(modules)), reported, deadline_s)

    return write_and_ask


NO_CUDNN = (
    "Could not load dynamic library 'libcudnn.so.9'; dlerror: libcudnn.so.9: cannot open shared "
    "object file"
)
OF_JAX = "Unable to initialize backend 'cuda': CUDA_ERROR_NO_DEVICE (more)"
TOO_OLD = "The NVIDIA driver on your system is too old (found version 11040)."


@pytest.mark.parametrize(
    ("modules", "environment", "reported"),
    [
        (
            {"tensorflow": TENSORFLOW},
            {"GPUS": "2"},
            ("2.21.0", ("H100", "H100"), "cuda", "12.5.1", NO_CUDNN),
        ),
        (
            {"tensorflow": TENSORFLOW.replace('"is_cuda_build": True', '"is_cuda_build": False')},
            {},
            ("2.21.0", (), None, None, NO_CUDNN),
        ),
        (
            {"jax": JAX, "jaxlib": "", "jax_cuda13_plugin": ""},
            {},
            ("0.7.1", (), "cuda", "13", OF_JAX),
        ),
        ({"jax": JAX, "jaxlib": "__version__ = '0.7.1'"}, {}, ("0.7.1", (), None, None, None)),
        (
            {"jax": JAX, "jaxlib": "__version__ = '0.4.20+cuda12.cudnn89'"},
            {"GPUS": "1"},
            ("0.7.1", ("H100",), "cuda", "12", None),
        ),
        ({"torch": TORCH}, {}, ("2.8.0+cu128", (), "cuda", "12.8", TOO_OLD)),
        ({"torch": TORCH}, {"GPUS": "2"}, ("2.8.0+cu128", ("", ""), "cuda", "12.8", None)),
        ({"torch": TORCH}, {"TORCH": "2.8.0+cpu"}, ("2.8.0+cpu", (), None, None, TOO_OLD)),
    ],
)
def test_what_a_framework_reports(ask, modules, environment, reported):
    assert ask(modules, **environment) == Framework(next(iter(modules)), *reported)


@pytest.mark.parametrize(
    ("module", "why"),
    [
        ("raise ImportError('libfoo.so: \\x1b]0;x\\x07 not\\n found')", "ImportError: libfoo.so:"),
        ("import os; os._exit(3)", "it ended with exit code 3"),
        ("import os; os.abort()", "it was ended by a signal: Aborted"),
        ("import os, sys; sys.stdout.write('{}'); sys.stdout.flush(); os._exit(0)", "understood"),
        ("import os; print(chr(30) + 'dlmon [1]', flush=True); os._exit(0)", "understood"),
    ],
)
def test_a_framework_that_can_not_be_asked_says_why(ask, module, why):
    reported = ask({"torch": module})
    assert (reported.version, reported.gpus) == (None, None)
    assert why in reported.why
    assert reported.why.isprintable()


def test_a_framework_that_answers_and_then_hangs_has_answered(ask):
    hangs = "import atexit, time; atexit.register(time.sleep, 1000)\n"
    assert ask({"torch": hangs + TORCH}, GPUS="1").gpus == ("", "")


@pytest.mark.slow
def test_a_framework_that_hangs_is_ended_with_all_that_it_started(ask, tmp_path: Path):
    pid_file = tmp_path / "pid"
    hangs = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(1000)'])\n"
        f"open({str(pid_file)!r}, 'w').write(str(child.pid))\n"
        "time.sleep(1000)"
    )
    reported = ask({"torch": hangs}, deadline_s=2.0)
    assert reported.why == "it did not answer within 2 s"
    assert is_gone(int(pid_file.read_text()))


def is_gone(pid: int) -> bool:
    """Wait for a process that was killed; nobody may have reaped it."""
    deadline = time.monotonic() + 10.0
    while is_alive(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not is_alive(pid)


def test_a_folder_of_a_frameworks_name_is_no_framework(tmp_path: Path, monkeypatch):
    (tmp_path / "no_such_framework").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    assert not is_installed("no_such_framework")
    assert not is_installed("neither_this_one")
    assert is_installed("this")
    assert "this" not in sys.modules


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("E0000 00:00:1795281232.816578 15479 cuda_platform.cc:52] failed call to cuInit: X", "X"),
        ("2024-02-06 16:38:26.869: E external/xla/driver.cc:266] failed call to cuInit: X", "X"),
        ("WARNING:jax._src.xla_bridge:failed call to cuInit: X", "X"),
        (f"failed call to cuInit: {'x' * 5000}", "x" * 176),
        # Nobody misses TensorRT.
        ("x.cc:1] Could not load dynamic library 'libnvinfer.so.8'; dlerror", None),
    ],
)
def test_the_marks_of_logs_are_left_out_and_words_without_end_are_cut(line, said):
    found = error_line(f"noise\n{line}\n{line}\n")
    assert (found and found.rstrip("…")) == (said and f"failed call to cuInit: {said}"[:200])


# ---- beside what NVML sees ----

ONE = MachineFacts(
    gpus=(GpuFacts(index=0, name="H100", uuid="GPU-a1"),), driver="580.65", cuda="13.0"
)
TWO = replace(ONE, gpus=(*ONE.gpus, GpuFacts(index=1, name="H100", uuid="GPU-b2")))
LOST = replace(ONE, gpus=(*ONE.gpus, GpuFacts(index=1, name="H100", why={"uuid": "lost"})))
NONE = MachineFacts(why={"gpus": "no NVIDIA driver"})
TF = Framework("tensorflow", "2.21.0", (), "cuda", "12.5.1")
ON_JAX = Framework("jax", "0.7.1", (), "cuda", "12")
ON_TORCH = Framework("torch", "2.8.0", (), "cuda", "12.8")
CPU = {"platform": None, "cuda": None}
SEES_ONE = replace(TF, gpus=("H100",))
ON_ROCM = Framework("torch", "2.8.0", ("RX",), "rocm")
OF_AMD = MachineFacts(gpus=(GpuFacts(0, "RX", uuid="GPU-1", vendor="amd"),))


@pytest.mark.parametrize(
    ("framework", "machine", "environment", "state", "text", "step"),
    [
        (SEES_ONE, ONE, {}, "ok", "(CUDA 12.5.1) sees 1 GPU (H100), as NVML does", None),
        (SEES_ONE, LOST, {}, "ok", "as NVML does", None),
        (TF, NONE, {}, "ok", "sees no GPU", None),
        (SEES_ONE, None, {}, "ok", "sees 1 GPU (H100)", None),
        (SEES_ONE, NONE, {}, "warning", "sees 1 GPU (H100), and NVML none", None),
        (replace(TF, **CPU), ONE, {}, "warning", "without CUDA", "[and-cuda]'"),
        (replace(ON_JAX, **CPU), ONE, {}, "warning", "without CUDA", "'jax[cuda13]'"),
        (replace(ON_JAX, **CPU), replace(ONE, cuda="12.2"), {}, "warning", "CUDA", "'jax[cuda12]'"),
        (replace(ON_TORCH, **CPU), ONE, {}, "warning", "without CUDA", "build for CUDA 13"),
        (replace(TF, platform="rocm"), ONE, {}, "warning", "for AMD's GPUs", "[and-cuda]'"),
        (ON_ROCM, OF_AMD, {}, "ok", "sees 1 GPU (RX), as the kernel does", None),
        (replace(ON_ROCM, gpus=()), OF_AMD, {}, "warning", "it does not say why", "/dev/kfd"),
        (
            replace(ON_ROCM, gpus=()),
            OF_AMD,
            {"HIP_VISIBLE_DEVICES": "3"},
            "ok",
            "and the kernel 1: HIP_VISIBLE_DEVICES is '3'",
            None,
        ),
        (SEES_ONE, TWO, {"CUDA_VISIBLE_DEVICES": "GPU-b"}, "ok", "is 'GPU-b'", None),
        (ON_JAX, ONE, {"JAX_PLATFORMS": "cpu"}, "ok", "JAX_PLATFORMS is 'cpu'", None),
        (
            TF,
            replace(ONE, driver="470.82", cuda="11.4"),
            {},
            "warning",
            "the driver 470.82 knows CUDA 11.4 at most, and it was built for CUDA 12.5.1",
            "Update the NVIDIA driver",
        ),
        (TF, replace(ONE, cuda="12.0"), {}, "warning", "it does not say why", "dmesg"),
        (replace(TF, problem=NO_CUDNN), ONE, {}, "warning", NO_CUDNN, "[and-cuda]'"),
        (replace(ON_TORCH, problem=TOO_OLD), ONE, {}, "warning", TOO_OLD[:-1], "dmesg"),
        (
            Framework("torch", why="ImportError: numpy"),
            ONE,
            {},
            "warning",
            "PyTorch could not report its GPUs: ImportError: numpy.",
            "import torch",
        ),
    ],
)
def test_what_is_said_of_it_beside_what_nvml_sees(
    framework, machine, environment, state, text, step
):
    (found,) = compare_gpus([framework], machine, environment)
    assert (found.state, text in found.text) == (state, True)
    assert (found.next_step is None) if step is None else (step in found.next_step)
