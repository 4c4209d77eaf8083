"""Read what frameworks hold of a GPU's memory.

The side thread reads, once a second. No framework is imported for it, and none is asked that has
not used a GPU itself: to ask would start one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace

from dlmon.records.memory import MIB, FrameworkMemory

# So many GPUs of a process are read.
MOST_GPUS = 16


class MemoryReader:
    """Reads the allocators of the frameworks that use a GPU, and says what has changed."""

    def __init__(self) -> None:
        self._readers: dict[str, Callable[[int], Iterator[FrameworkMemory]]] = {
            "torch": _of_torch,
            "jax": _of_jax,
            "tensorflow": _of_tensorflow,
        }
        self._last: dict[tuple[str, int], FrameworkMemory] = {}

    def read(self, t: int) -> list[FrameworkMemory]:
        """Return what each framework holds of each GPU, where that is not what it held before.

        A framework that can't say it is not asked again.
        """
        found = []
        for framework in tuple(self._readers):
            if framework not in sys.modules:
                continue
            try:
                readings = list(self._readers[framework](t))
            except Exception:  # noqa: BLE001 - whatever it is, the script goes on
                del self._readers[framework]
                continue
            for reading in readings:
                key = (framework, reading.device)
                last = self._last.get(key)
                if last is None or replace(last, t=t) != reading:
                    self._last[key] = reading
                    found.append(reading)
        return found


def _of_torch(t: int) -> Iterator[FrameworkMemory]:
    cuda = sys.modules.get("torch.cuda")
    if cuda is None or not cuda.is_initialized():
        return
    for device in range(min(cuda.device_count(), MOST_GPUS)):
        # The flat one is made of this, and sorted: it takes ten times as long.
        stats = cuda.memory_stats_as_nested_dict(device)
        reserved = stats["reserved_bytes"]["all"]
        if reserved["peak"] < 1:
            continue
        allocated = stats["allocated_bytes"]["all"]
        yield FrameworkMemory(
            *(t, "torch", device, _mib(allocated["current"]), _mib(allocated["peak"])),
            reserved_mib=_mib(reserved["current"]),
            limit_mib=_mib(cuda.get_device_properties(device).total_memory),
            retries=stats["num_alloc_retries"],
            failures=stats["num_ooms"],
        )


def _of_jax(t: int) -> Iterator[FrameworkMemory]:
    backends = sys.modules.get("jax._src.xla_bridge")
    # Of a backend that is still being made, a lock is held.
    if backends is None or backends._default_backend is None:
        return
    for device in sys.modules["jax"].local_devices()[:MOST_GPUS]:
        stats = device.memory_stats() if device.platform != "cpu" else None
        if not stats:
            continue
        pool, limit = stats.get("pool_bytes"), stats.get("bytes_limit")
        number = getattr(device, "local_hardware_id", None)
        yield FrameworkMemory(
            *(t, "jax", device.id if number is None else number),
            allocated_mib=_mib(stats["bytes_in_use"]),
            peak_mib=_mib(stats["peak_bytes_in_use"]),
            reserved_mib=None if pool is None else _mib(pool),
            limit_mib=None if limit is None else _mib(limit),
        )


def _of_tensorflow(t: int) -> Iterator[FrameworkMemory]:
    contexts = sys.modules.get("tensorflow.python.eager.context")
    context = None if contexts is None else contexts.context_safe()
    if context is None or not context._initialized:
        return
    config = sys.modules["tensorflow"].config
    for number in range(min(len(config.list_logical_devices("GPU")), MOST_GPUS)):
        stats = config.experimental.get_memory_info(f"GPU:{number}")
        # Where JAX or PyTorch trains, Keras may have had it begin.
        if stats["peak"] > 0:
            yield FrameworkMemory(
                *(t, "tensorflow", number, _mib(stats["current"]), _mib(stats["peak"]))
            )


def _mib(count: int) -> int:
    return round(count / MIB)
