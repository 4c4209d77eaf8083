"""Errors as the backends really word them, put in one sentence."""

import pytest

from dlmon.records import FailureKind
from workloads.failure import RunRefused, in_words, kind_of, one_line


def error_of(name, text, base=Exception):
    return type(name, (base,), {})(text)


GPU, HOST = "GPU memory ran out with batch size 4,096 (", "memory ran out with batch size 4,096 ("


@pytest.mark.parametrize(
    ("kind", "text", "device", "says"),
    [
        (
            "ResourceExhaustedError",
            "Graph execution error:\n\nDetected at node defined at /opt/gpu-env/train.py\nOOM when "
            "allocating tensor with shape[4096,64] on device:CPU:0 by allocator cpu",
            "gpu:0",
            f"{HOST}ResourceExhaustedError: OOM when allocating tensor with shape[4096,64]",
        ),
        (
            "ResourceExhaustedError",
            "OOM when allocating tensor with shape[4096,64,224,224] and type float on "
            "/job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc [Op:Conv2D]",
            "gpu:0",
            GPU,
        ),
        (
            "InternalError",
            "Failed copying input tensor from CPU:0 to GPU:0 in order to run _EagerConst: "
            "Dst tensor is not initialized.",
            "gpu:0",
            GPU,
        ),
        ("JaxRuntimeError", "RESOURCE_EXHAUSTED: Out of memory allocating 5 bytes.", "gpu:1", GPU),
        ("XlaRuntimeError", "RESOURCE_EXHAUSTED: Out of memory allocating 5 bytes.", "cpu", HOST),
        ("OutOfMemoryError", "CUDA out of memory. Tried to allocate 48.00 GiB.", "gpu:0", GPU),
        ("OutOfMemoryError", "HIP out of memory. Tried to allocate 48 GiB.", "gpu:0", GPU),
        ("RuntimeError", "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling", "gpu:0", GPU),
        (
            "RuntimeError",
            "/opt/cuda-env: DefaultCPUAllocator: can't allocate memory: you tried",
            "cpu",
            HOST,
        ),
        ("RuntimeError", "ships.py: DefaultCPUAllocator: not enough memory", None, HOST),
        ("_ArrayMemoryError", "Unable to allocate 45.9 GiB for an array", None, HOST),
    ],
)
def test_a_lack_of_memory_is_reported_with_the_batch_size_and_which_memory(
    kind, text, device, says
):
    error = error_of(kind, text)
    reported = in_words(error, 4096, device)
    assert reported.startswith(says)
    assert kind_of(error) == FailureKind.OUT_OF_MEMORY
    assert "\n" not in reported


@pytest.mark.parametrize(
    ("error", "words", "kind"),
    [
        *(
            (error, f"{type(error).__name__}: {error}", FailureKind.EXCEPTION)
            for error in (
                ValueError("Input 0 of layer dense is incompatible: expected axis -1"),
                RuntimeError("CUDA error: an illegal memory access was encountered"),
                error_of("InvalidArgumentError", "required broadcastable shapes"),
            )
        ),
        (RunRefused("there is no such thing"), "there is no such thing", FailureKind.REFUSED),
        (
            error_of(
                "InvalidArgumentError",
                "Detected unsupported operations when trying to compile graph on XLA_CPU_JIT: x",
            ),
            "XLA can't compile this network; use --jit off (",
            FailureKind.EXCEPTION,
        ),
    ],
)
def test_another_error_is_no_lack_of_memory(error, words, kind):
    assert in_words(error, 100, "gpu:0").startswith(words)
    assert kind_of(error) == kind


@pytest.mark.parametrize(
    ("error", "reported"),
    [
        (ValueError(), "ValueError"),
        (ValueError("\n  \n"), "ValueError"),
        (ValueError("one\ntwo"), "ValueError: one"),
        (ValueError("x" * 9999), f"ValueError: {'x' * 500}"),
    ],
)
def test_only_the_first_line_of_an_error_is_reported(error, reported):
    assert one_line(error) == reported
