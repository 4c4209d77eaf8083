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
    WORDS,
    Question,
    Reader,
    words,
)

_EVERYTHING = (*FAST, *ENERGY, MIG, *SLOW, *PCIE_LATER)
_READINGS = (*(question.name for question in _EVERYTHING), *NVLINK_NAMES)
_BUS_ID = next(question for question in FACTS if question.name == "bus_id")


@dataclass(frozen=True)
class Missing:
    """Takes the place of an answer; `state` is the GPU's, where it can't be asked at all."""

    reason: str
    state: GpuState = GpuState.UNKNOWN


LOST = Missing("lost", GpuState.LOST)
ASLEEP = Missing("asleep (runtime power management)", GpuState.ASLEEP)
MAY_SLEEP = Missing("asleep or not: which GPU sleeps is not known", GpuState.ASLEEP)
LET_GO = Missing("idle: left alone, so that it can fall asleep", GpuState.IDLE)


def missing_by(error: Exception) -> Missing:
    """Return what takes the place of an answer that NVML refused."""
    return Missing(words(error), STATES.get(getattr(error, "value", 0), GpuState.UNKNOWN))


@dataclass
class Device:
    """A GPU under the index it was first seen by; without a handle it can't be asked."""

    index: int
    nvml_index: int
    uuid: str | None = None
    bus_id: str | None = None
    handle: Any = None
    missing: Missing = LOST
    is_asleep: bool = False
    has_told_facts: bool = False
    is_due: bool = False
    """Its next reading is of everything: it is new, or it was away."""
    answered: bool = False
    """Its last reading held a value."""
    is_unused: bool = False
    """Nothing ran on it when it was read last."""
    _mig: bool = False
    _settled: dict[str, Reader | Missing] = field(default_factory=dict)
    _nvlinks: NvLinks = field(default_factory=NvLinks)
    _measured: dict[str, Any] = field(default_factory=dict)

    @property
    def is_lost(self) -> bool:
        """Whether it can't be asked, and not for having been left to sleep."""
        return self.handle is None and self.missing not in (ASLEEP, LET_GO)

    @property
    def can_be_asked(self) -> bool:
        """Whether it is there, and awake."""
        return self._why_not_asked() is None

    def attach(self, nvml: Any, handle: Any, uuid: str | None) -> None:
        """Ask through `handle` from now on."""
        self.handle, self.uuid = handle, uuid or self.uuid
        self.is_asleep, self.is_due = False, True
        self._settled, self._nvlinks, self._measured = {}, NvLinks(), {}
        bus_id = self._ask(nvml, _BUS_ID)
        if not isinstance(bus_id, Missing):
            self.bus_id = bus_id
        self._mig = self._ask(nvml, MIG) is True

    def detach(self, missing: Missing) -> None:
        """Ask no more; `missing` says why not."""
        self.handle, self.missing = None, missing

    def heed(self, asleep: frozenset[str]) -> None:
        """Ask it, or not, by whether its bus id is among those of the sleeping cards."""
        was_asleep = self.is_asleep
        may_be_any = self.bus_id is None and self.handle is None and self.missing == ASLEEP
        self.is_asleep = bool(asleep) if may_be_any else self.bus_id in asleep
        if was_asleep and not self.is_asleep:
            self.is_due, self._measured = True, {}

    def facts(self, nvml: Any) -> GpuFacts:
        """Ask what does not change."""
        values, why = self._answers(nvml, FACTS)
        # It may have been lost in between, and then has yet to be told.
        self.has_told_facts = self.can_be_asked
        values.setdefault("name", "NVIDIA GPU")
        return GpuFacts(index=self.index, **values, state=self._state, why=why)

    def read(self, nvml: Any, questions: tuple[Question, ...], slow: bool = False) -> Gpu:
        """Ask `questions`, and of its links if `slow`; of everything where that is due."""
        if self.is_due:
            questions, slow, self.is_due = _EVERYTHING, True, False
        if slow:
            questions += self._nvlinks.questions
        values, why = self._answers(nvml, questions)
        not_asked = self._why_not_asked()
        self.answered = bool(values) and not_asked is None
        if not_asked is not None:
            why = dict.fromkeys(_READINGS, not_asked.reason)
            return Gpu(index=self.index, state=not_asked.state, why=why)
        if "utilization_pct" in values or "utilization_pct" in why:
            self.is_unused = values.get("utilization_pct") == 0
        if "mig" in values and values["mig"] != self._mig:
            self._mig = values["mig"]
            self._settled.clear()
        return Gpu(index=self.index, **values, state=GpuState.ANSWERS, why=why)

    def measure(self, nvml: Any, questions: tuple[Question, ...]) -> None:
        """Ask what takes too long for a reading; the next readings tell these answers."""
        self._measured = {question.name: self._ask(nvml, question) for question in questions}

    def processes(self, nvml: Any) -> dict[int, int | None] | Missing:
        """Return the MiB that each process holds here, or why none are told."""
        compute = self._ask(nvml, COMPUTE)
        if self._mig and compute == Missing(WORDS[NO_PERMISSION]):
            compute = self._ask(nvml, OF_INSTANCES)
        graphics = self._ask(nvml, GRAPHICS)
        lists = [told for told in (compute, graphics) if not isinstance(told, Missing)]
        if not lists:
            missing: Missing = compute
            return missing
        return memory_by_pid(process for told in lists for process in told)

    def computing_pids(self, nvml: Any) -> Iterable[int] | Missing:
        """Return the processes that compute here, or why they are not told."""
        told = self._ask(nvml, COMPUTE)
        return told if isinstance(told, Missing) else {process.pid for process in told}

    @property
    def _state(self) -> GpuState:
        not_asked = self._why_not_asked()
        return GpuState.ANSWERS if not_asked is None else not_asked.state

    def _why_not_asked(self) -> Missing | None:
        if self.is_asleep:
            return MAY_SLEEP if self.bus_id is None else ASLEEP
        return self.missing if self.handle is None else None

    def _answers(
        self, nvml: Any, questions: tuple[Question, ...]
    ) -> tuple[dict[str, Any], dict[str, str]]:
        values: dict[str, Any] = {}
        why: dict[str, str] = {}
        for question in questions:
            answer = self._measured.get(question.name)
            if answer is None:
                answer = self._ask(nvml, question)
            if isinstance(answer, Missing):
                why[question.name] = answer.reason
            else:
                values[question.name] = answer
        return values, why

    def _ask(self, nvml: Any, question: Question) -> Any:
        """Return the answer; which call gives it, if any does, is found out once."""
        not_asked = self._why_not_asked()
        if not_asked is not None:
            return not_asked
        if self._mig and question.name in NOT_UNDER_MIG:
            return Missing(UNDER_MIG)
        settled = self._settled.get(question.name)
        if isinstance(settled, Missing):
            return settled
        missing = Missing("not supported")
        for reader in (settled,) if settled is not None else question.readers:
            try:
                value = reader(nvml, self.handle)
                question.check(value)
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
                self._settled[question.name] = reader
                return value
        self._settled[question.name] = missing
        return missing
