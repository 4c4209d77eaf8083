"""One GPU as NVML knows it: ask it, and remember what it does not answer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from dlmon.records import Gpu, GpuFacts, GpuState
from dlmon.sensors.nvidia.nvlink import NVLINK_NAMES, NvLinks
from dlmon.sensors.nvidia.processes import COMPUTE, GRAPHICS, OF_INSTANCES, memory_by_pid
from dlmon.sensors.nvidia.queries import (
    ENERGY,
    FACTS,
    FAST,
    LIFE_CYCLE,
    MIG,
    NO_PERMISSION,
    NOT_UNDER_MIG,
    PCIE_LATER,
    SETTLED,
    SLOW,
    STATES,
    UNDER_MIG,
    Query,
    Reader,
    words,
)

_ALL_QUERIES = (*FAST, *ENERGY, MIG, *SLOW, *PCIE_LATER)
_READINGS = (*(query.name for query in _ALL_QUERIES), *NVLINK_NAMES)


@dataclass(frozen=True)
class Missing:
    """Takes the place of an answer; `state` is the GPU's, where it can't be asked at all.

    `code` is NVML's, where it refused the answer.
    """

    reason: str
    state: GpuState = GpuState.UNKNOWN
    code: int = 0


LOST = Missing("lost", GpuState.LOST)


def missing_by(error: Exception) -> Missing:
    """Return what takes the place of an answer that NVML refused."""
    code = getattr(error, "value", 0)
    return Missing(words(error), STATES.get(code, GpuState.UNKNOWN), code)


@dataclass
class Device:
    """A GPU under the index it was first seen by; without a handle it can't be asked."""

    index: int
    nvml_index: int
    uuid: str | None = None
    handle: Any = None
    missing: Missing = LOST
    has_reported_facts: bool = False
    is_due: bool = False
    """Its next reading is of everything: it is new, or it was away."""
    answered: bool = False
    """Its last reading held a value."""
    _mig: bool = False
    _settled: dict[str, Reader | Missing] = field(default_factory=dict)
    _nvlinks: NvLinks = field(default_factory=NvLinks)
    _measured: dict[str, Any] = field(default_factory=dict)

    @property
    def is_lost(self) -> bool:
        """Whether it can't be asked."""
        return self.handle is None

    def attach(self, nvml: Any, handle: Any, uuid: str | None) -> None:
        self.handle, self.uuid = handle, uuid or self.uuid
        self.is_due = True
        self._settled, self._nvlinks, self._measured = {}, NvLinks(), {}
        self._mig = self._ask(nvml, MIG) is True

    def detach(self, missing: Missing) -> None:
        """Ask no more; `missing` says why not."""
        self.handle, self.missing = None, missing

    def facts(self, nvml: Any) -> GpuFacts:
        values, why = self._answers(nvml, FACTS)
        # It may have been lost in between, and then has yet to be reported.
        self.has_reported_facts = not self.is_lost
        values.setdefault("name", "NVIDIA GPU")
        state = self.missing.state if self.is_lost else GpuState.ANSWERS
        return GpuFacts(index=self.index, **values, state=state, why=why)

    def read(self, nvml: Any, queries: tuple[Query, ...], slow: bool = False) -> Gpu:
        """Ask `queries`, and of its links if `slow`; of everything where that is due."""
        if self.is_due:
            queries, slow, self.is_due = _ALL_QUERIES, True, False
        if slow:
            queries += self._nvlinks.queries
        values, why = self._answers(nvml, queries)
        self.answered = bool(values) and not self.is_lost
        if self.is_lost:
            why = dict.fromkeys(_READINGS, self.missing.reason)
            return Gpu(index=self.index, state=self.missing.state, why=why)
        if "mig" in values and values["mig"] != self._mig:
            self._mig = values["mig"]
            self._settled.clear()
        return Gpu(index=self.index, **values, state=GpuState.ANSWERS, why=why)

    def measure(self, nvml: Any, queries: tuple[Query, ...]) -> None:
        """Ask what takes too long for each reading; all until the next time have these answers."""
        self._measured = {query.name: self._ask(nvml, query) for query in queries}

    def processes(self, nvml: Any) -> dict[int, int | None] | Missing:
        """Return the MiB that each process holds here, or why that is unknown."""
        compute = self._ask(nvml, COMPUTE)
        if self._mig and isinstance(compute, Missing) and compute.code == NO_PERMISSION:
            compute = self._ask(nvml, OF_INSTANCES)
        graphics = self._ask(nvml, GRAPHICS)
        if isinstance(compute, Missing) and isinstance(graphics, Missing):
            return compute
        lists = [found for found in (compute, graphics) if not isinstance(found, Missing)]
        return memory_by_pid(process for found in lists for process in found)

    def computing_pids(self, nvml: Any) -> Iterable[int] | Missing:
        """Return the processes that compute here, or why they are unknown."""
        found = self._ask(nvml, COMPUTE)
        return found if isinstance(found, Missing) else {process.pid for process in found}

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
        """Return the answer; which call gives it, if any does, is found out once."""
        if self.handle is None:
            return self.missing
        if self._mig and query.name in NOT_UNDER_MIG:
            return Missing(UNDER_MIG)
        settled = self._settled.get(query.name)
        if isinstance(settled, Missing):
            return settled
        missing = Missing("not supported")
        for reader in (settled,) if settled is not None else query.readers:
            try:
                value = reader(nvml, self.handle)
                query.check(value)
            except nvml.NVMLError as error:
                missing = missing_by(error)
                if error.value in LIFE_CYCLE:
                    self.detach(missing)
                    return missing
                if error.value not in SETTLED:
                    return missing
                if error.value == NO_PERMISSION:
                    break
            except AttributeError:  # an older pynvml without this call
                missing = Missing("not supported by this pynvml")
            except ValueError as error:
                return Missing(str(error))
            else:
                self._settled[query.name] = reader
                return value
        self._settled[query.name] = missing
        return missing
