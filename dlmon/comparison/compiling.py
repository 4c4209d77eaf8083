"""Whether the first batch of a run compiles its network. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from dlmon.records import SessionHeader

# PyTorch computes step by step unless a script asks for more, trees are not compiled, and what
# reports its steps itself may be anything.
_NOT_KNOWN_TO = ("torch", "xgboost", "lightgbm", "dlmon")


def compiles(frameworks: Iterable[str], backend: object, jit: object) -> bool:
    """Return whether a first batch compiles, as far as that is known.

    Args:
        frameworks: what counts the batches of a script.
        backend: what Keras runs on.
        jit: whether its step is compiled as a whole.
    """
    if any(framework in _NOT_KNOWN_TO for framework in frameworks):
        return False
    return backend != "torch" or jit in (True, "on")


def compiled_by(header: SessionHeader) -> bool:
    """Return the same of a recorded run, by its header: a script's framework is not in that."""
    return not header.is_script and compiles(
        (), header.versions.get("backend"), header.options.get("jit")
    )
