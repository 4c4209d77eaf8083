"""Query one GPU through NVML, and remember the queries that it does not support."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any

from dlmon.records import Gpu, GpuFacts, GpuState, MigInstance
from dlmon.sensors.nvidia.activity import ACTIVITY_NAMES, Activity, InstanceActivity
from dlmon.sensors.nvidia.queries import (
    ENERGY,
    FACTS,
    FAST,
    IN_PROCESSOR,
    INSTANCE,
    INVALID_ARGUMENT,
    LIFE_CYCLE,
    MEMORY,
    MIG,
    NO_PERMISSION,
    NOT_FOUND,
    NOT_OF_SYSTEM_MEMORY,
    NOT_SUPPORTED,
    NOT_UNDER_MIG,
    PCIE_LATER,
    SETTLED,
    SLOW,
    STATES,
    UNDER_MIG,
    call,
    words,
)
from dlmon.sensors.nvidia.xid_errors import XidErrors
from dlmon.sensors.provider import BYTES_IN_MIB, Rates, mib_per_second
from dlmon.sensors.query import IMPOSSIBLE, Query, Reader

# A GPU with 18 links takes 18 calls: ask for their state once a minute, every 12 slow readings.
_READINGS_BETWEEN = 12
_EVERY_LINK = 0xFFFFFFFF  # the scope of a throughput counter (nvml.h)
# The driver's value for "unknown", such as a process's memory under WSL.
_NOT_AVAILABLE = 2**64 - 1


class NvLinks:
    """The queries of `NVLINK_NAMES`; the links of a GPU are listed once."""

    def __init__(self, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self._clock = clock
        self._links: tuple[int, ...] = ()
        self._active = 0
        self._readings = 0
        self.queries = (
            Query("nvlinks", self._count_active),
            Query("nvlink_receive_mib_s", self._mib_s("DATA_RX"), within=(0, 1e8)),
            Query("nvlink_send_mib_s", self._mib_s("DATA_TX"), within=(0, 1e8)),
        )

    def _count_active(self, nvml: Any, gpu: Any) -> int:
        if not self._links:
            self._links = existing_links(nvml, gpu)
        if self._readings % _READINGS_BETWEEN == 0:
            self._active = sum(nvml.nvmlDeviceGetNvLinkState(gpu, link) for link in self._links)
        self._readings += 1
        return self._active

    def _mib_s(self, direction: str) -> Reader:
        """Return a reader of the traffic of all links in one direction."""
        rates = Rates()

        def read(nvml: Any, gpu: Any) -> float:
            if not self._active:
                raise ValueError("no NVLink is active")
            counter = getattr(nvml, f"NVML_FI_DEV_NVLINK_THROUGHPUT_{direction}")
            (field,) = nvml.nvmlDeviceGetFieldValues(gpu, [(counter, _EVERY_LINK)])
            if field.nvmlReturn:
                raise nvml.NVMLError(field.nvmlReturn)
            kib = field.value.ullVal
            if kib >= _NOT_AVAILABLE:
                raise ValueError(IMPOSSIBLE)
            (kib_s,) = rates.per_second(self._clock(), kib)
            return mib_per_second(kib_s * 1024)

        return read


NVLINK_NAMES = tuple(query.name for query in NvLinks().queries)


def existing_links(nvml: Any, gpu: Any) -> tuple[int, ...]:
    """Return the numbers of a GPU's links.

    Raises:
        nvml.NVMLError: the GPU has none, or it is lost.
    """
    links = []
    for link in range(nvml.NVML_NVLINK_MAX_LINKS):
        try:
            nvml.nvmlDeviceGetNvLinkState(gpu, link)
        except nvml.NVMLError as error:
            if error.value in LIFE_CYCLE or link == 0:
                raise
            if error.value == INVALID_ARGUMENT:
                break
        else:
            links.append(link)
    if not links:
        raise nvml.NVMLError(NOT_SUPPORTED)
    return tuple(links)


def _handles(nvml: Any, gpu: Any) -> Iterator[tuple[int, Any]]:
    """Yield the number and the handle of each MIG instance."""
    for index in range(nvml.nvmlDeviceGetMaxMigDeviceCount(gpu)):
        try:
            instance = nvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, index)
        except nvml.NVMLError as error:
            if error.value != NOT_FOUND:
                raise
        else:
            if instance:
                yield index, instance


def _instance_processes(nvml: Any, gpu: Any) -> list[Any]:
    """Return the processes of each MIG instance: a plain user may not list the whole GPU."""
    processes: list[Any] = []
    for _, instance in _handles(nvml, gpu):
        processes += nvml.nvmlDeviceGetComputeRunningProcesses_v3(instance)
    return processes


def _instances(activity: InstanceActivity, nvml: Any, gpu: Any) -> tuple[MigInstance, ...]:
    handles = _handles(nvml, gpu)
    return tuple(_instance(nvml, gpu, index, handle, activity) for index, handle in handles)


def _instance(
    nvml: Any, gpu: Any, index: int, handle: Any, activity: InstanceActivity
) -> MigInstance:
    values: dict[str, Any] = {}
    why: dict[str, str] = {}
    for query in INSTANCE:
        answer, _ = _first_answer(nvml, handle, query, query.readers)
        if not isinstance(answer, Missing):
            values[query.name] = answer
        elif answer.code in LIFE_CYCLE:
            raise nvml.NVMLError(answer.code)
        else:
            why[query.name] = answer.reason
    if "gpu_instance" in values:
        measured, why_not = activity.read(nvml, gpu, values["gpu_instance"])
        values, why = values | measured, why | why_not
    return MigInstance(index, **values, why=why)


def _first_answer(
    nvml: Any, handle: Any, query: Query, readers: Sequence[Reader]
) -> tuple[Any, Reader | None]:
    """Return the answer and the reader that gave it; None if the GPU refused them all."""
    missing = Missing("not supported")
    for reader in readers:
        try:
            value = reader(nvml, handle)
            query.check(value)
        except nvml.NVMLError as error:
            missing = missing_by(error)
            if error.value not in SETTLED or error.value == NO_PERMISSION:
                break
        except AttributeError:  # this pynvml is too old for the call
            missing = Missing("not supported by this pynvml")
        except ValueError as error:
            return Missing(str(error)), reader
        else:
            return value, reader
    return missing, None


# With versions: on an older driver, pynvml's calls without one raise a different error.
COMPUTE = Query(
    "compute processes",
    call("nvmlDeviceGetComputeRunningProcesses_v3"),
    call("nvmlDeviceGetComputeRunningProcesses_v2"),
)
GRAPHICS = Query(
    "graphics processes",
    call("nvmlDeviceGetGraphicsRunningProcesses_v3"),
    call("nvmlDeviceGetGraphicsRunningProcesses_v2"),
)
INSTANCE_PROCESSES = Query("processes of the MIG instances", _instance_processes)


def memory_by_pid(processes: Iterable[Any]) -> dict[int, int | None]:
    """Return the MiB that each process holds; None if unknown.

    A process that computes and draws is in both of NVML's lists, each with all its memory. A
    process on several MIG instances is listed once for each.
    """
    by_instance: dict[tuple[int, int, int], int | None] = {}
    for process in processes:
        key = (process.pid, process.gpuInstanceId, process.computeInstanceId)
        used = process.usedGpuMemory
        is_known = used is not None and used < _NOT_AVAILABLE
        by_instance[key] = used if is_known else by_instance.get(key)
    by_pid: dict[int, int | None] = {}
    for (pid, _, _), used in by_instance.items():
        total = by_pid.get(pid, 0)
        by_pid[pid] = None if total is None or used is None else total + used
    return {pid: used and used // BYTES_IN_MIB for pid, used in by_pid.items()}


_ALL_QUERIES = (*FAST, *ENERGY, MIG, *SLOW, *PCIE_LATER)
READINGS = (
    *ACTIVITY_NAMES,
    "instances",
    "xid_errors",
    "xids",
    *(query.name for query in _ALL_QUERIES),
    *NVLINK_NAMES,
)


@dataclass(frozen=True)
class Missing:
    """Stands for an answer that is unknown.

    Attributes:
        reason: why it is unknown.
        state: the GPU's state, if it can't be queried at all.
        code: NVML's error code, if there is one.
    """

    reason: str
    state: GpuState = GpuState.UNKNOWN
    code: int = 0


LOST = Missing("lost", GpuState.LOST)


def missing_by(error: Exception) -> Missing:
    """Return the missing answer for an error of NVML."""
    code = getattr(error, "value", 0)
    return Missing(words(error), STATES.get(code, GpuState.UNKNOWN), code)


@dataclass
class Device:
    """A GPU, by the index under which NVML first listed it; it is lost if it has no handle."""

    index: int
    uuid: str | None = None
    handle: Any = None
    missing: Missing = LOST
    has_reported_facts: bool = False
    is_due: bool = False
    """The next reading asks every query: the GPU is new, or it was lost."""
    answered: bool = False
    """The last reading has a value."""
    _mig: bool = False
    _uses_system_memory: bool = False
    _settled: dict[str, Reader | Missing | None] = field(default_factory=dict)
    _nvlinks: NvLinks = field(default_factory=NvLinks)
    _activity: Activity = field(default_factory=Activity)
    _instance_activity: InstanceActivity = field(default_factory=InstanceActivity)
    xid_errors: XidErrors = field(default_factory=XidErrors)
    _measured: dict[str, Any] = field(default_factory=dict)

    @property
    def is_lost(self) -> bool:
        return self.handle is None

    def attach(self, nvml: Any, handle: Any, uuid: str | None) -> None:
        self.release()
        self.handle, self.uuid = handle, uuid or self.uuid
        self.is_due = True
        self._settled, self._nvlinks, self._measured = {}, NvLinks(), {}
        self._activity = Activity()
        self._mig = self._ask(nvml, MIG) is True
        memory = self._ask(nvml, MEMORY)
        self._uses_system_memory = isinstance(memory, Missing) and memory.code == NOT_SUPPORTED

    def detach(self, missing: Missing) -> None:
        """Stop querying it, for the reason in `missing`."""
        self.release()
        self.handle, self.missing = None, missing

    def release(self) -> None:
        """Free the driver's resources, which a shutdown of NVML does not."""
        self._activity.close()
        self._instance_activity.close()
        self.xid_errors.close()

    def facts(self, nvml: Any) -> GpuFacts:
        values, why = self._answers(nvml, FACTS)
        if self._uses_system_memory:
            values["memory_kind"] = "system"
            del why["memory_mib"]
        # If it was lost meanwhile, its facts are yet to be reported.
        self.has_reported_facts = not self.is_lost
        values.setdefault("name", "NVIDIA GPU")
        state = self.missing.state if self.is_lost else GpuState.ANSWERS
        return GpuFacts(index=self.index, **values, state=state, why=why)

    def read(self, nvml: Any, queries: tuple[Query, ...], slow: bool = False) -> Gpu:
        """Ask `queries` and, if `slow`, those of its links, else those of its activity.

        Ask every query if the GPU `is_due`.
        """
        is_due, self.is_due = self.is_due, False
        if is_due:
            queries = _ALL_QUERIES
        if is_due or not slow:
            self._activity.begin()
            # Xid errors first: after the GPU is lost, they can't be read, and they say why.
            queries = (*self.xid_errors.queries, *self._activity.queries, *queries)
        if is_due or slow:
            queries += self._nvlinks.queries
        values, why = self._answers(nvml, queries)
        if "mig" in values:
            instances = Query("instances", partial(_instances, self._instance_activity))
            parts = self._ask(nvml, instances) if values["mig"] else ()
            if isinstance(parts, Missing):
                why["instances"] = parts.reason
            else:
                values["instances"] = parts
        elif "mig" in why:
            why["instances"] = why["mig"]
        self.answered = bool(values) and not self.is_lost
        if "memory_used_mib" in why and self._uses_system_memory:
            del why["memory_used_mib"]
        if self.is_lost:
            values, why = {}, dict.fromkeys(READINGS, self.missing.reason)
            if self.xid_errors.errors:
                # Keep the errors that it reported before it was lost.
                values = {"xid_errors": self.xid_errors.errors, "xids": self.xid_errors.newest}
                del why["xid_errors"], why["xids"]
            return Gpu(index=self.index, **values, state=self.missing.state, why=why)
        if "mig" in values and values["mig"] != self._mig:
            self._mig = values["mig"]
            self._settled.clear()
        return Gpu(index=self.index, **values, state=GpuState.ANSWERS, why=why)

    def measure(self, nvml: Any, queries: tuple[Query, ...]) -> None:
        """Ask queries that are too slow for every reading; keep the answers until the next call."""
        self._measured = {query.name: self._ask(nvml, query) for query in queries}

    def processes(self, nvml: Any) -> dict[int, int | None] | Missing:
        """Return the MiB that each process holds on this GPU, or why that is unknown."""
        compute = self._ask(nvml, COMPUTE)
        if self._mig and isinstance(compute, Missing) and compute.code == NO_PERMISSION:
            compute = self._ask(nvml, INSTANCE_PROCESSES)
        graphics = self._ask(nvml, GRAPHICS)
        if isinstance(compute, Missing) and isinstance(graphics, Missing):
            return compute
        lists = (answer for answer in (compute, graphics) if not isinstance(answer, Missing))
        return memory_by_pid(chain.from_iterable(lists))

    def computing_pids(self, nvml: Any) -> Iterable[int] | Missing:
        """Return the pids that compute on this GPU, or why they are unknown."""
        answer = self._ask(nvml, COMPUTE)
        return answer if isinstance(answer, Missing) else {process.pid for process in answer}

    def _answers(
        self, nvml: Any, queries: tuple[Query, ...]
    ) -> tuple[dict[str, Any], dict[str, str]]:
        values: dict[str, Any] = {}
        why: dict[str, str] = {}
        for query in queries:
            answer = self._measured.get(query.name)
            if answer is None:
                answer = self._ask(nvml, query)
            if isinstance(answer, Missing):
                why[query.name] = answer.reason
            else:
                values[query.name] = answer
        return values, why

    def _ask(self, nvml: Any, query: Query) -> Any:
        """Return the answer to a query; remember which of its readers works, or that none does."""
        if self.handle is None:
            return self.missing
        if self._mig and query.name in NOT_UNDER_MIG:
            return Missing(UNDER_MIG)
        if self._uses_system_memory and query.name in NOT_OF_SYSTEM_MEMORY:
            return Missing(IN_PROCESSOR)
        settled = self._settled.get(query.name)
        if isinstance(settled, Missing):
            return settled
        readers = (settled,) if settled is not None else query.readers
        answer, reader = _first_answer(nvml, self.handle, query, readers)
        if not isinstance(answer, Missing):
            self._settled[query.name] = reader
        elif answer.code in LIFE_CYCLE:
            self.detach(answer)
        elif answer.code in (0, *SETTLED) and reader is None:
            self._settled[query.name] = answer
        return answer
