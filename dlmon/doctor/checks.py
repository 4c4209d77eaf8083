"""Check what this machine offers for training, and what is missing."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from importlib import metadata
from pathlib import Path

import dlmon
from dlmon.comparison.conditions import BUSY_CPU_PCT
from dlmon.comparison.peaks import COMMAND, CalibrationError, flop_s_text, read_peaks
from dlmon.doctor.finding import Finding
from dlmon.doctor.frameworks import Framework, compare_gpus
from dlmon.records import TITLES, Facts, GpuFacts, GpuState, MachineFacts
from dlmon.records.sanitize import clean
from dlmon.sensors.linux.cpu import why_no_cpu_energy
from dlmon.system.this_host import is_container, is_wsl

OLDEST_PYTHON, FIRST_UNTRIED_PYTHON = (3, 11), (3, 15)
TENSORFLOW_NAMES = ("tensorflow", "tensorflow-cpu", "tensorflow-macos", "tf-nightly")
NVIDIA_PCI_VENDOR = "0x10de"
# Twice the log of a day at one sample a second.
MIN_FREE_MIB = 500
# A few lines of a terminal; a path may be longer than that.
LONGEST_TEXT = 500
_LEFT_ASLEEP = "it was left asleep, and so the frameworks were not asked"


def examine(
    facts: Facts | None,
    why_no_facts: str | None,
    session_directory: Path,
    environment: Mapping[str, str] = os.environ,
    version_of: Callable[[str], str | None] | None = None,
    python: tuple[int, int, int] = sys.version_info[:3],
    root: Path = Path("/"),
    calibration: Path | None = None,
    frameworks: Sequence[Framework] | None = None,
    user: str | None = None,
) -> tuple[Finding, ...]:
    """Return the findings in display order.

    Args:
        facts: the sensors' facts; None if they failed.
        why_no_facts: why they failed, in words.
        session_directory: the log directory; it need not exist.
        environment: the environment variables that a workload would get.
        version_of: returns an installed package's version, or None.
        python: the version of the interpreter that runs this.
        root: the directory with /dev, /etc, /proc, /run, /sys, /usr and /var.
        calibration: the file of matmul peaks; None skips that check.
        frameworks: each framework's report of its GPUs; None if they were not asked.
        user: the user who would run workloads; the user of this process by default.
    """
    version_of = version_of or installed_version
    findings = [
        _python(python),
        Finding("dlmon", "ok", f"dlmon {dlmon.__version__}"),
        _keras(version_of),
        _backends(version_of),
    ]
    if facts is None:
        why = why_no_facts or "the sensors reported nothing"
        step = "Run `python -m dlmon.sensors` to see what it says."
        findings.append(
            Finding("sensors", "missing", f"The hardware could not be read: {why}.", step)
        )
    else:
        findings += [_cpu(facts.machine), *_load(facts.machine), _memory(facts.machine)]
        findings += _gpus(facts.machine, root)
    machine = facts.machine if facts is not None else None
    if frameworks is not None:
        findings += compare_gpus(frameworks, machine, environment)
    if facts is not None:
        findings.append(_energy(root))
    if calibration is not None:
        findings += _calibration(calibration, machine)
    findings.append(_sessions(session_directory))
    findings += detached_run_findings(root, environment, user)
    return tuple(_cleaned(finding) for finding in findings)


def any_asleep(machine: MachineFacts) -> bool:
    """Return whether a GPU is asleep: a framework that looks for GPUs would wake it."""
    states = [machine.gpus_state, *(gpu.state for gpu in machine.gpus or ())]
    return GpuState.ASLEEP in states


def _cleaned(finding: Finding) -> Finding:
    step = finding.next_step
    return replace(
        finding,
        text=clean(finding.text, LONGEST_TEXT),
        next_step=None if step is None else clean(step, LONGEST_TEXT),
    )


def installed_version(package: str) -> str | None:
    """Return the version of an installed package without importing it."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _python(version: tuple[int, int, int]) -> Finding:
    text = f"Python {'.'.join(map(str, version))}"
    wanted = "Install Python 3.11 to 3.14, and recreate the environment with it."
    if version[:2] < OLDEST_PYTHON:
        return Finding("python", "missing", f"{text}: dlmon needs 3.11 or newer.", wanted)
    if version[:2] >= FIRST_UNTRIED_PYTHON:
        return Finding("python", "warning", f"{text}: dlmon was not tried with it.", wanted)
    return Finding("python", "ok", text)


def _keras(version_of: Callable[[str], str | None]) -> Finding:
    version = version_of("keras")
    if version is None:
        text = "Keras is not installed: workloads can't train here."
        step = "python -m pip install 'dlmon[tensorflow]', or run with --python PATH"
        return Finding("keras", "missing", text, step)
    if version.split(".")[0] == "2":
        text = f"Keras {version}: the workloads are written for Keras 3."
        return Finding("keras", "warning", text, "python -m pip install --upgrade keras")
    return Finding("keras", "ok", f"Keras {version}")


def _backends(version_of: Callable[[str], str | None]) -> Finding:
    tensorflow = next(filter(None, map(version_of, TENSORFLOW_NAMES)), None)
    versions = {"tensorflow": tensorflow, "jax": version_of("jax"), "torch": version_of("torch")}
    installed = [f"{TITLES[name]} {version}" for name, version in versions.items() if version]
    absent = [TITLES[name] for name, version in versions.items() if not version]
    if not installed:
        text = "No backend of Keras is installed: workloads can't train."
        return Finding("backend", "missing", text, "python -m pip install tensorflow")
    more = f"; not installed: {', '.join(absent)} (one backend is enough)" if absent else ""
    return Finding("backend", "ok", ", ".join(installed) + more)


def _cpu(machine: MachineFacts) -> Finding:
    if machine.cores is None:
        why = machine.why.get("cores", "unknown")
        return Finding("cpu", "warning", f"The number of cores is not known: {why}.")
    parts = [
        machine.cpu_model or "unknown model",
        f"{machine.cores} core{'s' * (machine.cores != 1)}",
    ]
    if machine.physical_cores is not None:
        parts.append(f"{machine.physical_cores} physical")
    text = ", ".join(parts)
    if machine.cpu_limit is not None and machine.cpu_limit < machine.cores:
        text += f"; the control group allows {machine.cpu_limit:g} of them at a time."
        step = "Raise the container's CPU limit, or expect a run to be throttled."
        return Finding("cpu", "warning", text, step)
    return Finding("cpu", "ok", text)


def _load(machine: MachineFacts) -> Iterator[Finding]:
    if machine.cpu_pct is not None and machine.cpu_pct >= BUSY_CPU_PCT:
        text = (
            f"The CPU is {machine.cpu_pct:.0f} % busy: results measured now would not be reliable."
        )
        yield Finding("load", "warning", text, "Let other programs finish before you measure.")
    if count := machine.foreign_gpu_processes:
        compute = "program computes" if count == 1 else "programs compute"
        text = f"{count} {compute} on the GPUs now."
        yield Finding("load", "warning", text, "Run dlmon watch, and press p, to see which.")
    if machine.on_battery:
        text = "The machine runs on battery, which slows it down."
        yield Finding("load", "warning", text, "Plug it in.")


def _memory(machine: MachineFacts) -> Finding:
    if machine.memory_mib is None:
        why = machine.why.get("memory_mib", "unknown")
        return Finding("memory", "warning", f"The size of the memory is not known: {why}.")
    text = f"{machine.memory_mib / 1024:.1f} GiB"
    if machine.memory_limit_mib is not None:
        text += f", of which the control group allows {machine.memory_limit_mib / 1024:.1f} GiB"
    if machine.swap_mib is not None:
        swap = f"{machine.swap_mib / 1024:.1f} GiB of swap" if machine.swap_mib else "no swap"
        text += f", {swap}"
    return Finding("memory", "ok", text)


def _gpus(machine: MachineFacts, root: Path) -> Iterator[Finding]:
    if machine.gpus is None:
        yield _why_no_gpu(machine.gpus_state, machine.why.get("gpus", "unknown"), root)
        return
    driver = f"driver {machine.driver}" if machine.driver else "driver of unknown version"
    if machine.cuda:
        driver += f", CUDA up to {machine.cuda}"
    if not machine.gpus:
        text = f"No NVIDIA GPU found: the driver works ({driver}), but lists none."
        step = "In a container or virtual machine, give it access to a GPU."
        yield Finding("gpu", "absent", text, step)
    for gpu in machine.gpus:
        yield _gpu(gpu, driver if gpu.vendor == "nvidia" else _kernel_driver(gpu, root))


def _gpu(gpu: GpuFacts, driver: str) -> Finding:
    if gpu.uuid is None:
        why = gpu.why.get("uuid", gpu.why.get("name", "unknown"))
        if gpu.state == GpuState.ASLEEP:
            return Finding("gpu", "ok", f"GPU {gpu.index} is {why}; {_LEFT_ASLEEP}")
        lines = "Xid lines" if gpu.vendor == "nvidia" else "lines of its driver"
        step = f"Look for {lines} in dmesg; a reset or a reboot may bring it back."
        return Finding("gpu", "warning", f"GPU {gpu.index} does not answer: {why}.", step)
    memory = f"memory {gpu.why.get('memory_mib', 'unknown')}"
    if gpu.memory_mib is not None:
        whose = " of the system's memory" if gpu.memory_kind == "system" else ""
        memory = f"{gpu.memory_mib / 1024:.1f} GiB{whose}"
    kind = " (a vGPU)" if gpu.virtualization == "vgpu" else ""
    return Finding("gpu", "ok", f"GPU {gpu.index}: {gpu.name}{kind}, {memory}, {driver}")


def _kernel_driver(gpu: GpuFacts, root: Path) -> str:
    return f"driver {(root / 'sys/bus/pci/devices' / str(gpu.bus_id) / 'driver').resolve().name}"


def _why_no_gpu(state: GpuState | None, why: str, root: Path) -> Finding:
    """Tell apart: no card, no driver, no permission, and mismatched driver versions."""
    control = root / "dev/nvidiactl"
    is_denied = control.exists() and not os.access(control, os.R_OK | os.W_OK)
    is_loaded = control.exists() or (root / "proc/driver/nvidia/version").exists()
    if state == GpuState.ASLEEP:
        return Finding("gpu", "ok", f"The GPU is {why}; {_LEFT_ASLEEP}")
    step = None
    if state == GpuState.VERSIONS_DIFFER:
        step = "Reboot: the driver was updated while it was loaded."
    elif state == GpuState.NO_PACKAGE:
        step = "python -m pip install nvidia-ml-py"
    elif is_denied:
        step = "Ask for access to /dev/nvidia*, often by joining the group `video` or `render`."
    elif is_loaded:
        step = "Install the driver's library (libnvidia-ml.so.1); run a container with --gpus all."
    elif _has_nvidia_card(root):
        step = "Install NVIDIA's driver for this system, and reboot."
    if step is not None:
        return Finding("gpu", "missing", f"No GPU can be used: {why}.", step)
    if is_wsl(root):
        step = "If there is one, install its driver in Windows (its library: /usr/lib/wsl/lib)."
        return Finding("gpu", "absent", f"No NVIDIA GPU found in WSL: {why}.", step)
    return Finding("gpu", "absent", f"No NVIDIA GPU found: training runs on the CPU ({why}).")


def _has_nvidia_card(root: Path) -> bool:
    """Look for a display or 3D controller (PCI class 03) of NVIDIA's."""
    try:
        return any(
            (device / "vendor").read_text().strip() == NVIDIA_PCI_VENDOR
            and (device / "class").read_text().startswith("0x03")
            for device in (root / "sys/bus/pci/devices").iterdir()
        )
    except OSError:
        return False


def _energy(root: Path) -> Finding:
    why, is_denied = why_no_cpu_energy(root)
    if why is None:
        return Finding("energy", "ok", "The CPU's energy counter can be read")
    text = f"The CPU's energy use can't be measured: {why}."
    if is_denied:
        step = "As root: chmod a+r /sys/class/powercap/intel-rapl:*/energy_uj (until a reboot)."
        return Finding("energy", "warning", text, step)
    return Finding("energy", "absent", text)


def _calibration(path: Path, machine: MachineFacts | None) -> Iterator[Finding]:
    """Yield the matmul peak of each device, or that it was not measured."""
    try:
        peaks = read_peaks(path)
    except CalibrationError as error:
        yield Finding("calibration", "warning", f"{error}.", COMMAND)
        return
    devices = {("cpu", (machine.cpu_model if machine else None) or "CPU"): None}
    devices |= {("gpu", gpu.name): None for gpu in (machine.gpus if machine else None) or ()}
    for device, name in devices:
        of_device = [peak for peak in peaks if peak.is_of(device, name)]
        if not of_device:
            text = f"The matmul peak of {name} is not measured, so runs show no share of it"
            yield Finding("calibration", "absent", f"{text} (optional).", COMMAND)
            continue
        rates = ", ".join(f"{peak.precision} {flop_s_text(peak.flop_s)}" for peak in of_device)
        day = datetime.fromtimestamp(min(peak.wall for peak in of_device)).strftime("%Y-%m-%d")
        yield Finding("calibration", "ok", f"Matmul peak of {name}: {rates} ({day})")


def _sessions(directory: Path) -> Finding:
    existing, step = directory, "Choose another place with --log-dir DIR."
    while not os.path.lexists(existing) and existing != existing.parent:
        existing = existing.parent
    problem = None if existing.is_dir() else "is not a directory"
    if problem is None and not os.access(existing, os.W_OK | os.X_OK):
        problem = "is not writable"
    if problem is not None:
        text = f"Sessions can't be stored in {directory}: {existing} {problem}."
        return Finding("sessions", "missing", text, step)
    free_mib = shutil.disk_usage(existing).free // 2**20
    text = f"Sessions are stored in {directory} ({free_mib / 1024:.1f} GiB free)"
    if free_mib < MIN_FREE_MIB:
        return Finding("sessions", "warning", text, f"Make room. {step}")
    return Finding("sessions", "ok", text)


# ---- the end of a detached run: batch systems, containers and login managers kill processes ----

# The variable with the job's id, and one that only this batch system sets.
_BATCH_SYSTEMS = (
    ("Slurm", "SLURM_JOB_ID", "SLURM_JOB_ID"),
    ("PBS", "PBS_JOBID", "PBS_JOBID"),
    ("LSF", "LSB_JOBID", "LSB_JOBID"),
    ("Grid Engine", "JOB_ID", "SGE_O_WORKDIR"),
)


def detached_run_findings(
    root: Path, environment: Mapping[str, str], user: str | None = None
) -> Iterator[Finding]:
    """Yield each event that would end a detached run, or one finding that none would.

    Args:
        root: the directory with /proc, /run and /var.
        environment: the environment variables that dlmon was started with.
        user: the user who runs it; the user of this process by default.
    """
    ends = list(_ends(root, environment, user or _user()))
    for text, step in ends:
        yield Finding("detached runs", "warning", f"A detached run ends {text}.", step)
    if not ends:
        text = "A detached run continues when you close the terminal and log out"
        yield Finding("detached runs", "ok", text)


def _ends(root: Path, environment: Mapping[str, str], user: str) -> Iterator[tuple[str, str]]:
    """Yield when a detached run ends, and what to do about it."""
    jobs = [
        f"{system} job {environment[job][:40]}"
        for system, job, sign in _BATCH_SYSTEMS
        if environment.get(job) and environment.get(sign)
    ]
    for job in jobs:
        step = "Request enough time, and run it without --detach in the job script."
        yield f"with this {job}", step
    if is_wsl(root):
        step = "Keep a window of this distribution open until the run is over."
        yield "soon after the last window of this WSL closes", step
    elif is_container(root, environment):
        step = "Keep the container, and keep the logs in a folder outside of it (--log-dir)."
        yield "when this container does", step
    elif not jobs and _ends_with_login(root, user):
        yield "once you have logged out everywhere", "loginctl enable-linger"


def _ends_with_login(root: Path, user: str) -> bool:
    """Return whether the end of the user's last login session would kill this process.

    It would if the user's service manager started it, unless the user lingers (loginctl(1)).
    """
    try:
        group = (root / "proc/self/cgroup").read_text("utf-8", "replace")
    except OSError:
        return False
    of_manager = re.search(r"/user@\d+\.service(/|$)", group, re.MULTILINE)
    lingers = user and (root / "var/lib/systemd/linger" / user).exists()
    return of_manager is not None and not lingers


def _user() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a container's user without a name
        return ""
