"""Compare the GPUs that TensorFlow, JAX and PyTorch see with those that NVML sees.

Each framework is imported in a process of its own, with a time limit and a workload's environment:
the import takes seconds, and may hang or crash.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any

from dlmon.doctor.finding import Finding
from dlmon.launch.device import VISIBLE
from dlmon.records import TITLES, MachineFacts
from dlmon.records.rocm import visible_variables
from dlmon.records.sanitize import clean
from dlmon.system.children import SAFE_PATH, die_with_parent, end_group

DEADLINE_S = 60.0
_MAX_BYTES = 1 << 18
_MAX_GPUS = 1024
_LONGEST_TEXT = 200
_MARK = "\x1edlmon "

# No preallocation: it would take GPU memory from a run that is going on. TensorFlow logs which
# libraries it did not find only if its loader is verbose.
_ENVIRONMENT = {
    **SAFE_PATH,
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    "TF_CPP_MIN_LOG_LEVEL": "0",
    "TF_CPP_VMODULE": "dso_loader=1",
}

_SCRIPT = r"""
import json, os, re, sys, warnings

def tensorflow():
    import tensorflow
    build = tensorflow.sysconfig.get_build_info()
    details = tensorflow.config.experimental.get_device_details
    gpus = tensorflow.config.list_physical_devices("GPU")
    platform = "cuda" if build.get("is_cuda_build") else None
    return {
        "version": tensorflow.__version__,
        "platform": "rocm" if build.get("is_rocm_build") else platform,
        "cuda": build.get("cuda_version") if platform else None,
        "gpus": [details(gpu).get("device_name") for gpu in gpus],
    }

def jax():
    import pkgutil
    import jax, jaxlib
    build = re.search(r"\+(cuda)(\d+)", getattr(jaxlib, "__version__", ""))
    for module in pkgutil.iter_modules():
        build = re.fullmatch(r"jax_(cuda|rocm)(\d+)_plugin", module.name) or build
    platform = build.group(1) if build else None
    problem, devices = None, []
    try:
        devices = jax.local_devices()
        if build and not any(device.platform != "cpu" for device in devices):
            jax.devices(platform)
    except Exception as error:
        problem = str(error)
    return {
        "version": jax.__version__,
        "platform": platform,
        "cuda": build.group(2) if platform == "cuda" else None,
        "gpus": [d.device_kind for d in devices if d.platform in ("gpu", "cuda", "rocm")],
        "problem": problem,
    }

def torch():
    import torch
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    platform = "cuda" if torch.version.cuda else None
    return {
        "version": torch.__version__,
        "platform": "rocm" if getattr(torch.version, "hip", None) else platform,
        "cuda": torch.version.cuda,
        "gpus": [None] * count,
        "problem": str(caught[0].message) if caught else None,
    }

try:
    answer = {"tensorflow": tensorflow, "jax": jax, "torch": torch}[sys.argv[1]]()
except Exception as error:
    answer = {"why": "%s: %s" % (type(error).__name__, error)}
sys.stdout.write(chr(30) + "dlmon " + json.dumps(answer, default=str) + chr(10))
sys.stdout.flush()
os._exit(0)  # a framework that hangs or crashes while it ends has answered anyway
"""

# The part of a log line that says why a GPU can't be used.
_ERROR_LINE = re.compile(
    r"(?:Could not load dynamic library '(?!libnvinfer)|Cannot dlopen|Could not find cuda drivers"
    r"|(?:failed call to )?cuInit|CUDA_ERROR|Unable to (?:load|initialize)"
    r"|\S+ version is insufficient|.*driver on your system is too old|.*no NVIDIA driver"
    r"|kernel driver does not appear).*"
)
_NO_LIBRARY = re.compile(r"Could not load dynamic library|Cannot dlopen|Unable to load")


@dataclass(frozen=True)
class Framework:
    """A framework's report of itself and of the GPUs that it sees.

    Attributes:
        module: tensorflow, jax or torch.
        version: the framework's version; None if it did not answer.
        gpus: the name of each GPU that it sees, or ""; None if it did not answer.
        platform: "cuda" or "rocm"; None for a CPU-only build.
        cuda: the version of CUDA that it was built for: "12.5.1", or "12".
        problem: the framework's own first error message about GPUs.
        why: why it did not answer.
    """

    module: str
    version: str | None = None
    gpus: tuple[str, ...] | None = None
    platform: str | None = None
    cuda: str | None = None
    problem: str | None = None
    why: str | None = None

    @property
    def title(self) -> str:
        return f"{TITLES[self.module]} {self.version}" if self.version else TITLES[self.module]

    @property
    def build(self) -> str:
        if self.platform == "cuda":
            return f"CUDA {self.cuda or ''}".rstrip()
        return self.platform or "no CUDA"

    @property
    def gpus_text(self) -> str:
        """The number of GPUs that it sees, and their names."""
        names = ", ".join(dict.fromkeys(filter(None, self.gpus or ())))
        return _number(len(self.gpus or ())) + (f" ({names})" if names else "")


def is_installed(module: str) -> bool:
    """Return whether a module is installed, without importing it; a mere folder doesn't count."""
    try:
        spec = importlib.util.find_spec(module)
    except ValueError:
        return False
    return spec is not None and spec.origin is not None


def ask_framework(
    module: str,
    environment: Mapping[str, str] = os.environ,
    deadline_s: float = DEADLINE_S,
) -> Framework:
    """Return a framework's report. Must be called from the main thread.

    Args:
        module: tensorflow, jax or torch.
        environment: the environment variables that a workload would get.
        deadline_s: the time limit for its answer.
    """
    try:
        with tempfile.TemporaryFile() as answer, tempfile.TemporaryFile() as log:
            why = _run(module, {**environment, **_ENVIRONMENT}, deadline_s, answer, log)
            return _parsed(module, _text_of(answer), error_line(_text_of(log)), why)
    except OSError as error:
        return Framework(module, why=error.strerror or str(error))


def error_line(text: str) -> str | None:
    """Return the first line of a framework's log that says why it can't use a GPU."""
    match = _ERROR_LINE.search(text)
    return None if match is None else _text(match[0])


def _run(
    module: str,
    environment: Mapping[str, str],
    deadline_s: float,
    answer: IO[bytes],
    log: IO[bytes],
) -> str | None:
    """Run the child, which writes to `answer` and `log`; return what went wrong."""
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", _SCRIPT, module],
        stdin=subprocess.DEVNULL,
        stdout=answer,
        stderr=log,
        env=environment,
        start_new_session=True,
        preexec_fn=die_with_parent(os.getpid()),
    )
    try:
        code = process.wait(deadline_s)
    except subprocess.TimeoutExpired:
        return f"it did not answer within {deadline_s:g} s"
    finally:
        end_group(process.pid, signal.SIGKILL)
        # A child that hangs in the driver can't be killed: don't wait for it.
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(1.0)
    if code < 0:
        return f"it was ended by a signal: {signal.strsignal(-code) or -code}"
    return f"it ended with exit code {code}" if code else None


def _text_of(file: IO[bytes]) -> str:
    file.seek(0, os.SEEK_END)
    file.seek(max(0, file.tell() - _MAX_BYTES))
    return file.read().decode("utf-8", "replace")


def _parsed(module: str, answer: str, problem: str | None, why: str | None) -> Framework:
    """Parse, check and clean the child's answer; `why` says what went wrong with the child."""
    line = answer.rpartition(_MARK)[2].partition("\n")[0]
    try:
        fields = json.loads(line)
        if fields.get("why"):
            return Framework(module, problem=problem, why=_text(fields["why"]))
        reported, platform, cuda = (fields.get(name) for name in ("problem", "platform", "cuda"))
        return Framework(
            module,
            version=_text(fields["version"]),
            gpus=tuple(_text(name or "") for name in fields["gpus"][:_MAX_GPUS]),
            platform=_text(platform) if platform else None,
            cuda=_text(cuda) if cuda else None,
            problem=_text(reported) if reported else problem,
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return Framework(module, problem=problem, why=why or "its answer was not understood")


def _text(value: Any) -> str:
    return clean(" ".join(str(value).split()), _LONGEST_TEXT)


# ---- comparison with NVML ----


def compare_gpus(
    frameworks: Sequence[Framework], machine: MachineFacts | None, environment: Mapping[str, str]
) -> Iterator[Finding]:
    """Yield a finding for each framework.

    Args:
        frameworks: their reports.
        machine: the sensors' facts; None if they failed, and then nothing is compared.
        environment: the environment variables of the frameworks.
    """
    # A driver has lost a GPU that has no uuid.
    vendors = [gpu.vendor for gpu in (machine and machine.gpus) or () if gpu.uuid is not None]
    for framework in frameworks:
        is_for_amd = framework.platform == "rocm" and "amd" in vendors
        gpus, driver = vendors.count("amd" if is_for_amd else "nvidia"), "NVML"
        if is_for_amd:
            driver = "the kernel"
        text = f"{framework.title} ({framework.build}) sees {framework.gpus_text}"
        if framework.gpus is None:
            why = framework.why or "it reported nothing"
            text = f"{framework.title} could not report its GPUs: {why}."
            step = f"Run `python -c 'import {framework.module}'` to see all that it says."
            yield Finding("frameworks", "warning", text, step)
        elif machine is None:
            yield Finding("frameworks", "ok", text)
        elif len(framework.gpus) == gpus:
            yield Finding("frameworks", "ok", f"{text}, as {driver} does" if gpus else text)
        elif len(framework.gpus) > gpus:
            text += f", and {driver} {gpus or 'none'}: dlmon shows those that {driver} sees."
            yield Finding("frameworks", "warning", text)
        else:
            why, next_step = _why_fewer(framework, machine, environment)
            if is_for_amd:
                why, next_step = _why_fewer_of_amd(environment)
            text += f", and {driver} {gpus}: {why}."
            yield Finding("frameworks", "warning" if next_step else "ok", text, next_step)


def _why_fewer(
    framework: Framework, machine: MachineFacts, environment: Mapping[str, str]
) -> tuple[str, str | None]:
    """Return why it sees fewer GPUs, and the next step; None if the user's settings say so."""
    if framework.platform != "cuda":
        built = "for AMD's GPUs" if framework.platform == "rocm" else "without CUDA"
        return f"it was built {built}", _with_cuda(framework, machine)
    for name in (VISIBLE, *(["JAX_PLATFORMS"] if framework.module == "jax" else [])):
        if name in environment:
            return f"{name} is {environment[name]!r}", None
    # A driver runs builds for every minor version of its major version, and for older major ones
    # (docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html).
    built_for, supported = _major(framework.cuda), _major(machine.cuda)
    if built_for is not None and supported is not None and supported < built_for:
        driver = f"the driver {machine.driver or ''}".rstrip()
        why = f"{driver} knows CUDA {machine.cuda} at most, and it was built for {framework.build}"
        return why, f"Update the NVIDIA driver to one for CUDA {built_for}."
    if framework.problem is None:
        look = "Run nvidia-smi, and look for Xid lines in dmesg; start a container with --gpus all."
        return "it does not say why", look
    why = f"it says “{framework.problem.rstrip('.')}”"
    if _NO_LIBRARY.search(framework.problem):
        return why, _with_cuda(framework, machine)
    return why, "Run nvidia-smi, and look for Xid lines in dmesg."


def _why_fewer_of_amd(environment: Mapping[str, str]) -> tuple[str, str | None]:
    for name in visible_variables(environment):
        return f"{name} is {environment[name]!r}", None
    return "it does not say why", "Ask for access to /dev/kfd, often by joining the group `render`."


def _with_cuda(framework: Framework, machine: MachineFacts) -> str:
    """Return how to install a build for a CUDA version that the driver supports."""
    major = min(max(_major(framework.cuda) or _major(machine.cuda) or 12, 12), 13)
    return {
        "tensorflow": "python -m pip install 'tensorflow[and-cuda]', without tensorflow-cpu",
        "jax": f"python -m pip install 'jax[cuda{major}]'",
    }.get(framework.module, f"Install PyTorch's build for CUDA {major}, as pytorch.org says.")


def _major(version: str | None) -> int | None:
    number = re.match(r"\d{1,4}", version or "")
    return int(number[0]) if number else None


def _number(gpus: int) -> str:
    return {0: "no GPU", 1: "1 GPU"}.get(gpus, f"{gpus} GPUs")
