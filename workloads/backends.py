"""Set up the backend of Keras and choose its device.

A backend sizes its thread pools and looks for GPUs on import, so `prepare` comes first, then
`choose_backend`, and only then may Keras be imported.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from dlmon.records import ONE_DEVICE_WITH_TORCH, TITLES, gpu_name
from dlmon.records.rocm import HIP_VISIBLE
from workloads.failure import RunRefused, one_line


@dataclass(frozen=True)
class Backend:
    """An imported backend and the device that it trains on.

    Attributes:
        device: `cpu`, `gpu`, `gpu:N` by NVML index, `gpu:N+M` for several, or another platform of
            JAX, such as `tpu`.
        notice: the reason for a fallback to the CPU.
        devices: how many devices share each batch.
    """

    name: str
    version: str
    device: str
    device_name: str | None = None
    notice: str | None = None
    devices: int = 1


def prepare(options: Mapping[str, Any]) -> None:
    """Set this process's CPUs, and the environment that the backend reads on import.

    Call it before any thread starts: running threads keep their CPUs.

    Raises:
        RunRefused: more CPUs are requested than this process may use, or the backend is unknown.
    """
    backend = backend_of(options)
    cpus = options.get("cpus")
    if cpus:
        take_cpus(int(cpus))
    threads = threads_of(options)
    environment = os.environ
    environment["KERAS_BACKEND"] = backend
    if threads:
        environment["OMP_NUM_THREADS"] = str(threads)
    if backend == "tensorflow":
        environment.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
        # Otherwise it takes all of a GPU's memory, and memory used means nothing.
        environment.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
    elif backend == "jax":
        environment.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        if (options.get("devices") or 1) > 1:
            flag = f"--xla_force_host_platform_device_count={options['devices']}"
            environment["XLA_FLAGS"] = f"{environment.get('XLA_FLAGS', '')} {flag}".strip()
        if options.get("device") == "cpu":
            environment["JAX_PLATFORMS"] = "cpu"
        if threads:
            environment.update(_jax_threads(threads, environment.get("XLA_FLAGS")))


def take_cpus(count: int) -> None:
    """Restrict this thread, and threads that it starts, to the first of the allowed CPUs.

    Raises:
        RunRefused: fewer CPUs are allowed, or the system can't restrict a process.
    """
    if not hasattr(os, "sched_setaffinity"):
        raise RunRefused("--cpus needs Linux: here a process can't be kept to some of the CPUs")
    allowed = sorted(os.sched_getaffinity(0))
    if not 1 <= count <= len(allowed):
        raise RunRefused(f"--cpus {count}: this process may use {len(allowed)}; ask for no more")
    os.sched_setaffinity(0, allowed[:count])


def backend_of(options: Mapping[str, Any]) -> str:
    """Return Keras's name of the backend; TensorFlow by default."""
    name = str(options.get("backend") or "tensorflow")
    if name not in TITLES:
        raise RunRefused(f'there is no backend "{name}": use tensorflow, jax or torch')
    return name


def threads_of(options: Mapping[str, Any]) -> int | None:
    """Return the requested number of threads, by default that of the requested CPUs."""
    threads = options.get("threads") or options.get("cpus")
    return int(threads) if threads else None


def choose_backend(options: Mapping[str, Any]) -> Backend:
    """Import the backend, set its threads, choose its device, and then import Keras.

    Raises:
        RunRefused: the backend or Keras is missing or broken, or the requested GPU isn't visible.
    """
    name = backend_of(options)
    wanted = str(options.get("device") or "auto")
    gpus: Sequence[int] = options.get("gpus") or ()
    requested: int | None = options.get("devices")
    module = _import(name, name)
    version = str(module.__version__)
    threads = threads_of(options)
    kind, device_name, visible = _DEVICES[name](module, threads, wanted, requested or 1)
    _check_keras(_import("keras", name))
    devices = visible if requested is None else requested
    if devices > 1 and name == "torch":
        raise RunRefused(ONE_DEVICE_WITH_TORCH)
    if wanted == "cpu" or kind != "cpu":
        if devices > visible:
            raise RunRefused(
                f"{TITLES[name]} sees {visible} of the {devices} devices that were asked for"
            )
        # Without `gpus`, the user's CUDA_VISIBLE_DEVICES chose the GPUs.
        device = f"gpu:{'+'.join(map(str, gpus))}" if kind == "gpu" and gpus else kind
        return Backend(name, version, device, device_name, devices=devices)
    if wanted == "auto" and not gpus:
        return Backend(name, version, "cpu", devices=devices)
    reason = _why_no_gpu(name, module, gpus)
    if wanted == "gpu" or devices > 1:
        raise RunRefused(reason)
    return Backend(name, version, "cpu", notice=f"{reason}; using the CPU instead")


def spread(backend: Backend) -> AbstractContextManager[object]:
    """Return a context in which to build a model, so that its batches are split among devices."""
    if backend.devices == 1:
        return nullcontext()
    kind = backend.device.partition(":")[0]
    names = [f"{kind}:{number}" for number in range(backend.devices)]
    if backend.name == "tensorflow":
        tensorflow = importlib.import_module("tensorflow")
        scope: AbstractContextManager[object] = tensorflow.distribute.MirroredStrategy(
            names
        ).scope()
        return scope
    distribution = importlib.import_module("keras").distribution
    distribution.set_distribution(distribution.DataParallel(devices=names))
    return nullcontext()


def check_jit(backend: str, device: str, version: str) -> None:
    """Raise `RunRefused` if `--jit on` is impossible for any network.

    JAX and TensorFlow include XLA; Torch needs a compiler that may be missing.
    """
    if backend != "torch":
        return
    if _release(version) < (2, 1):
        raise RunRefused(
            f"--jit on needs PyTorch 2.1 or newer, and this is {version}; use --jit off"
        )
    if device == "cpu":
        compiler = os.environ.get("CXX") or "g++"
        if not any(shutil.which(name) for name in (compiler, "clang++")):
            raise RunRefused(
                "--jit on: PyTorch compiles for the CPU with a C++ compiler, and there is none; "
                "install g++ or use --jit off"
            )
    elif importlib.util.find_spec("triton") is None:
        raise RunRefused(
            "--jit on: PyTorch compiles for a GPU with Triton, which is not installed in "
            f"{sys.executable}; install it there with: pip install triton"
        )


def _import(module: str, backend: str) -> Any:
    try:
        return importlib.import_module(module)
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and error.name == module:
            raise RunRefused(
                f"{module} is not installed in {sys.executable}; "
                f"install it there with: pip install {module}"
            ) from None
        raise RunRefused(f"{TITLES[backend]} can't be imported: {one_line(error)}") from error


def _check_keras(keras: Any) -> None:
    if _release(keras.__version__) < (3,):
        raise RunRefused(
            f"the workloads need Keras 3, and {sys.executable} has Keras {keras.__version__}; "
            "install it there with: pip install --upgrade keras"
        )


def _release(version: str) -> tuple[int, ...]:
    """Return the leading numbers of a version: (2, 1) of 2.1.0rc1+cpu."""
    numbers = version.split(".")[:2]
    return tuple(int(number) for number in numbers if number.isascii() and number.isdecimal())


def _jax_threads(threads: int, flags: str | None) -> dict[str, str]:
    """Return the environment that sizes XLA's pool of CPU threads, with the user's other flags.

    XLA reads the size from PJRT_NPROC (NPROC before 2024). For one thread, matrix products must be
    kept from spreading too.
    """
    spread = "true" if threads > 1 else "false"
    others = [flag for flag in (flags or "").split() if "xla_cpu_multi_thread_eigen" not in flag]
    return {
        "PJRT_NPROC": str(threads),
        "NPROC": str(threads),
        "XLA_FLAGS": " ".join([*others, f"--xla_cpu_multi_thread_eigen={spread}"]),
    }


# Each sets a backend's threads, and returns the kind of its devices, the first one's name, and
# their number. A CPU can be split into any number of devices.


def _devices_of_tensorflow(
    tensorflow: Any, threads: int | None, wanted: str, devices: int
) -> tuple[str, str | None, int]:
    if threads:
        tensorflow.config.threading.set_intra_op_parallelism_threads(threads)
        tensorflow.config.threading.set_inter_op_parallelism_threads(threads)
    gpus = [] if wanted == "cpu" else tensorflow.config.list_physical_devices("GPU")
    if not gpus:
        if devices > 1:
            config = tensorflow.config
            cpu, *_ = config.list_physical_devices("CPU")
            part = config.LogicalDeviceConfiguration()
            config.set_logical_device_configuration(cpu, [part] * devices)
        return "cpu", None, devices
    details = tensorflow.config.experimental.get_device_details(gpus[0])
    return "gpu", details.get("device_name"), len(gpus)


def _devices_of_jax(
    jax: Any, threads: int | None, wanted: str, devices: int
) -> tuple[str, str | None, int]:
    try:
        first, *others = jax.devices()
    except RuntimeError as error:
        # The user's JAX_PLATFORMS may name a missing platform.
        raise RunRefused(f"JAX finds no device: {one_line(error)}") from error
    if first.platform == "cpu":
        return "cpu", None, 1 + len(others)
    kind = "gpu" if first.platform in ("gpu", "cuda", "rocm") else str(first.platform)
    return kind, str(first.device_kind), 1 + len(others)


def _devices_of_torch(
    torch: Any, threads: int | None, wanted: str, devices: int
) -> tuple[str, str | None, int]:
    if threads:
        torch.set_num_threads(threads)
        torch.set_num_interop_threads(threads)
    sees_gpu = wanted != "cpu" and torch.cuda.is_available()
    # Keras reads this on import; a device scope would hold for one thread only.
    os.environ["KERAS_TORCH_DEVICE"] = "cuda" if sees_gpu else "cpu"
    if not sees_gpu:
        return "cpu", None, 1
    return "gpu", str(torch.cuda.get_device_name(0)), 1


_DEVICES = {
    "tensorflow": _devices_of_tensorflow,
    "jax": _devices_of_jax,
    "torch": _devices_of_torch,
}


def _why_no_gpu(name: str, module: Any, gpus: Sequence[int]) -> str:
    """Return the reason why a backend sees none of the GPUs that NVML sees."""
    gpu = gpu_name(gpus) if gpus else "a GPU"
    if gpus and HIP_VISIBLE in os.environ:
        title = f"{TITLES[name]} {module.__version__}"
        return f"the kernel sees {gpu}, but {title} sees none: install its build for AMD's ROCm"
    reason = f"NVML sees {gpu}, but {TITLES[name]} {module.__version__} sees none"
    if name == "tensorflow" and not module.test.is_built_with_cuda():
        return f"{reason}: it was built without CUDA (pip install 'tensorflow[and-cuda]')"
    if name == "jax" and importlib.util.find_spec("jax_plugins") is None:
        return f"{reason}: its CUDA plugin is not installed (pip install 'jax[cuda12]')"
    if name == "torch" and not (module.version.cuda or getattr(module.version, "hip", None)):
        return f"{reason}: it was built without CUDA (pip install a build with CUDA)"
    platforms = os.environ.get("JAX_PLATFORMS")
    if name == "jax" and platforms is not None:
        return f"{reason}: JAX_PLATFORMS={platforms} may hide it"
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if not gpus and visible is not None:
        return f"{reason}: CUDA_VISIBLE_DEVICES={visible} may hide it"
    return f"{reason}: its CUDA libraries are missing or the driver is too old for them"
