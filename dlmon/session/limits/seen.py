"""What the rules of what limits a run look at: samples, and what is known beside them. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property

from dlmon.records import Gpu, GpuFacts, Machine, MachineFacts
from dlmon.records.record import record
from dlmon.records.sanitize import clean
from dlmon.session.limits.evidence import MIN_SAMPLES, is_below, is_busy, mean_of, reaches

CPU_THROTTLED_PCT = 5.0
IDLE_CORES = 0.5
WAITED_FOR_CPU = 0.1
# What mostly sleeps waits a little for a CPU whenever it wakes on a busy machine.
MOSTLY = 0.5
# By which share of the time between two samples one may be late.
LATENESS = 0.1
MAX_CORES = 1_000_000
# How far apart the sensors' slow readings are, at least: each is taken with a sample.
SLOW_NS = 5_000_000_000
NAME_CHARACTERS = 24
_INTERPRETER = re.compile(r"(python[\d.]*|bash|sh|dash|zsh|node|perl|ruby)")
_TAKES_A_VALUE = ("-W", "-X")
_TRAINING_OF_OURS = "dlmon run"


def settled_after_ns(interval_ns: int) -> int:
    """Return after how long the slow readings are of what came since alone.

    A reading stands in each sample until the next one, and is of the time since the one before it.
    """
    period_ns = math.ceil(SLOW_NS / interval_ns) * interval_ns
    return 2 * period_ns - interval_ns


@record(frozen=True)
class CpuUse:
    """Who used a machine's cores, in cores; `own` and what follows are None where unknown.

    `allowed` is how many of them the run may use, and `knows_steal` says that what the host of a
    virtual machine took is not among the `others`. `waited` is the share of the time in which the
    run's thread that waited most for a CPU did so: for those others, so it is unknown where a
    limit of its own stops the run. `thread` is the share in which its busiest one had a CPU.
    """

    cores: int
    allowed: float
    own: float | None = None
    others: float | None = None
    idle: float | None = None
    knows_steal: bool = False
    waited: float | None = None
    thread: float | None = None

    @property
    def free(self) -> float | None:
        if self.idle is None or self.own is None:
            return None
        return max(0.0, min(self.idle, self.allowed - self.own))

    def wants_more(self, holds: bool = False) -> bool:
        """Whether others keep the run from a CPU; by what it takes where no wait is measured."""
        if self.own is None:
            return False
        if self.waited is None:
            return reaches(self.own, IDLE_CORES, holds)
        # What a framework spreads over its threads is more than any of them has.
        wanted = max(min(1.0, self.own), self.thread or 0.0) + self.waited
        return reaches(self.waited, WAITED_FOR_CPU, holds) and reaches(wanted, MOSTLY, holds)


@dataclass
class Seen:
    """Samples of a run, and what else is known of that time.

    Attributes:
        samples: whole samples (nothing left out), oldest first, `MIN_SAMPLES` or more.
        facts: of the machine.
        gpu_index: the GPU that is trained on, by NVML's number; None on the CPU, and where it
            isn't known.
        cpus: the CPUs that the run was given (`--cpus`), if it was.
        threads: the threads that it was to compute with (`--threads`), if that was said.
        waited_share: what part of the time it waited for data, 0 to 1, where that is measured.
        workers: how many processes load the data, where that is known.
        unmeasured: what could limit it too and is not measured of it, as a clause.
        ended: whether it is over, so that the words are in the past.
        on_cpu: whether it is known to train on the CPU.
        is_lost: whether the GPU gives no readings any more: what it did before says nothing.
        interval_s: how far apart samples are taken.
        holds: whether a rule is asked that has held before, for which nearly is enough.
    """

    samples: Sequence[Machine]
    facts: MachineFacts
    gpu_index: int | None = None
    cpus: object = None
    threads: object = None
    waited_share: float | None = None
    workers: int | None = None
    unmeasured: str | None = None
    ended: bool = False
    on_cpu: bool = False
    is_lost: bool = False
    interval_s: float = 1.0
    holds: bool = False

    @property
    def held(self) -> Seen:
        """The same for rules that have held before."""
        other = copy(self)
        other.holds = True
        return other

    def verb(self, now: str, then: str) -> str:
        """Return the form of a verb: the last, once the run is over."""
        return then if self.ended else now

    def reaches(self, value: float, least: float) -> bool:
        return reaches(value, least, self.holds)

    def is_below(self, value: float, most: float) -> bool:
        return is_below(value, most, self.holds)

    def is_busy(self, pct: float) -> bool:
        return is_busy(pct, self.holds)

    def mean(self, read: Callable[[Machine], float | None]) -> float | None:
        """Return the mean of a reading; None where too few are known."""
        return mean_of(map(read, self.samples))

    @cached_property
    def gpus(self) -> Sequence[Gpu]:
        """The readings of the GPU that is trained on."""
        every = (gpu for sample in self.samples for gpu in sample.gpus or ())
        return [] if self.is_lost else [gpu for gpu in every if gpu.index == self.gpu_index]

    @property
    def gpu_facts(self) -> GpuFacts | None:
        return next((gpu for gpu in self.facts.gpus or () if gpu.index == self.gpu_index), None)

    def gpu_mean(self, read: Callable[[Gpu], float | None]) -> float | None:
        """Return the mean of a reading of the GPU that is trained on."""
        return mean_of(map(read, self.gpus))

    @cached_property
    def gpu_pct(self) -> float | None:
        """The share of the time in which that GPU was busy."""
        return self.gpu_mean(lambda gpu: gpu.utilization_pct)

    @cached_property
    def _settled(self) -> Sequence[Machine]:
        """Those samples whose slow readings are of the time since the first of them alone.

        In the ones before, they are of the imports, too, and of the compilation.
        """
        interval_ns = int(self.interval_s * 1e9)
        # A sample may come a little early.
        least_ns = settled_after_ns(interval_ns) - LATENESS * interval_ns
        return [one for one in self.samples if one.t - self.samples[0].t >= least_ns]

    @cached_property
    def thread_pct(self) -> float | None:
        """Which share of the time the run's busiest thread had a CPU."""
        return mean_of(s.process.busiest_thread_pct if s.process else None for s in self._settled)

    @cached_property
    def process_pct(self) -> float | None:
        """The CPU time of the run's busiest process, all its threads together."""
        return mean_of(s.process.busiest_process_pct if s.process else None for s in self._settled)

    @cached_property
    def stopped_pct(self) -> float | None:
        """In how many of its periods a CPU limit stopped the run."""
        return self.mean(lambda s: s.cpu.throttled_pct if s.cpu else None)

    @cached_property
    def use(self) -> CpuUse | None:
        """Who used the CPUs on average."""
        per_core = [len(s.cpu.cores) for s in self.samples if s.cpu and s.cpu.cores]
        count = per_core[-1] if per_core else self.facts.cores
        if not count or count < 1:
            return None
        limits = (count, count_of(self.cpus), self.facts.cores, self.facts.cpu_limit)
        allowed = min(float(limit) for limit in limits if limit is not None and limit > 0)
        both = [
            (s.process.cpu_pct / 100, s.cpu.pct * count / 100, s.cpu.steal_pct)
            for s in self.samples
            if s.process and s.cpu and s.process.cpu_pct is not None and s.cpu.pct is not None
        ]
        if len(both) < MIN_SAMPLES:
            own_pct = self.mean(lambda s: s.process.cpu_pct if s.process else None)
            return CpuUse(count, allowed, own=None if own_pct is None else own_pct / 100)
        waited_pct = mean_of(s.process.cpu_wait_pct if s.process else None for s in self._settled)
        if (self.stopped_pct or 0) >= CPU_THROTTLED_PCT:
            waited_pct = None
        own = sum(own for own, *_ in both) / len(both)
        busy = sum(busy for _, busy, _ in both) / len(both)
        steals = [steal for *_, steal in both if steal is not None]
        stolen = sum(steals) / len(steals) * count / 100 if steals else 0.0
        return CpuUse(
            count,
            allowed,
            own=own,
            others=max(0.0, busy - stolen - own),
            idle=max(0.0, count - max(busy, own)),
            knows_steal=len(steals) == len(both),
            waited=None if waited_pct is None else waited_pct / 100,
            thread=None if self.thread_pct is None else self.thread_pct / 100,
        )


def count_of(value: object) -> int | None:
    """Return a number of CPUs or threads from a log's options, which may hold anything."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= MAX_CORES:
        return value
    return None


def program_name(command: str | None) -> str | None:
    """Return what a person calls a program: without its folder, the script and not its interpreter.

    None where the command isn't known.
    """
    first, *rest = (command or "").split() or [""]
    name = first if first.startswith("[") else first.rpartition("/")[2]
    if _INTERPRETER.fullmatch(name):
        name = _script(rest) or name
        name = _TRAINING_OF_OURS if name == "workloads" else name
    return clean(name, NAME_CHARACTERS) or None


def _script(words: Sequence[str]) -> str | None:
    """Return the module or the script that an interpreter was given; None for what is neither."""
    following = iter(words)
    for word in following:
        if word == "-m":
            return next(following, None)
        if word in _TAKES_A_VALUE:
            next(following, None)
        elif word == "-c":
            return None
        elif not word.startswith("-"):
            return word.rpartition("/")[2]
    return None
