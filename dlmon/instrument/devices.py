"""What a framework says of the device that it trains on, asked for without importing it.

What is returned are fields of `Model`. A GPU is only "gpu" here: the monitor finds NVML's number
of it, which CUDA's own order says nothing of.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

VISIBLE = "CUDA_VISIBLE_DEVICES"
_UUID = "GPU-"
# What a version of a framework that lacks something answers with.
_LACKING = (AttributeError, IndexError, RuntimeError, TypeError, ValueError)
_CPU = {"device": "cpu"}
_GPU = {"device": "gpu"}


def device_of_training(trained_by: Any) -> dict[str, Any]:
    """Return where PyTorch trains: where an optimiser's first parameter lies, or on a device."""
    try:
        groups = getattr(trained_by, "param_groups", None)
        return _device_of_torch(groups[0]["params"][0].device if groups else trained_by)
    except _LACKING as error:
        return _unknown(f"PyTorch does not say it ({type(error).__name__})")


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
