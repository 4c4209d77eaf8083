"""The GPUs of all vendors of a machine, as one provider."""

from __future__ import annotations

from dataclasses import replace

from dlmon.records import Gpu, GpuState, MachineFacts
from dlmon.sensors.drm.cards import DrmProvider
from dlmon.sensors.nvidia.device import READINGS
from dlmon.sensors.nvidia.provider import NvidiaProvider
from dlmon.sensors.provider import Provider, SensorReading


class GpuProvider(Provider):
    """Joins the GPUs of NVIDIA, AMD and Intel.

    NVIDIA's keep the numbers of nvidia-smi, those of the others follow.
    """

    def __init__(self, nvidia: NvidiaProvider, drm: DrmProvider) -> None:
        self._nvidia, self._drm = nvidia, drm
        self._facts = [MachineFacts(), MachineFacts()]
        self._why_no_nvidia: str | None = None
        self._notices: list[str] = []

    def facts(self) -> MachineFacts:
        nvidia = self._nvidia.facts()
        self._drm.first = max(len(nvidia.gpus or ()), self._nvidia.cards)
        self._facts = [nvidia, self._drm.facts()]
        return _joined_facts(*self._facts)

    def later_facts(self) -> MachineFacts | None:
        """Return the facts again if a GPU appeared since they were last returned, else None."""
        later = [self._nvidia.later_facts(), self._drm.later_facts()]
        if later == [None, None]:
            return None
        self._facts = [new or known for new, known in zip(later, self._facts, strict=True)]
        return _joined_facts(*self._facts)

    def notices(self) -> list[str]:
        notices, self._notices = self._notices, []
        return [*notices, *self._nvidia.notices(), *self._drm.notices()]

    def fast(self, t: int) -> SensorReading:
        nvidia, others = self._nvidia.fast(t), self._drm.fast(t)
        if others.gpus:
            nvidia = self._with_lost(nvidia)
            self._notice_missing(nvidia)
        return _joined(nvidia, others)

    def slow(self, t: int) -> SensorReading:
        nvidia, others = self._nvidia.slow(t), self._drm.slow(t)
        return _joined(self._with_lost(nvidia) if others.gpus else nvidia, others)

    def _with_lost(self, nvidia: SensorReading) -> SensorReading:
        """Return the reading with NVIDIA's cards as lost if its driver must not be asked."""
        if nvidia.gpus_state != GpuState.LOST or not self._nvidia.cards:
            return nvidia
        why = dict.fromkeys(READINGS, nvidia.why["gpus"])
        numbers = range(self._nvidia.cards)
        gpus = tuple(Gpu(number, state=GpuState.LOST, why=why) for number in numbers)
        return SensorReading(gpus=gpus, gpu_processes={})

    def _notice_missing(self, nvidia: SensorReading) -> None:
        """Say once why NVIDIA's GPUs are missing beside others', if there is a driver."""
        is_missing = nvidia.gpus is None and nvidia.gpus_state != GpuState.NO_DRIVER
        why = nvidia.why.get("gpus") if is_missing else None
        if why is not None and why != self._why_no_nvidia:
            self._notices.append(f"NVIDIA's GPUs: {why}")
        self._why_no_nvidia = why


def _joined_facts(nvidia: MachineFacts, others: MachineFacts) -> MachineFacts:
    if others.gpus is None:
        return nvidia
    counts = [f.foreign_gpu_processes for f in (nvidia, others) if f.gpus is not None]
    known = [count for count in counts if count is not None]
    are_known = len(known) == len(counts)
    why = {**nvidia.why, **others.why}
    for name in ("gpus", "foreign_gpu_processes") if are_known else ("gpus",):
        why.pop(name, None)
    return replace(
        nvidia,
        gpus=(*(nvidia.gpus or ()), *others.gpus),
        gpus_state=GpuState.ANSWERS,
        foreign_gpu_processes=sum(known) if are_known else None,
        why=why,
    )


def _joined(nvidia: SensorReading, others: SensorReading) -> SensorReading:
    if others.gpus is None or nvidia.gpus is None:
        return nvidia if others.gpus is None else others
    why = {**nvidia.why, **others.why}
    by_pid: dict[int, dict[int, int | None]] | None = None
    if nvidia.gpu_processes is not None and others.gpu_processes is not None:
        by_pid = dict(nvidia.gpu_processes)
        for pid, memory in others.gpu_processes.items():
            by_pid[pid] = {**by_pid.get(pid, {}), **memory}
    return replace(
        others,
        gpus=(*nvidia.gpus, *others.gpus),
        gpu_processes=by_pid,
        gpu_pids_are_ours=False,
        why=why,
    )
