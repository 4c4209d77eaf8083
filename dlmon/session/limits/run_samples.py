"""The samples of a run that the rules about its limit look at."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from dlmon.comparison.conditions import cores
from dlmon.records import CodeSamples, Gpu, GpuFacts, Machine, MachineFacts, Model, StepParts
from dlmon.records.record import record
from dlmon.records.training import STEP_PARTS
from dlmon.records.words import gpu_name

MIN_SAMPLES = 5
BUSY_PCT = 90.0

CPU_THROTTLED_PCT = 5.0
IDLE_CORES = 0.5
WAITED_FOR_CPU = 0.1
# On a busy machine a process that mostly sleeps waits a little for a CPU whenever it wakes.
MOSTLY = 0.5
# The most that a sample may be early, as a share of the sampling interval.
LATENESS = 0.1
MAX_CORES = 1_000_000
# The least time between two slow readings of the sensors: each is taken with a sample.
SLOW_NS = 5_000_000_000
# A rule that held before goes on holding down to this share of its threshold.
_LENIENCY = 0.8
_NETWORK = ("forward_us", "backward_us")
# A part of a step is larger than another one if it is so by this share of a step, and by this many
# standard errors of their difference, which takes this many records to know.
_LEAST_APART, _ERRORS_APART, LEAST_FOR_ERROR = 0.02, 2.0, 8


def settled_after_ns(interval_ns: int) -> int:
    """Return the time after which a slow reading covers nothing before the first sample.

    A slow reading covers the time since the previous one, and is repeated until the next one.
    """
    period_ns = math.ceil(SLOW_NS / interval_ns) * interval_ns
    return 2 * period_ns - interval_ns


@record(frozen=True)
class CpuUse:
    """The mean use of a machine's cores, in cores; None for what is unknown.

    Attributes:
        cores: the cores of the machine.
        allowed_cores: the cores that the run may use.
        run_cores: the cores that the run used.
        other_cores: the cores that other programs used.
        idle_cores: the cores that were idle.
        knows_steal: `other_cores` excludes CPU steal.
        waited_share: the share of the time in which the thread of the run that waited most for a
            CPU did so; None if the run's own CPU limit stopped it.
        thread_share: the share of the time in which the run's busiest thread had a CPU.
    """

    cores: int
    allowed_cores: float
    run_cores: float | None = None
    other_cores: float | None = None
    idle_cores: float | None = None
    knows_steal: bool = False
    waited_share: float | None = None
    thread_share: float | None = None

    @property
    def run_text(self) -> str:
        of_cores = cores(self.cores)
        if self.allowed_cores < self.cores:
            of_cores = f"the {cores(self.allowed_cores)} that it may use"
        return f"this run {self.run_cores or 0.0:.1f} of {of_cores}"

    @property
    def free_cores(self) -> float | None:
        if self.idle_cores is None or self.run_cores is None:
            return None
        return max(0.0, min(self.idle_cores, self.allowed_cores - self.run_cores))


@dataclass
class RunSamples:
    """Samples of a run, and what else is known of that time.

    Attributes:
        samples: whole samples (nothing left out), oldest first, `MIN_SAMPLES` or more.
        facts: the facts of the machine.
        gpu_numbers: the NVML indices of the GPUs that train; empty on the CPU or if unknown.
        cpus: the CPUs that the user gave the run (`--cpus`).
        threads: the threads that the user gave the run (`--threads`).
        waited_share: the share of its steps in which it waited for data, 0 to 1, if measured.
        waited_window: that time, in words.
        workers: the number of loader workers, if known.
        unmeasured: a clause about a possible limit that is not measured.
        is_over: the run is over, so texts are in the past tense.
        on_cpu: the run is known to train on the CPU.
        is_lost: the GPU gives no readings any more, so its earlier ones don't count.
        interval_s: the sampling interval.
        step_records: the records of the parts of the steps of that time, if measured.
        code: samples of the script's own code in those steps; None if there are none.
        model: the model that trains.
        lenient: the rules are those that held before, for which nearly holding is enough.
        retries: how often the allocator freed its cached GPU memory in that time.
    """

    samples: Sequence[Machine]
    facts: MachineFacts
    gpu_numbers: tuple[int, ...] = ()
    cpus: object = None
    threads: object = None
    waited_share: float | None = None
    waited_window: str = "the last 30 s"
    workers: int | None = None
    unmeasured: str | None = None
    is_over: bool = False
    on_cpu: bool = False
    is_lost: bool = False
    interval_s: float = 1.0
    step_records: Sequence[StepParts] = ()
    code: CodeSamples | None = None
    model: Model | None = None
    lenient: bool = False
    retries: int = 0

    @property
    def lenient_copy(self) -> RunSamples:
        """A copy for the rules that held before."""
        lenient = copy(self)
        lenient.lenient = True
        return lenient

    def verb(self, present: str, past: str) -> str:
        """Return the form of a verb in the tense for this run."""
        return past if self.is_over else present

    def gpu_verb(self, singular: str, plural: str, past: str, plural_past: str = "") -> str:
        """Return the form of a verb whose subject is the GPUs that train."""
        if len(self.gpu_numbers) > 1:
            return self.verb(plural, plural_past or past)
        return self.verb(singular, past)

    def reaches(self, value: float, least: float) -> bool:
        """Return whether a value reaches a rule's threshold, or nearly does if `lenient`."""
        return value >= (least * _LENIENCY if self.lenient else least)

    def is_below(self, value: float, most: float) -> bool:
        return is_below(value, most, self.lenient)

    def is_busy(self, pct: float) -> bool:
        """Return whether hardware is hardly ever idle."""
        idle_pct = 100 - BUSY_PCT
        return 100 - pct <= (idle_pct / _LENIENCY if self.lenient else idle_pct)

    @property
    def wants_cpu(self) -> bool:
        """True if the run waits for a CPU; without a measured wait, if it uses one."""
        use = self.cpu_use
        if use is None or use.run_cores is None:
            return False
        if use.waited_share is None:
            return self.reaches(use.run_cores, IDLE_CORES)
        # All threads of a framework together use more than its busiest thread.
        wanted = max(min(1.0, use.run_cores), use.thread_share or 0.0) + use.waited_share
        return self.reaches(use.waited_share, WAITED_FOR_CPU) and self.reaches(wanted, MOSTLY)

    def mean(self, value_of: Callable[[Machine], float | None]) -> float | None:
        """Return the mean of a reading; None if too few are known."""
        return mean_of(map(value_of, self.samples))

    @cached_property
    def gpus(self) -> Sequence[Gpu]:
        """The readings of the GPUs that train."""
        if self.is_lost:
            return []
        gpus = (gpu for sample in self.samples for gpu in sample.gpus or ())
        return [gpu for gpu in gpus if gpu.index in self.gpu_numbers]

    @property
    def gpu_name(self) -> str:
        """The name of the GPUs that train, as the subject of a sentence."""
        return gpu_name(self.gpu_numbers)

    @property
    def gpu_is(self) -> str:
        return self.gpu_verb("is", "are", "was", "were")

    @property
    def gpu_its(self) -> str:
        return "its" if len(self.gpu_numbers) < 2 else "their"

    @property
    def gpu_facts(self) -> GpuFacts | None:
        """The facts of the first GPU that trains."""
        return next((gpu for gpu in self.facts.gpus or () if gpu.index in self.gpu_numbers), None)

    def gpu_mean(self, value_of: Callable[[Gpu], float | None]) -> float | None:
        """Return the mean of a reading of the GPUs that train."""
        return mean_of(map(value_of, self.gpus))

    @cached_property
    def gpu_pct(self) -> float | None:
        """The mean utilisation of the GPUs that train."""
        return self.gpu_mean(lambda gpu: gpu.utilization_pct)

    @cached_property
    def parts(self) -> StepParts | None:
        """The parts of all steps of that time together."""
        return with_wait(summed_parts(self.step_records), self.waited_share)

    @property
    def network_share(self) -> float | None:
        """The share of a step that forward and backward take."""
        shares = [self.parts.share(name) for name in _NETWORK] if self.parts is not None else []
        return sum(share or 0.0 for share in shares) if shares else None

    def explained(self, share: float | None) -> float | None:
        """Return the share of the time that busy hardware explains: at most that of the network."""
        network = self.network_share
        return share if network is None else network if share is None else min(share, network)

    def margin_of(self, first: str, second: str) -> float:
        """Return how much larger one part of a step must be than another one to be the larger one.

        Args:
            first: the part, by its field; forward stands for forward and backward.
            second: the other part.
        """
        if len(self.step_records) < LEAST_FOR_ERROR or self.parts is None:
            return _LEAST_APART
        apart_us = [_part_us(r, first) - _part_us(r, second) for r in self.step_records]
        steps_us = [record.step_us for record in self.step_records]
        mean = sum(apart_us) / sum(steps_us)
        errors = (us - mean * step for us, step in zip(apart_us, steps_us, strict=True))
        error = math.sqrt(sum(us**2 for us in errors)) / sum(steps_us)
        return max(_LEAST_APART, _ERRORS_APART * error)

    @cached_property
    def _settled(self) -> Sequence[Machine]:
        """The samples whose slow readings cover nothing before the first sample.

        Earlier slow readings cover the imports and the compilation, too.
        """
        interval_ns = int(self.interval_s * 1e9)
        # A sample may come a little early.
        least_ns = settled_after_ns(interval_ns) - LATENESS * interval_ns
        return [s for s in self.samples if s.t - self.samples[0].t >= least_ns]

    @cached_property
    def thread_pct(self) -> float | None:
        """The share of the time in which the run's busiest thread had a CPU."""
        return mean_of(s.process.busiest_thread_pct if s.process else None for s in self._settled)

    @cached_property
    def process_pct(self) -> float | None:
        """The CPU utilisation of the run's busiest process, all its threads together."""
        return mean_of(s.process.busiest_process_pct if s.process else None for s in self._settled)

    @cached_property
    def stopped_pct(self) -> float | None:
        """The share of the periods in which a CPU limit stopped the run."""
        return self.mean(lambda s: s.cpu.throttled_pct if s.cpu else None)

    @cached_property
    def cpu_use(self) -> CpuUse | None:
        """The mean use of the CPUs."""
        per_core = [len(s.cpu.cores) for s in self.samples if s.cpu and s.cpu.cores]
        count = per_core[-1] if per_core else self.facts.cores
        if not count or count < 1:
            return None
        limits = (count, count_of(self.cpus), self.facts.cores, self.facts.cpu_limit)
        allowed = min(float(limit) for limit in limits if limit is not None and limit > 0)
        readings = [
            (s.process.cpu_pct / 100, s.cpu.pct * count / 100, s.cpu.steal_pct)
            for s in self.samples
            if s.process and s.cpu and s.process.cpu_pct is not None and s.cpu.pct is not None
        ]
        if len(readings) < MIN_SAMPLES:
            run_pct = self.mean(lambda s: s.process.cpu_pct if s.process else None)
            return CpuUse(count, allowed, run_cores=None if run_pct is None else run_pct / 100)
        waited_pct = mean_of(s.process.cpu_wait_pct if s.process else None for s in self._settled)
        if (self.stopped_pct or 0) >= CPU_THROTTLED_PCT:
            waited_pct = None
        run_cores = sum(run_cores for run_cores, *_ in readings) / len(readings)
        busy_cores = sum(busy_cores for _, busy_cores, _ in readings) / len(readings)
        steals = [steal_pct for *_, steal_pct in readings if steal_pct is not None]
        steal_cores = sum(steals) / len(steals) * count / 100 if steals else 0.0
        return CpuUse(
            count,
            allowed,
            run_cores=run_cores,
            other_cores=max(0.0, busy_cores - steal_cores - run_cores),
            idle_cores=max(0.0, count - max(busy_cores, run_cores)),
            knows_steal=len(steals) == len(readings),
            waited_share=None if waited_pct is None else waited_pct / 100,
            thread_share=None if self.thread_pct is None else self.thread_pct / 100,
        )


def summed_parts(records: Sequence[StepParts]) -> StepParts | None:
    """Return the sums of the parts of steps; None without records."""
    sums: dict[str, Any] = {}
    for name in ("steps", "step_us", *STEP_PARTS):
        known = [part for record in records if (part := getattr(record, name)) is not None]
        sums[name] = sum(known) if known else None
    return replace(records[-1], **sums) if records else None


def with_wait(parts: StepParts | None, share: float | None) -> StepParts | None:
    """Return parts of measured steps with the `share` of data in all steps, 0 to 1, if known."""
    if parts is None or parts.wait_us is None or share is None or not 0 <= share < 1:
        return parts
    step_us = (parts.step_us - parts.wait_us) / (1 - share)
    return replace(parts, step_us=round(step_us), wait_us=round(share * step_us))


def _part_us(parts: StepParts, name: str) -> int:
    """Return the time of a part; forward stands for forward and backward."""
    names = _NETWORK if name in _NETWORK else (name,)
    return sum(getattr(parts, part) or 0 for part in names)


def count_of(value: object) -> int | None:
    """Return a number of CPUs or threads from a log's options; None unless it is valid."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= MAX_CORES:
        return value
    return None


def is_below(value: float, most: float, lenient: bool) -> bool:
    """Return whether a value is below a rule's threshold, or nearly so if `lenient`."""
    return value < (most / _LENIENCY if lenient else most)


def mean_of(values: Iterable[float | None]) -> float | None:
    """Return the mean of the known values; None if fewer than `MIN_SAMPLES` are known."""
    numbers = [value for value in values if value is not None]
    return sum(numbers) / len(numbers) if len(numbers) >= MIN_SAMPLES else None
