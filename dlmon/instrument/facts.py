"""Read fields of `Model` from a framework, its model and its device, without importing it.

A GPU is only "gpu" here: the monitor finds its number, which CUDA's order doesn't tell. AMD's and
Intel's have a name in place of the uuid: "amd:N", with ROCm's number of all its devices, "intel:N".
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from dlmon.instrument.queued import LEARNING_RATE
from dlmon.records.rocm import CUDA_VISIBLE, device_before_hiding

VISIBLE = CUDA_VISIBLE
_UUID = "GPU-"
# Raised if this version of a framework lacks an attribute or a function.
_LACKING = (AttributeError, IndexError, RuntimeError, TypeError, ValueError)
_CPU = {"device": "cpu"}
_GPU = {"device": "gpu"}
# Keras counts samples in float32, which can't count further.
_LARGEST_COUNT = 1 << 24


def device_of_training(optimizer_or_device: Any) -> dict[str, Any]:
    """Return the device of PyTorch's training: that of the optimizer's first parameter."""
    try:
        groups = getattr(optimizer_or_device, "param_groups", None)
        return _device_of_torch(groups[0]["params"][0].device if groups else optimizer_or_device)
    except _LACKING as error:
        return _unknown(f"PyTorch does not say it ({type(error).__name__})")


def facts_of_training(optimizer_or_device: Any) -> dict[str, Any]:
    """Return the device of PyTorch's training, and the kind of the optimizer if there is one."""
    device = device_of_training(optimizer_or_device)
    torch = sys.modules.get("torch")
    if device == _CPU and torch is not None:
        device = device | {"threads": torch.get_num_threads()}
    groups = getattr(optimizer_or_device, "param_groups", None)
    if not groups:
        return device
    # Only optimizers that can be fused have the option; its default is None.
    fused = {"fused": groups[0]["fused"] is True} if "fused" in groups[0] else {}
    return {"optimizer": type(optimizer_or_device).__name__, **fused, **device}


def device_of_keras(backend: str) -> dict[str, Any]:
    """Return the default device of Keras's backend."""
    try:
        if backend == "tensorflow":
            return _device_of_tensorflow(sys.modules["tensorflow"])
        if backend == "jax":
            return _device_of_jax(sys.modules["jax"])
        if backend == "torch":
            name = sys.modules["keras.src.backend.torch.core"].get_device()
            return _device_of_torch(sys.modules["torch"].device(name))
    except (KeyError, *_LACKING) as error:
        return _unknown(f"{backend} does not say it ({type(error).__name__})")
    return _unknown(f"{backend} is not asked for it")


def device_of_boosting(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the device in the parameters of XGBoost or LightGBM; the CPU by default."""
    device = str(parameters.get("device") or parameters.get("device_type") or "cpu")
    kind, _, index = device.partition(":")
    if kind == "cpu":
        return _CPU
    if kind in ("cuda", "gpu") and index in ("", "0"):
        return _visible_gpu()
    return _unknown(f"it is {device}, and dlmon does not know which GPU that is")


def _device_of_torch(device: Any) -> dict[str, Any]:
    if device.type == "cpu":
        return _CPU
    torch, number = sys.modules["torch"], getattr(device, "index", None) or 0
    if device.type == "xpu":
        # The environment may hide devices by names that only Level Zero knows.
        place = "" if "ZE_AFFINITY_MASK" in os.environ else number
        name = torch.xpu.get_device_name(device)
        return {**_GPU, "device_name": name, "device_uuid": f"intel:{place}"}
    if device.type != "cuda":
        return _unknown(f"it is {device.type}, which dlmon does not watch")
    properties = torch.cuda.get_device_properties(device)
    if getattr(getattr(torch, "version", None), "hip", None):
        return {**_rocm_gpu(number), "device_name": properties.name}
    uuid = getattr(properties, "uuid", None)
    named = {} if uuid is None else {"device_uuid": f"{_UUID}{str(uuid).removeprefix(_UUID)}"}
    return {**_visible_gpu(), "device_name": properties.name, **named}


def _device_of_tensorflow(tensorflow: Any) -> dict[str, Any]:
    if not tensorflow.config.list_logical_devices("GPU"):
        return _CPU
    first = tensorflow.config.list_physical_devices("GPU")[0]
    name = tensorflow.config.experimental.get_device_details(first).get("device_name")
    is_rocm = tensorflow.sysconfig.get_build_info().get("is_rocm_build")
    return {**(_rocm_gpu(0) if is_rocm else _visible_gpu()), "device_name": name}


def _device_of_jax(jax: Any) -> dict[str, Any]:
    first = jax.local_devices()[0]
    if first.platform == "cpu":
        return _CPU
    if first.platform not in ("gpu", "cuda", "rocm"):
        return _unknown(f"it is {first.platform}, which dlmon does not watch")
    if "rocm" in getattr(getattr(first, "client", None), "platform_version", ""):
        return {**_rocm_gpu(0), "device_name": first.device_kind}
    return {**_visible_gpu(), "device_name": first.device_kind}


def _visible_gpu() -> dict[str, Any]:
    """Return a GPU, with its uuid if the environment names it."""
    first = os.environ.get(VISIBLE, "").partition(",")[0].strip()
    return {**_GPU, "device_uuid": first} if first.startswith(_UUID) else _GPU


def _rocm_gpu(number: int) -> dict[str, Any]:
    """Return a GPU with its name before the environment hides devices."""
    device = device_before_hiding(number, os.environ)
    name = device if device is not None and device.startswith(_UUID) else f"amd:{device or ''}"
    return {**_GPU, "device_uuid": name}


def _unknown(why: str) -> dict[str, Any]:
    return {"why": {"device": why}}


def framework_of(package: str) -> tuple[str, str | None, str]:
    """Return the name, the version and the backend of keras or tf_keras."""
    version = getattr(sys.modules.get(package), "__version__", None)
    backends = sys.modules.get("keras.src.backend") if package == "keras" else None
    backend = getattr(backends, "backend", None)
    return package, version, backend() if callable(backend) else "tensorflow"


class _LearningRate:
    """A learning rate that is read when it becomes a float: reading waits for a GPU."""

    def __init__(self, optimizer: Any) -> None:
        self._optimizer = optimizer

    def __float__(self) -> float:
        try:
            rate = self._optimizer.learning_rate
            return float(getattr(rate, "value", rate))
        except Exception as error:  # noqa: BLE001 - whatever a backend raises, there is no rate
            raise ValueError(str(error)) from None


def with_learning_rate(logs: Mapping[str, Any], model: Any) -> dict[str, Any]:
    """Return Keras's metrics with the learning rate, except on JAX.

    JAX takes the optimizer's variables away while it trains.
    """
    optimizer = getattr(model, "optimizer", None)
    package = type(optimizer).__module__.partition(".")[0]
    if optimizer is None or framework_of(package)[2] == "jax":
        return dict(logs)
    return {**logs, LEARNING_RATE: logs.get(LEARNING_RATE, _LearningRate(optimizer))}


def has_embedding(model: Any) -> bool:
    """Return whether a Keras model has an embedding layer."""
    layers: Iterable[Any] = getattr(model, "_flatten_layers", tuple)()
    return any("Embedding" in kind.__name__ for layer in layers for kind in type(layer).__mro__)


def parameters_of(model: Any) -> int | None:
    """Return the number of weights and biases of a Keras model; None before it is built."""
    if not getattr(model, "built", False):
        return None
    try:
        # 0 if its layers are built with the first batch.
        return int(model.count_params()) or None
    except (AttributeError, ValueError):
        # A model with a `build` of its own may say too early that it is built.
        return None


def qualities_of(model: Any, package: str) -> dict[str, Any]:
    """Return the fields of `Model` that Keras and its model know."""
    _, version, backend = framework_of(package)
    policy = getattr(model, "dtype_policy", None) or getattr(model, "_dtype_policy", None)
    jit = getattr(model, "jit_compile", None)
    return {
        "network": getattr(model, "name", None),
        "backend": backend,
        "backend_version": getattr(sys.modules.get(backend), "__version__", None),
        "keras_version": version,
        "precision": getattr(policy, "name", None),
        "jit": jit if isinstance(jit, bool) else None,
        **device_of_keras(backend),
    }


def count_of_samples(model: Any) -> int | None:
    """Return the number of samples in Keras's mean loss, which it resets for every pass.

    Only on TensorFlow; a model with a `train_step` of its own may have none.
    """
    mean = getattr(model, "_loss_tracker", None)
    if mean is None:
        mean = getattr(getattr(model, "compiled_loss", None), "_total_loss_mean", None)
    count = getattr(mean, "count", None)
    if count is None:
        return None
    samples = float(count.numpy() if hasattr(count, "numpy") else count)
    return int(samples) if 0 < samples < _LARGEST_COUNT else None
