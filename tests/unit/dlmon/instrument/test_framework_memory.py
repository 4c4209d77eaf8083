"""What the allocators of frameworks are asked, on modules of their real shape."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from dlmon.instrument.framework_memory import MemoryReader
from dlmon.records import FrameworkMemory

GIB = 2**30


def torch_stats(allocated: int, peak: int, reserved: int, retries: int = 0) -> dict[str, Any]:
    """Return what `memory_stats_as_nested_dict` does, as far as it is read."""

    def of(current: int, peak: int) -> dict[str, Any]:
        return {"all": {"current": current, "peak": peak, "allocated": 9, "freed": 9}}

    return {
        "allocated_bytes": of(allocated, peak),
        "reserved_bytes": of(reserved, reserved),
        "num_alloc_retries": retries,
        "num_ooms": 0,
    }


class FakeCuda:
    """torch.cuda of a process with two GPUs, of which it uses the second."""

    def __init__(self) -> None:
        self.initialized = True
        self.stats = [torch_stats(0, 0, 0), torch_stats(GIB, 3 * GIB, 4 * GIB, retries=2)]
        self.asked = 0

    def is_initialized(self) -> bool:
        return self.initialized

    def device_count(self) -> int:
        assert self.initialized, "this would begin to use a GPU"
        return len(self.stats)

    def memory_stats_as_nested_dict(self, device: int) -> dict[str, Any]:
        assert self.initialized
        self.asked += 1
        return self.stats[device]

    def get_device_properties(self, device: int) -> Any:
        assert self.initialized
        return SimpleNamespace(total_memory=80 * GIB)


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> FakeCuda:
    fake = FakeCuda()
    for name in ("jax", "tensorflow"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=fake))  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "torch.cuda", fake)  # type: ignore[arg-type]
    return fake


def test_pytorch_says_what_each_gpu_holds_that_is_used(cuda: FakeCuda) -> None:
    assert MemoryReader().read(7) == [
        FrameworkMemory(7, "torch", 1, 1024, 3072, 4096, 80 * 1024, retries=2, failures=0)
    ]


def test_what_has_not_changed_is_not_said_again(cuda: FakeCuda) -> None:
    reader = MemoryReader()
    assert len(reader.read(1)) == 1
    assert reader.read(2) == []
    cuda.stats[1] = torch_stats(2 * GIB, 3 * GIB, 4 * GIB, retries=2)
    (found,) = reader.read(3)
    assert (found.t, found.allocated_mib) == (3, 2048)


def test_nothing_is_asked_of_a_framework_that_has_no_gpu_yet(cuda: FakeCuda) -> None:
    cuda.initialized = False
    reader = MemoryReader()
    assert reader.read(1) == []
    assert not cuda.asked
    cuda.initialized = True
    assert len(reader.read(2)) == 1


def test_an_allocator_that_cannot_say_it_is_asked_once(
    cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(device: int) -> None:
        cuda.asked += 1
        raise RuntimeError("CUDAPluggableAllocator does not yet support getDeviceStats")

    monkeypatch.setattr(cuda, "memory_stats_as_nested_dict", refuse)
    reader = MemoryReader()
    assert reader.read(1) == reader.read(2) == []
    assert cuda.asked == 1


def jax_with(monkeypatch: pytest.MonkeyPatch, *devices: Any, backend: object = "gpu") -> None:
    for name in ("torch", "tensorflow"):
        monkeypatch.delitem(sys.modules, name, raising=False)

    def local_devices() -> list[Any]:
        assert backend is not None, "this would make a backend"
        return list(devices)

    bridge: Any = SimpleNamespace(_default_backend=backend)
    jax: Any = SimpleNamespace(local_devices=local_devices)
    monkeypatch.setitem(sys.modules, "jax", jax)
    monkeypatch.setitem(sys.modules, "jax._src.xla_bridge", bridge)


def jax_device(platform: str, stats: dict[str, int] | None) -> Any:
    return SimpleNamespace(platform=platform, id=5, local_hardware_id=1, memory_stats=lambda: stats)


def test_jax_says_what_its_pool_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    stats = {
        "bytes_in_use": GIB,
        "peak_bytes_in_use": 2 * GIB,
        "bytes_limit": 60 * GIB,
        "pool_bytes": 60 * GIB,
        "num_allocs": 12,
    }
    jax_with(monkeypatch, jax_device("gpu", stats))
    assert MemoryReader().read(3) == [FrameworkMemory(3, "jax", 1, 1024, 2048, 61440, 61440)]


def test_jax_says_nothing_on_a_cpu_or_before_it_has_a_backend(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    jax_with(monkeypatch, jax_device("cpu", None))
    assert MemoryReader().read(3) == []
    jax_with(monkeypatch, backend=None)
    assert MemoryReader().read(3) == []


@pytest.mark.parametrize("is_initialized", [True, False])
def test_tensorflow_says_what_tensors_take(
    monkeypatch: pytest.MonkeyPatch, is_initialized: bool
) -> None:
    for name in ("torch", "jax"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    asked = []

    def get_memory_info(device: str) -> dict[str, int]:
        asked.append(device)
        return {"current": GIB, "peak": 2 * GIB}

    config = SimpleNamespace(
        list_logical_devices=lambda kind: [f"/device:{kind}:0"],
        experimental=SimpleNamespace(get_memory_info=get_memory_info),
    )
    context = SimpleNamespace(_initialized=is_initialized)
    modules: dict[str, Any] = {
        "tensorflow": SimpleNamespace(config=config),
        "tensorflow.python.eager.context": SimpleNamespace(context_safe=lambda: context),
    }
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    expected = [FrameworkMemory(3, "tensorflow", 0, 1024, 2048)] if is_initialized else []
    assert MemoryReader().read(3) == expected
    assert asked == ["GPU:0"] * is_initialized
