"""Why a run can't go on, in one sentence for a person."""

from __future__ import annotations

import re

from dlmon.records import FailureKind

# What a lack of memory is called by NumPy and Python, TensorFlow, and Torch.
_MEMORY_ERRORS = ("MemoryError", "_ArrayMemoryError", "ResourceExhaustedError", "OutOfMemoryError")
# JAX has one error for everything, Torch on the CPU a RuntimeError, and TensorFlow an
# InternalError where an input has no room on the GPU: only the text says so.
_MEMORY_WORDS = re.compile(
    r"resource_exhausted|oom when allocating|out of memory|out_of_memory|not enough memory"
    r"|can't allocate memory|failed to allocate|_status_alloc_failed|dst tensor is not initialized",
    re.IGNORECASE,
)
# HIP is AMD's; a ship or a chip is not.
_GPU_WORDS = re.compile(r"gpu|cuda|cudnn|cublas|\bhip(?:\b|_|error|blas|malloc)", re.IGNORECASE)
_NOT_COMPILABLE = "unsupported operations when trying to compile"


class RunRefused(Exception):
    """The run can't go on; the message is a sentence for a person."""


def kind_of(error: Exception) -> FailureKind:
    """Return what made a run fail."""
    if isinstance(error, RunRefused):
        return FailureKind.REFUSED
    return FailureKind.OUT_OF_MEMORY if ran_out_of_memory(error) else FailureKind.EXCEPTION


def in_words(error: Exception, batch_size: int, device: str | None = None) -> str:
    """Return why a run failed.

    Args:
        error: what ended it.
        batch_size: samples in a batch, named where memory ran out.
        device: `cpu` or `gpu:N`, None when none had been chosen yet.
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
    """Return the same with the line that says what was asked for: TensorFlow's is not the first."""
    found = (line for line in str(error).splitlines() if _MEMORY_WORDS.search(line))
    line = next(found, None)
    return one_line(error) if line is None else f"{type(error).__name__}: {line.strip()[:500]}"


def ran_out_of_memory(error: Exception) -> bool:
    """Return whether an error is a lack of memory, whatever a framework calls it."""
    names = {kind.__name__ for kind in type(error).__mro__}
    return bool(names.intersection(_MEMORY_ERRORS)) or bool(_MEMORY_WORDS.search(str(error)))


def _on_gpu(error: Exception, device: str | None) -> bool:
    """Return whether it was the GPU's memory; JAX names no device, so its own one counts.

    The lines that mention memory decide; others may name any device.
    """
    if isinstance(error, MemoryError) or device == "cpu":
        return False
    text = str(error)
    if "resource_exhausted" in text.lower():
        return (device or "").startswith("gpu")
    of_memory = [line for line in text.splitlines() if _MEMORY_WORDS.search(line)]
    return any(_GPU_WORDS.search(line) for line in of_memory or [text])
