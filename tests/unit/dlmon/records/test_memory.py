"""What errors of the frameworks say of memory that ran out."""

from __future__ import annotations

import pytest

from dlmon.records import OutOfMemory
from dlmon.records.memory import read_out_of_memory

TORCH = (
    "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.10 GiB of "
    "which 1.20 GiB is free. Process 4711 has 10.00 GiB memory in use. Including non-PyTorch "
    "memory, this process has 67.88 GiB memory in use. Of the allocated memory 60.50 GiB is "
    "allocated by PyTorch, and 6.25 GiB is reserved by PyTorch but unallocated. If reserved but "
    "unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"
)


def test_pytorch_says_all_of_it() -> None:
    assert read_out_of_memory(TORCH, 5) == OutOfMemory(
        5,
        asked_mib=2048.0,
        device=0,
        total_mib=80998.4,
        free_mib=1228.8,
        others_mib=10240.0,
        allocated_mib=61952.0,
        unused_mib=6400.0,
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            # PyTorch before 2.1
            "CUDA out of memory. Tried to allocate 20.00 MiB (GPU 1; 10.00 GiB total capacity; "
            "8.00 GiB already allocated; 5.50 MiB free; 9.00 GiB reserved in total by PyTorch)",
            OutOfMemory(0, 20.0, 1, 10240.0, 5.5, None, 8192.0, 1024.0),
        ),
        (
            # PyTorch 2.1
            "HIP out of memory. Tried to allocate 512 bytes. GPU 3 has a total capacty of 24.00 "
            "GiB of which 0 bytes is free.",
            OutOfMemory(0, 0.0, 3, 24576.0, 0.0),
        ),
        (
            "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying "
            "to allocate 8589934592 bytes.",
            OutOfMemory(0, 8192.0),
        ),
        (
            "RESOURCE_EXHAUSTED: Failed to allocate request for 8.00GiB (8589934592B) on device "
            "ordinal 2",
            OutOfMemory(0, 8192.0, 2),
        ),
        (
            "OOM when allocating tensor with shape[64,512,1024] and type float on /job:localhost/"
            "replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc [Op:Mul]",
            OutOfMemory(0, 128.0, 0),
        ),
        (
            "OOM when allocating tensor with shape[1024,1024] and type bfloat16 on /device:GPU:1",
            OutOfMemory(0, 2.0, 1),
        ),
    ],
)
def test_each_framework_is_read(text: str, expected: OutOfMemory) -> None:
    assert read_out_of_memory(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "CUDA error: device-side assert triggered",
        "CUDA out of memory.",
        # The machine's own memory
        "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: "
        "you tried to allocate 400000000000000 bytes. Error code 12 (Cannot allocate memory)",
        "Unable to allocate 7.45 GiB for an array with shape (1000000000,) and data type float64",
        "OOM when allocating tensor with shape[4,4] and type float on /device:CPU:0 by mallocator",
        "CUDA out of memory. Tried to allocate 1.2.3 GiB",
        f"CUDA out of memory. Tried to allocate {'9' * 400} bytes",
        f"OOM when allocating tensor with shape[{'9' * 400}] and type float on GPU:0",
    ],
)
def test_what_says_nothing_of_a_gpus_memory_is_none(text: str) -> None:
    assert read_out_of_memory(text) is None
