"""Say where a framework sees other GPUs than NVML does, why, and what to do about it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from dlmon.doctor.finding import Finding
from dlmon.doctor.frameworks import Framework
from dlmon.host import is_container
from dlmon.launch.device import VISIBLE
from dlmon.records import GpuFacts, MachineFacts

TOPIC = "frameworks"
HIDDEN = ("", "-1", "NoDevFiles")
_LOOK = "Run nvidia-smi, and look for Xid lines in dmesg."
_CARD = re.compile(r"nvidia\d+")
# CUDA opens these beside those of the cards; GPUs of WSL and of Tegra boards have files of theirs.
_OPENED = re.compile(r"nvidia(\d+|ctl|-uvm)")
_OTHER_WAYS = {"dxg", "nvmap"}
_NO_DRIVER_LIBRARY = re.compile(r"libcuda\.so|Could not find cuda drivers|no NVIDIA driver")
_NO_CUDA_LIBRARY = re.compile(r"Could not load dynamic library|Cannot dlopen|Unable to load")
_MAIN_ERROR = re.compile(r"cuInit|CUDA_ERROR|driver")

Reason = tuple[str, str | None]
"""Why a framework sees fewer GPUs, and what to do; nothing where the user asked for it."""


def compare_gpus(
    frameworks: Sequence[Framework],
    machine: MachineFacts | None,
    environment: Mapping[str, str],
    root: Path = Path("/"),
) -> Iterator[Finding]:
    """Yield one line for the frameworks that see what NVML sees, and one for each other.

    Args:
        frameworks: what each reported.
        machine: what the sensors reported; None if they failed, and then nothing is compared.
        environment: the variables that the frameworks were asked under.
        root: where /dev and /proc are.
    """
    # A GPU without a uuid is one that NVML has lost.
    gpus = [gpu for gpu in (machine and machine.gpus) or () if gpu.uuid is not None]
    alike = []
    for framework in frameworks:
        named = f"{framework.title} ({_build(framework)})"
        seen = f"{framework.title} sees {_seen(framework)}"
        if framework.gpus is None:
            yield _not_asked(framework)
        elif machine is None:
            yield Finding(TOPIC, "ok", f"{named} sees {_seen(framework)}")
        elif _count(framework) == len(gpus):
            alike.append(named)
        elif _count(framework) > len(gpus):
            text = (
                f"{seen}, and NVML {len(gpus) or 'none'}: dlmon shows NVIDIA GPUs that NVML sees."
            )
            yield Finding(TOPIC, "warning", text)
        else:
            why, step = _why_fewer(framework, gpus, machine, environment, root)
            text = f"{seen}, and NVML {len(gpus)}: {why}."
            yield Finding(TOPIC, "warning" if step else "ok", text, step)
    if alike:
        what = f"{_number(len(gpus))}, as NVML does" if gpus else "no GPU either"
        see = "sees" if len(alike) == 1 else "see"
        yield Finding(TOPIC, "ok", f"{' and '.join(alike)} {see} {what}")


def _not_asked(framework: Framework) -> Finding:
    why = framework.why or "it reported nothing"
    step = f"Run `python -c 'import {framework.module}'` to see all that it says."
    return Finding(TOPIC, "warning", f"{framework.title} could not report its GPUs: {why}.", step)


def _why_fewer(
    framework: Framework,
    gpus: Sequence[GpuFacts],
    machine: MachineFacts,
    environment: Mapping[str, str],
    root: Path,
) -> Reason:
    if framework.platform != "cuda":
        built = "for AMD's GPUs" if framework.platform == "rocm" else "without CUDA"
        return f"it was built {built}", _with_cuda(framework, machine)
    return (
        _hidden(framework, gpus, environment)
        or _driver_too_old(framework, machine)
        or _device_files(len(gpus), root, is_container(root, environment))
        or _by_its_log(framework, machine)
    )


def _hidden(
    framework: Framework, gpus: Sequence[GpuFacts], environment: Mapping[str, str]
) -> Reason | None:
    """Return whether the user's own variables hide what is missing."""
    platforms = environment.get("JAX_PLATFORMS", "")
    if framework.module == "jax" and platforms and not re.search("cuda|gpu", platforms):
        return f"JAX_PLATFORMS is {platforms!r}", None
    chosen = environment.get(VISIBLE)
    if chosen is None:
        return None
    left = visible_gpus(chosen, gpus)
    if left == len(gpus) or _count(framework) != left:
        return None
    if left or chosen.strip() in HIDDEN:
        return f"{VISIBLE} is {chosen!r}", None
    step = "Unset it, or name a GPU that `nvidia-smi -L` lists."
    return f"{VISIBLE} is {chosen!r}, which names none of them", step


def visible_gpus(chosen: str, gpus: Sequence[GpuFacts]) -> int:
    """Return how many GPUs a value of CUDA_VISIBLE_DEVICES leaves.

    CUDA takes its numbers and uuids in order, and ends at the first that names no GPU (CUDA C++
    Programming Guide, environment variables).
    """
    count = 0
    for name in (part.strip() for part in chosen.split(",")):
        numbered = name.isdecimal() and int(name) < len(gpus)
        named = name.startswith("GPU-") and any((gpu.uuid or "").startswith(name) for gpu in gpus)
        if not (numbered or named or name.startswith("MIG-")):
            break
        count += 1
    return count


def _driver_too_old(framework: Framework, machine: MachineFacts) -> Reason | None:
    """Compare the CUDA that the driver knows with that of the build, by major version.

    A build for any minor version runs on every driver of the same major version, and on all newer
    ones (docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html).
    """
    built_for, known = _major(framework.cuda), _major(machine.cuda)
    if built_for is None or known is None or known >= built_for:
        return None
    driver = f"the driver {machine.driver or ''}".rstrip()
    text = f"{driver} knows CUDA {machine.cuda} at most, and it was built for {_build(framework)}"
    return text, f"Update the NVIDIA driver to one for CUDA {built_for}."


def _device_files(gpus: int, root: Path, in_container: bool) -> Reason | None:
    """Return what CUDA lacks in /dev, or how MIG divides what is there."""
    try:
        names = sorted(path.name for path in (root / "dev").iterdir())
    except OSError:
        names = []
    if _OTHER_WAYS.intersection(names):
        return None
    opened = [root / "dev" / name for name in names if _OPENED.fullmatch(name)]
    denied = [path.name for path in opened if not os.access(path, os.R_OK | os.W_OK)]
    cards = sum(bool(_CARD.fullmatch(name)) for name in names)
    step = "Start the container with `--gpus all`."
    if cards < gpus:
        text = f"only {cards} of the device files /dev/nvidia0, … exist"
        return text, step if in_container else "Run `sudo nvidia-modprobe -c=0`."
    if "nvidia-uvm" not in names:
        text = "there is no /dev/nvidia-uvm, which CUDA needs and NVML doesn't"
        return text, step if in_container else "Run `sudo nvidia-modprobe -u -c=0`."
    if denied:
        step = "Ask for access to /dev/nvidia*, often by joining the group `video` or `render`."
        return f"this user may not open /dev/{' and /dev/'.join(denied)}", step
    if any((root / "proc/driver/nvidia/capabilities").glob("gpu*/mig/gi*/ci*")):
        step = f"Choose the part with {VISIBLE}=MIG-…, as `nvidia-smi -L` lists them."
        return "MIG divides the GPU, and CUDA gives a process only one part", step
    return None


def _by_its_log(framework: Framework, machine: MachineFacts) -> Reason:
    problems = framework.problems
    if not problems:
        return "it does not say why", _LOOK
    if any(map(_NO_DRIVER_LIBRARY.search, problems)):
        step = "Install it (Debian: libcuda1, Ubuntu: libnvidia-compute-NNN, WSL: in Windows), or "
        step += "start the container with `-e NVIDIA_DRIVER_CAPABILITIES=compute,utility`."
        return "it does not find the driver's library libcuda.so.1", step
    if library := next(filter(_NO_CUDA_LIBRARY.search, problems), None):
        text = f"it does not find CUDA's libraries: “{library.rstrip('.')}”"
        return text, _with_cuda(framework, machine)
    message = next(filter(_MAIN_ERROR.search, problems), problems[-1])
    return f"it says “{message.rstrip('.')}”", _LOOK


def _with_cuda(framework: Framework, machine: MachineFacts) -> str:
    """Return how to get a build for CUDA, one that the driver is new enough for."""
    major = min(max(_major(framework.cuda) or _major(machine.cuda) or 12, 12), 13)
    return {
        "tensorflow": "python -m pip install 'tensorflow[and-cuda]', without tensorflow-cpu",
        "jax": f"python -m pip install 'jax[cuda{major}]'",
    }.get(framework.module, f"Install PyTorch's build for CUDA {major}, as pytorch.org says.")


def _build(framework: Framework) -> str:
    if framework.platform == "cuda":
        return f"CUDA {framework.cuda or ''}".rstrip()
    return framework.platform or "no CUDA"


def _major(version: str | None) -> int | None:
    number = re.match(r"\d{1,4}", version or "")
    return int(number[0]) if number else None


def _count(framework: Framework) -> int:
    return len(framework.gpus or ())


def _seen(framework: Framework) -> str:
    """Say how many GPUs it sees, and what it calls them."""
    names = ", ".join(dict.fromkeys(name for name in framework.gpus or () if name))
    return _number(_count(framework)) + (f" ({names})" if names else "")


def _number(gpus: int) -> str:
    return {0: "no GPU", 1: "1 GPU"}.get(gpus, f"{gpus} GPUs")
