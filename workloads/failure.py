"""Describe in one sentence why a run failed."""

from __future__ import annotations

import re

from dlmon.records import FailureKind

# The names of errors by which Python, NumPy, TensorFlow and Torch report a lack of memory.
_MEMORY_ERRORS = ("MemoryError", "_ArrayMemoryError", "ResourceExhaustedError", "OutOfMemoryError")
# JAX has one error for everything, Torch on the CPU raises RuntimeError, and TensorFlow
# InternalError if an input doesn't fit on the GPU: only the text tells.
_MEMORY_WORDS = re.compile(
    r"resource_exhausted|oom when allocating|out of memory|out_of_memory|not enough memory"
    r"|can't allocate memory|failed to allocate|_status_alloc_failed|dst tensor is not initialized",
    re.IGNORECASE,
)
# HIP is AMD's; a ship or a chip is not.
_GPU_WORDS = re.compile(r"gpu|cuda|cudnn|cublas|\bhip(?:\b|_|error|blas|malloc)", re.IGNORECASE)
_NOT_COMPILABLE = "unsupported operations when trying to compile"


class RunRefused(Exception):
    """The run can't go on; the message is a sentence for the user."""


def kind_of(error: Exception) -> FailureKind:
    """Return the kind of failure that an error stands for."""
    if isinstance(error, RunRefused):
        return FailureKind.REFUSED
    return FailureKind.OUT_OF_MEMORY if ran_out_of_memory(error) else FailureKind.EXCEPTION


def in_words(error: Exception, batch_size: int, device: str | None = None) -> str:
    """Return a sentence that says why a run failed.

    Args:
        error: ended the run.
        batch_size: named if memory ran out.
        device: `cpu` or `gpu:N`; None before it was chosen.
    """
    if isinstance(error, RunRefused):
        return str(error)
    if ran_out_of_memory(error):
        memory = "GPU memory" if _on_gpu(error, device) else "memory"
        return f"{memory} ran out with batch size {batch_size:,} ({_memory_line(error)})"
    if _NOT_COMPILABLE in str(error):
        return f"XLA can't compile this network; use --jit off ({one_line(error)})"
    return one_line(error)


def one_line(error: BaseException) -> str:
    """Return an error's type and the first line of its text."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:500]}" if lines else type(error).__name__


def _memory_line(error: Exception) -> str:
    """Return an error's type and the line about memory, which is not TensorFlow's first."""
    lines = str(error).splitlines()
    line = next((line for line in lines if _MEMORY_WORDS.search(line)), None)
    return one_line(error) if line is None else f"{type(error).__name__}: {line.strip()[:500]}"


def ran_out_of_memory(error: Exception) -> bool:
    """Return whether an error of any framework is a lack of memory."""
    names = {kind.__name__ for kind in type(error).__mro__}
    return bool(names.intersection(_MEMORY_ERRORS)) or bool(_MEMORY_WORDS.search(str(error)))


def _on_gpu(error: Exception, device: str | None) -> bool:
    """Return whether the GPU's memory ran out, by the lines about memory.

    JAX's errors name no device: the device of the run counts.
    """
    if isinstance(error, MemoryError) or device == "cpu":
        return False
    text = str(error)
    if "resource_exhausted" in text.lower():
        return (device or "").startswith("gpu")
    of_memory = [line for line in text.splitlines() if _MEMORY_WORDS.search(line)]
    return any(_GPU_WORDS.search(line) for line in of_memory or [text])
