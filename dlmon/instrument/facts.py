"""What frameworks say of themselves, of a model and of the device; none of them is imported.

What is returned are fields of `Model`. A GPU is only "gpu" here: the monitor finds NVML's number
of it, which CUDA's own order says nothing of.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from dlmon.instrument.queued import LEARNING_RATE

VISIBLE = "CUDA_VISIBLE_DEVICES"
_UUID = "GPU-"
# What a version of a framework that lacks something answers with.
_LACKING = (AttributeError, IndexError, RuntimeError, TypeError, ValueError)
_CPU = {"device": "cpu"}
_GPU = {"device": "gpu"}
# Keras counts samples in float32: above, one more is the same number.
_LARGEST_COUNT = 1 << 24


def device_of_training(trained_by: Any) -> dict[str, Any]:
    """Return where PyTorch trains: where an optimiser's first parameter lies, or on a device."""
    try:
        groups = getattr(trained_by, "param_groups", None)
        return _device_of_torch(groups[0]["params"][0].device if groups else trained_by)
    except _LACKING as error:
        return _unknown(f"PyTorch does not say it ({type(error).__name__})")


def facts_of_training(trained_by: Any) -> dict[str, Any]:
    """Return where PyTorch trains, and what its optimiser is: an optimiser, or only a device."""
    groups = getattr(trained_by, "param_groups", None)
    if not groups:
        return device_of_training(trained_by)
    # Only what can be fused has the option; None is the default.
    fused = {"fused": groups[0]["fused"] is True} if "fused" in groups[0] else {}
    named = {"optimizer": type(trained_by).__name__}
    return {**named, **fused, **device_of_training(trained_by)}


def device_of_keras(backend: str) -> dict[str, Any]:
    """Return what Keras's backend computes on by default."""
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
    """Return what the parameters of XGBoost or LightGBM say: without a word it is the CPU."""
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
    if device.type != "cuda":
        return _unknown(f"it is {device.type}, which dlmon does not watch")
    properties = sys.modules["torch"].cuda.get_device_properties(device)
    uuid = getattr(properties, "uuid", None)
    named = {} if uuid is None else {"device_uuid": f"{_UUID}{str(uuid).removeprefix(_UUID)}"}
    return {**_visible_gpu(), "device_name": properties.name, **named}


def _device_of_tensorflow(tensorflow: Any) -> dict[str, Any]:
    if not tensorflow.config.list_logical_devices("GPU"):
        return _CPU
    first = tensorflow.config.list_physical_devices("GPU")[0]
    name = tensorflow.config.experimental.get_device_details(first).get("device_name")
    return {**_visible_gpu(), "device_name": name}


def _device_of_jax(jax: Any) -> dict[str, Any]:
    first = jax.local_devices()[0]
    if first.platform == "cpu":
        return _CPU
    if first.platform not in ("gpu", "cuda"):
        return _unknown(f"it is {first.platform}, which dlmon does not watch")
    return {**_visible_gpu(), "device_name": first.device_kind}


def _visible_gpu() -> dict[str, Any]:
    """Return a GPU, and which one where the environment names it by its uuid."""
    first = os.environ.get(VISIBLE, "").partition(",")[0].strip()
    return {**_GPU, "device_uuid": first} if first.startswith(_UUID) else _GPU


def _unknown(why: str) -> dict[str, Any]:
    return {"why": {"device": why}}


def framework_of(package: str) -> tuple[str, str | None, str]:
    """Return the name, the version and the backend of keras or tf_keras."""
    version = getattr(sys.modules.get(package), "__version__", None)
    backends = sys.modules.get("keras.src.backend") if package == "keras" else None
    backend = getattr(backends, "backend", None)
    return package, version, backend() if callable(backend) else "tensorflow"


class _LearningRate:
    """The rate that an optimizer learns at, read when it is asked for: on a GPU that waits."""

    def __init__(self, optimizer: Any) -> None:
        self._optimizer = optimizer

    def __float__(self) -> float:
        try:
            rate = self._optimizer.learning_rate
            return float(getattr(rate, "value", rate))
        except Exception as error:  # noqa: BLE001 - whatever a backend raises, there is no rate
            raise ValueError(str(error)) from None


def with_learning_rate(logs: Mapping[str, Any], model: Any) -> dict[str, Any]:
    """Return Keras's metrics with the learning rate, unless that is among them.

    On JAX the variables of an optimizer are not there while it trains.
    """
    optimizer = getattr(model, "optimizer", None)
    package = type(optimizer).__module__.partition(".")[0]
    if optimizer is None or framework_of(package)[2] == "jax":
        return dict(logs)
    return {**logs, LEARNING_RATE: logs.get(LEARNING_RATE, _LearningRate(optimizer))}


def looks_up(model: Any) -> bool:
    """Return whether any layer of a Keras model looks its input up, as an embedding does."""
    layers: Iterable[Any] = getattr(model, "_flatten_layers", tuple)()
    return any("Embedding" in kind.__name__ for one in layers for kind in type(one).__mro__)


def parameters_of(model: Any) -> int | None:
    """Return how many weights and biases a model has; None where it isn't built yet."""
    if not getattr(model, "built", False):
        return None
    try:
        # A model whose layers are built with its first batch has none before.
        return int(model.count_params()) or None
    except (AttributeError, ValueError):
        # A model whose own code builds it says that it is built before it is.
        return None


def qualities_of(model: Any, package: str) -> dict[str, Any]:
    """Return the fields of `Model` that Keras and the model say."""
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
    """Return how many samples the model's mean loss is of, which Keras resets for every pass.

    On TensorFlow only: where a model trains with a step of its own, there may be none.
    """
    mean = getattr(model, "_loss_tracker", None)
    if mean is None:
        mean = getattr(getattr(model, "compiled_loss", None), "_total_loss_mean", None)
    count = getattr(mean, "count", None)
    if count is None:
        return None
    samples = float(count.numpy() if hasattr(count, "numpy") else count)
    return int(samples) if 0 < samples < _LARGEST_COUNT else None
