"""Read the GPU memory of frameworks from their allocators.

The side thread reads it once a second. No framework is imported, and none is queried before it has
used a GPU itself, as a query would initialise it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace

from dlmon.records.memory import MIB, FrameworkMemory

# At most this many GPUs of a process are read.
MOST_GPUS = 16


class MemoryReader:
    """Reads the allocators of the frameworks that use a GPU."""

    def __init__(self) -> None:
        self._readers: dict[str, Callable[[int], Iterator[FrameworkMemory]]] = {
            "torch": _of_torch,
            "jax": _of_jax,
            "tensorflow": _of_tensorflow,
        }
        self._last: dict[tuple[str, int], FrameworkMemory] = {}

    def read(self, t: int) -> list[FrameworkMemory]:
        """Return the readings that have changed, of each framework and GPU.

        A framework that raises is not read again.
        """
        changed = []
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
                    changed.append(reading)
        return changed


def _of_torch(t: int) -> Iterator[FrameworkMemory]:
    cuda = sys.modules.get("torch.cuda")
    if cuda is None or not cuda.is_initialized():
        return
    for device in range(min(cuda.device_count(), MOST_GPUS)):
        # `memory_stats` flattens and sorts this, which takes ten times as long.
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
    # While the backend is being initialised, a query would block on its lock.
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
        # Keras may have initialised it although JAX or PyTorch trains.
        if stats["peak"] > 0:
            yield FrameworkMemory(
                *(t, "tensorflow", number, _mib(stats["current"]), _mib(stats["peak"]))
            )


def _mib(count: int) -> int:
    return round(count / MIB)
