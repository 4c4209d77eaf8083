"""Errors as the backends really word them, put in one sentence."""

import pytest

from dlmon.records import FailureKind
from workloads.failure import Refused, in_words, kind_of, one_line


def error_of(name, text, base=Exception):
    return type(name, (base,), {})(text)


OUT_OF_MEMORY = {
    "TensorFlow, host": (
        error_of(
            "ResourceExhaustedError",
            "Graph execution error:\n\nOOM when allocating tensor with shape[4096,64,224,224] and "
            "type float on /job:localhost/replica:0/task:0/device:CPU:0 by allocator cpu",
        ),
        "cpu",
        "memory ran out with batch size 4,096 (",
    ),
    "TensorFlow, GPU": (
        error_of(
            "ResourceExhaustedError",
            "OOM when allocating tensor with shape[4096,64,224,224] and type float on "
            "/job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc [Op:Conv2D]",
        ),
        "gpu:0",
        "GPU memory ran out with batch size 4,096 (",
    ),
    "TensorFlow, no room for the input": (
        error_of(
            "InternalError",
            "Failed copying input tensor from CPU:0 to GPU:0 in order to run _EagerConst: "
            "Dst tensor is not initialized.",
        ),
        "gpu:0",
        "GPU memory ran out with batch size 4,096 (",
    ),
    "JAX, GPU": (
        error_of(
            "JaxRuntimeError",
            "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 52613349376 bytes.",
            RuntimeError,
        ),
        "gpu:1",
        "GPU memory ran out with batch size 4,096 (",
    ),
    "JAX, CPU": (
        error_of(
            "XlaRuntimeError",
            "RESOURCE_EXHAUSTED: Out of memory allocating 52613349376 bytes.",
            RuntimeError,
        ),
        "cpu",
        "memory ran out with batch size 4,096 (",
    ),
    "PyTorch, GPU": (
        error_of(
            "OutOfMemoryError", "CUDA out of memory. Tried to allocate 48.00 GiB.", RuntimeError
        ),
        "gpu:0",
        "GPU memory ran out with batch size 4,096 (",
    ),
    "PyTorch, CPU": (
        RuntimeError(
            "[enforce fail at alloc_cpu.cpp:121] err == 0. DefaultCPUAllocator: can't allocate "
            "memory: you tried to allocate 52613349376 bytes. Error code 12"
        ),
        "cpu",
        "memory ran out with batch size 4,096 (",
    ),
    "cuBLAS": (
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
        "gpu:0",
        "GPU memory ran out with batch size 4,096 (",
    ),
    "TensorFlow, host, in a program that was made for GPUs": (
        error_of(
            "ResourceExhaustedError",
            "Graph execution error:\n\nDetected at node defined at /opt/gpu-env/train.py\nOOM when "
            "allocating tensor with shape[4096,64] on device:CPU:0 by allocator cpu",
        ),
        "gpu:0",
        "memory ran out with batch size 4,096 (",
    ),
    "PyTorch on the CPU, in a path that speaks of GPUs": (
        RuntimeError("/opt/cuda-env: DefaultCPUAllocator: can't allocate memory"),
        "cpu",
        "memory ran out with batch size 4,096 (",
    ),
    "a ship is no HIP": (
        RuntimeError("ships.py: DefaultCPUAllocator: not enough memory"),
        None,
        "memory ran out with batch size 4,096 (",
    ),
    "PyTorch, AMD": (
        error_of("OutOfMemoryError", "HIP out of memory. Tried to allocate 48 GiB.", RuntimeError),
        "gpu:0",
        "GPU memory ran out with batch size 4,096 (",
    ),
    "AMD's own name": (
        RuntimeError("hipErrorOutOfMemory: out of memory"),
        "gpu:0",
        "GPU memory ran out with batch size 4,096 (",
    ),
    "Python": (MemoryError(), "gpu:0", "memory ran out with batch size 4,096 (MemoryError)"),
    "NumPy": (
        error_of(
            "_ArrayMemoryError",
            "Unable to allocate 45.9 GiB for an array with shape (60000, 784)",
            MemoryError,
        ),
        None,
        "memory ran out with batch size 4,096 (_ArrayMemoryError: Unable to allocate",
    ),
}


@pytest.mark.parametrize(("error", "device", "says"), OUT_OF_MEMORY.values(), ids=OUT_OF_MEMORY)
def test_a_lack_of_memory_is_reported_with_the_batch_size_and_which_memory(error, device, says):
    reported = in_words(error, 4096, device)
    assert reported.startswith(says)
    assert kind_of(error) == FailureKind.OUT_OF_MEMORY
    assert "\n" not in reported


@pytest.mark.parametrize(
    "error",
    [
        ValueError("Input 0 of layer dense is incompatible: expected axis -1"),
        RuntimeError("CUDA error: an illegal memory access was encountered"),
        error_of("InvalidArgumentError", "required broadcastable shapes"),
    ],
)
def test_another_error_is_no_lack_of_memory(error):
    assert in_words(error, 100, "gpu:0") == f"{type(error).__name__}: {error}"
    assert kind_of(error) == FailureKind.EXCEPTION


def test_what_was_refused_is_reported_as_it_is():
    refused = Refused("there is no such thing; use another")
    assert in_words(refused, 100) == "there is no such thing; use another"
    assert kind_of(refused) == FailureKind.REFUSED


def test_a_network_that_xla_cannot_compile_says_what_to_do():
    error = error_of(
        "InvalidArgumentError",
        "Detected unsupported operations when trying to compile graph "
        "__inference_one_step_on_data_1234[] on XLA_CPU_JIT: StringSplit",
    )
    assert in_words(error, 100, "cpu").startswith("XLA can't compile this network; use --jit off (")


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
