"""What Keras says of itself and of a model, asked for without importing it.

Runs in the trained interpreter: standard library only, Python 3.10 syntax.
"""

from __future__ import annotations

import sys
from typing import Any

from dlmon.instrument.devices import device_of_keras

# Keras counts samples in float32: above, one more is the same number.
_LARGEST_COUNT = 1 << 24


def framework_of(package: str) -> tuple[str, str | None, str]:
    """Return the name, the version and the backend of keras or tf_keras."""
    version = getattr(sys.modules.get(package), "__version__", None)
    backends = sys.modules.get("keras.src.backend") if package == "keras" else None
    backend = getattr(backends, "backend", None)
    return package, version, backend() if callable(backend) else "tensorflow"


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
