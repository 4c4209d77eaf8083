"""Say where a framework sees other GPUs than NVML does, why, and what to do about it. Pure."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from dlmon.doctor.device_files import DeviceFiles
from dlmon.doctor.finding import Finding
from dlmon.doctor.frameworks import Framework
from dlmon.launch.device import VISIBLE
from dlmon.records import GpuFacts, MachineFacts

TOPIC = "frameworks"
# The oldest driver for each major version of CUDA, from the page that `_driver_too_old` names.
OLDEST_DRIVER = {11: "450", 12: "525", 13: "580"}
HIDDEN = ("", "-1", "NoDevFiles")
_LIBRARY = re.compile(r"Could not load dynamic library '([^']+)'")
_NO_DRIVER_LIBRARY = re.compile(r"libcuda\.so|Could not find cuda drivers|no NVIDIA driver")
_NO_CUDA_LIBRARY = re.compile(r"Could not load dynamic library|Cannot dlopen|Unable to load")
_MAIN_ERROR = re.compile(r"cuInit|CUDA_ERROR|driver")


@dataclass(frozen=True)
class Reason:
    """Why a framework sees fewer GPUs; one that the user asked for needs no next step."""

    text: str
    next_step: str | None = None


def compare_gpus(
    frameworks: Sequence[Framework],
    machine: MachineFacts | None,
    environment: Mapping[str, str],
    files: DeviceFiles,
) -> Iterator[Finding]:
    """Yield one line for the frameworks that see what NVML sees, and one for each other.

    Args:
        frameworks: what each reported.
        machine: what the sensors reported; None if they failed, and then nothing is compared.
        environment: the variables that the frameworks were asked under.
        files: what there is in /dev.
    """
    asked = [framework for framework in frameworks if framework.gpus is not None]
    if machine is None:
        for framework in asked:
            yield Finding(TOPIC, "ok", f"{_described(framework)} sees {_gpus(framework)}")
    else:
        # A GPU without a uuid is one that NVML has lost.
        gpus = [gpu for gpu in machine.gpus or () if gpu.uuid is not None]
        alike = [framework for framework in asked if _count(framework) == len(gpus)]
        if alike:
            yield _alike(alike, len(gpus))
        for framework in asked:
            if _count(framework) > len(gpus):
                yield _more(framework, gpus)
            elif _count(framework) < len(gpus):
                yield _fewer(framework, gpus, machine, environment, files)
    for framework in frameworks:
        if framework.gpus is None:
            yield _not_asked(framework)


def _alike(frameworks: Sequence[Framework], gpus: int) -> Finding:
    names = [_described(framework) for framework in frameworks]
    see = "sees" if len(names) == 1 else "see"
    what = f"{_number(gpus)}, as NVML does" if gpus else "no GPU either"
    return Finding(TOPIC, "ok", f"{_listed(names)} {see} {what}")


def _more(framework: Framework, gpus: Sequence[GpuFacts]) -> Finding:
    seen = f"{framework.title} sees {_gpus(framework)}"
    if framework.platform != "cuda":
        text = f"{seen}. dlmon watches NVIDIA GPUs only, so the charts of others stay empty."
        return Finding(TOPIC, "warning", text)
    text = f"{seen}, and NVML {len(gpus) or 'none'}: dlmon can't show what the others do."
    return Finding(TOPIC, "warning", text, "See the gpu line above, or run nvidia-smi.")


def _not_asked(framework: Framework) -> Finding:
    why = framework.why or "it reported nothing"
    step = f"Run `python -c 'import {framework.module}'` to see all that it says."
    if framework.ended_by == signal.SIGILL:
        step = f"Install a build of {framework.title} for this CPU: it lacks instructions (AVX)."
    return Finding(TOPIC, "warning", f"{framework.title} could not report its GPUs: {why}.", step)


def _fewer(
    framework: Framework,
    gpus: Sequence[GpuFacts],
    machine: MachineFacts,
    environment: Mapping[str, str],
    files: DeviceFiles,
) -> Finding:
    reason = (
        _built_without(framework, machine)
        or _hidden(framework, gpus, environment)
        or _driver_too_old(framework, machine)
        or _no_device_file(gpus, files)
        or _no_access(files)
        or _no_driver_library(framework, files)
        or _no_cuda_library(framework)
        or _divided(files)
        or _by_its_log(framework)
    )
    text = f"{framework.title} sees {_gpus(framework)}, and NVML {len(gpus)}: {reason.text}."
    return Finding(TOPIC, "warning" if reason.next_step else "ok", text, reason.next_step)


def _built_without(framework: Framework, machine: MachineFacts) -> Reason | None:
    if framework.platform == "cuda":
        return None
    built = "for AMD's GPUs" if framework.platform == "rocm" else "without CUDA"
    step = _with_cuda(framework, machine)
    if framework.module == "tensorflow":
        step += " in an environment without tensorflow-cpu."
    return Reason(f"it was built {built}", step)


def _hidden(
    framework: Framework, gpus: Sequence[GpuFacts], environment: Mapping[str, str]
) -> Reason | None:
    """Return whether the user's own variables hide what is missing.

    CUDA takes the numbers and uuids of CUDA_VISIBLE_DEVICES in order, and ends
    at the first that names no GPU (CUDA C++ Programming Guide, environment
    variables).
    """
    platforms = environment.get("JAX_PLATFORMS", "")
    if framework.module == "jax" and platforms and not re.search("cuda|gpu", platforms):
        return Reason(f"JAX_PLATFORMS is {platforms!r}")
    chosen = environment.get(VISIBLE)
    if chosen is None:
        return None
    left = visible_gpus(chosen, gpus)
    if left == len(gpus) or _count(framework) != left:
        return None
    if left or chosen.strip() in HIDDEN:
        return Reason(f"{VISIBLE} is {chosen!r}")
    return Reason(
        f"{VISIBLE} is {chosen!r}, which names none of them",
        "Unset it, or name a GPU that `nvidia-smi -L` lists.",
    )


def visible_gpus(chosen: str, gpus: Sequence[GpuFacts]) -> int:
    """Return how many GPUs a value of CUDA_VISIBLE_DEVICES leaves."""
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

    From CUDA 11 on, a build for any minor version runs on every driver of the
    same major version, and on all newer ones; docs.nvidia.com/deploy/
    cuda-compatibility/minor-version-compatibility.html names the oldest driver
    of each.
    """
    built_for, known = _major(framework.cuda), _major(machine.cuda)
    if built_for is None or known is None or known >= built_for:
        return None
    driver = f"the driver {machine.driver} knows" if machine.driver else "the driver knows"
    needed = OLDEST_DRIVER.get(built_for)
    to_which = f" to {needed} or newer" if needed is not None else ""
    text = f"{driver} CUDA {machine.cuda} at most, and it was built for {_cuda(framework)}"
    return Reason(text, f"Update the NVIDIA driver{to_which}.")


def _no_device_file(gpus: Sequence[GpuFacts], files: DeviceFiles) -> Reason | None:
    if not files.needed:
        return None
    if files.cards < len(gpus):
        text = "there is no /dev/nvidia0"
        if files.cards:
            text = f"only {files.cards} of the device files /dev/nvidia0, … exist"
        step = "Run `sudo nvidia-modprobe -c=0`."
    elif not files.uvm:
        text = "there is no /dev/nvidia-uvm, which CUDA needs and NVML doesn't"
        step = "Run `sudo nvidia-modprobe -u -c=0`."
    else:
        return None
    return Reason(text, "Start the container with `--gpus all`." if files.in_container else step)


def _no_access(files: DeviceFiles) -> Reason | None:
    if not files.denied:
        return None
    return Reason(
        f"this user may not open {_listed(files.denied)}",
        "Ask for access to /dev/nvidia*, often by joining the group `video` or `render`.",
    )


def _no_driver_library(framework: Framework, files: DeviceFiles) -> Reason | None:
    if not any(_NO_DRIVER_LIBRARY.search(text) for text in framework.problems):
        return None
    step = "Install it: Debian calls it libcuda1, Ubuntu libnvidia-compute-NNN."
    if files.in_wsl:
        step = "Install NVIDIA's driver in Windows, and add /usr/lib/wsl/lib to WSL's ldconfig."
    if files.in_container:
        step = "Start the container with `-e NVIDIA_DRIVER_CAPABILITIES=compute,utility`."
    return Reason("it does not find the driver's library libcuda.so.1", step)


def _no_cuda_library(framework: Framework) -> Reason | None:
    if not any(_NO_CUDA_LIBRARY.search(text) for text in framework.problems):
        return None
    named = [found[1] for text in framework.problems if (found := _LIBRARY.search(text))]
    which = f" ({', '.join(named[:3])}{', …' if len(named) > 3 else ''})" if named else ""
    return Reason(f"it does not find CUDA's libraries{which}", _with_cuda(framework, None))


def _divided(files: DeviceFiles) -> Reason | None:
    """CUDA shows a process one part of all that MIG divides GPUs into (MIG user guide)."""
    if not files.mig_parts:
        return None
    return Reason(
        "MIG divides the GPU, and CUDA gives a process only one part",
        f"Choose the part with {VISIBLE}=MIG-…, as `nvidia-smi -L` lists them.",
    )


def _by_its_log(framework: Framework) -> Reason:
    step = "Run nvidia-smi, and look for Xid lines in dmesg."
    if not framework.problems:
        return Reason("it does not say why", step)
    message = next(filter(_MAIN_ERROR.search, framework.problems), framework.problems[-1])
    return Reason(f"it says “{message.rstrip('.')}”", step)


def _with_cuda(framework: Framework, machine: MachineFacts | None) -> str:
    """Return how to get a build for CUDA, one that the driver is new enough for."""
    known = _major(framework.cuda) or _major(machine.cuda if machine else None) or 12
    major = min(max(known, 12), 13)
    if framework.module == "tensorflow":
        return "python -m pip install 'tensorflow[and-cuda]'"
    if framework.module == "jax":
        return f"python -m pip install 'jax[cuda{major}]'"
    return f"Install PyTorch's build for CUDA {major}, as pytorch.org says."


def _described(framework: Framework) -> str:
    build = _cuda(framework) if framework.platform == "cuda" else framework.platform
    return f"{framework.title} ({build or 'no CUDA'})"


def _cuda(framework: Framework) -> str:
    return f"CUDA {framework.cuda}" if framework.cuda else "CUDA"


def _major(version: str | None) -> int | None:
    number = re.match(r"\d{1,4}", version or "")
    return int(number[0]) if number else None


def _count(framework: Framework) -> int:
    return len(framework.gpus or ())


def _gpus(framework: Framework) -> str:
    """Say how many GPUs it sees, and what it calls them."""
    names = list(dict.fromkeys(name for name in framework.gpus or () if name))
    count = _number(_count(framework))
    return f"{count} ({', '.join(names)})" if names else count


def _number(gpus: int) -> str:
    return {0: "no GPU", 1: "1 GPU"}.get(gpus, f"{gpus} GPUs")


def _listed(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
