"""Why no training was seen in a script: what of the frameworks was, and what was missing.

Each process of a script leaves an empty file beside the monitor's socket for what it imports of
what trains, and for what it does with it.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from dlmon.instrument.reporter import SEEN

_TITLES = {
    "accelerate": "Accelerate",
    "lightning": "Lightning",
    "pytorch_lightning": "Lightning",
    "transformers": "Transformers",
    "torch": "PyTorch",
    "keras": "Keras",
    "tf_keras": "tf-keras",
    "tensorflow": "TensorFlow",
    "jax": "JAX",
    "xgboost": "XGBoost",
    "lightgbm": "LightGBM",
}
REPORTS_ITSELF = "a loop reports itself with import dlmon"


def sightings(folder: Path) -> set[str]:
    """Return what the processes of a script left beside the socket."""
    return {path.name.removeprefix(SEEN) for path in folder.glob(f"{SEEN}*")}


def what_was_missing(seen: Collection[str]) -> str:
    """Say which frameworks were imported, and what was not done with them.

    Args:
        seen: the packages that were imported, and what was done: see `Reporter.saw`.
    """
    titles = list(dict.fromkeys(title for name, title in _TITLES.items() if name in seen))
    if not titles:
        return f"no framework that dlmon watches was imported; {REPORTS_ITSELF}"
    *others, last = titles
    imported = f"{', '.join(others)} and {last} were" if others else f"{last} was"
    missing = [*_missing_of_torch(seen), *_missing_of_keras(seen)]
    missing += [
        f"train of {_TITLES[name]} was not called"
        for name in ("xgboost", "lightgbm")
        if name in seen
    ]
    if not missing and "jax" in seen:
        missing = ["the steps of JAX run in compiled code, where they can't be seen"]
    elif not missing and "tensorflow" in seen:
        missing = ["Keras was not"]
    said = f"{imported} imported; {', '.join(missing)}"
    by_itself = {"keras", "tf_keras", "jax", "tensorflow"} & set(seen)
    return f"{said}; {REPORTS_ITSELF}" if by_itself else said


def _missing_of_torch(seen: Collection[str]) -> list[str]:
    if "torch" not in seen:
        return []
    went_backward = "torch backward" in seen
    if went_backward and "torch loader" not in seen:
        return ["backward() was called, but no optimizer stepped and no DataLoader was read"]
    return ["no optimizer stepped" + ("" if went_backward else " and backward() was not called")]


def _missing_of_keras(seen: Collection[str]) -> list[str]:
    if not {"keras", "tf_keras"} & set(seen):
        return []
    if "keras replicas" in seen:
        return ["gradients were applied on several devices at once, which is not counted"]
    if "keras loop in a graph" in seen:
        return ["a loop within a tf.function, which can't be seen, applied gradients"]
    return ["fit was not called and no optimizer applied gradients"]
