"""What Keras says of itself and of a model, asked for without importing it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from dlmon.instrument.devices import device_of_keras
from dlmon.instrument.queued import LEARNING_RATE

# Keras counts samples in float32: above, one more is the same number.
_LARGEST_COUNT = 1 << 24


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
