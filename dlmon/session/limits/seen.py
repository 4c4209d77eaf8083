"""What limits a run: what its rules look at, and the evidence that they find. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property

from dlmon.comparison.conditions import cores
from dlmon.records import Gpu, GpuFacts, Machine, MachineFacts, Model, StepParts
from dlmon.records.record import record
from dlmon.records.sanitize import clean
from dlmon.records.words import Word, gpu_name

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
_INTERPRETER = re.compile(r"(python[\d.]*|bash|sh|dash|zsh|node|perl|ruby)")


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
    def own_text(self) -> str:
        which = f"the {cores(self.allowed)} that it may use"
        of_which = which if self.allowed < self.cores else cores(self.cores)
        return f"this run {self.own or 0.0:.1f} of {of_which}"

    @property
    def free(self) -> float | None:
        if self.idle is None or self.own is None:
            return None
        return max(0.0, min(self.idle, self.allowed - self.own))


@dataclass
class Seen:
    """Samples of a run, and what else is known of that time.

    Attributes:
        samples: whole samples (nothing left out), oldest first, `MIN_SAMPLES` or more.
        facts: of the machine.
        gpu_numbers: the GPUs that are trained on, by NVML's numbers; none on the CPU, and where
            they aren't known.
        cpus: the CPUs that the run was given (`--cpus`), if it was.
        threads: the threads that it was to compute with (`--threads`), if that was said.
        waited_share: what part of the time it waited for data, 0 to 1, where that is measured.
        waited_of_s: of how many seconds that is a part.
        workers: how many processes load the data, where that is known.
        unmeasured: what could limit it too and is not measured of it, as a clause.
        ended: whether it is over, so that the words are in the past.
        on_cpu: whether it is known to train on the CPU.
        is_lost: whether the GPU gives no readings any more: what it did before says nothing.
        interval_s: how far apart samples are taken.
        parts: what steps of that time went into, where that is measured.
        model: what trains.
        holds: whether a rule is asked that has held before, for which nearly is enough.
        retries: how often the allocator of the GPU's memory freed what it kept, in that time.
    """

    samples: Sequence[Machine]
    facts: MachineFacts
    gpu_numbers: tuple[int, ...] = ()
    cpus: object = None
    threads: object = None
    waited_share: float | None = None
    waited_of_s: float = 30.0
    workers: int | None = None
    unmeasured: str | None = None
    ended: bool = False
    on_cpu: bool = False
    is_lost: bool = False
    interval_s: float = 1.0
    parts: StepParts | None = None
    model: Model | None = None
    holds: bool = False
    retries: int = 0

    @property
    def held(self) -> Seen:
        """The same for rules that have held before."""
        other = copy(self)
        other.holds = True
        return other

    def verb(self, now: str, then: str) -> str:
        """Return the form of a verb: the last, once the run is over."""
        return then if self.ended else now

    def gpu_verb(self, one: str, several: str, then: str, several_then: str = "") -> str:
        """Return the form of a verb for the GPUs that are trained on, `then` once it is over."""
        if len(self.gpu_numbers) > 1:
            return self.verb(several, several_then or then)
        return self.verb(one, then)

    def reaches(self, value: float, least: float) -> bool:
        """Whether a value is as large as a rule asks for, or nearly so where the rule `holds`."""
        return value >= (least * _STAYS if self.holds else least)

    def is_below(self, value: float, most: float) -> bool:
        return is_below(value, most, self.holds)

    def is_busy(self, pct: float) -> bool:
        """Whether hardware has next to no time left, or little where the rule `holds`."""
        left_pct = 100 - BUSY_PCT
        return 100 - pct <= (left_pct / _STAYS if self.holds else left_pct)

    @property
    def wants_cpu(self) -> bool:
        """Whether others keep the run from a CPU; by what it takes where no wait is measured."""
        use = self.use
        if use is None or use.own is None:
            return False
        if use.waited is None:
            return self.reaches(use.own, IDLE_CORES)
        # What a framework spreads over its threads is more than any of them has.
        wanted = max(min(1.0, use.own), use.thread or 0.0) + use.waited
        return self.reaches(use.waited, WAITED_FOR_CPU) and self.reaches(wanted, MOSTLY)

    def mean(self, read: Callable[[Machine], float | None]) -> float | None:
        """Return the mean of a reading; None where too few are known."""
        return mean_of(map(read, self.samples))

    @cached_property
    def gpus(self) -> Sequence[Gpu]:
        """The readings of the GPUs that are trained on."""
        every = (gpu for sample in self.samples for gpu in sample.gpus or ())
        return [] if self.is_lost else [gpu for gpu in every if gpu.index in self.gpu_numbers]

    @property
    def gpu_name(self) -> str:
        """What a sentence calls the GPUs that are trained on."""
        return gpu_name(self.gpu_numbers)

    @property
    def gpu_is(self) -> str:
        return self.gpu_verb("is", "are", "was", "were")

    @property
    def gpu_its(self) -> str:
        return "its" if len(self.gpu_numbers) < 2 else "their"

    @property
    def gpu_facts(self) -> GpuFacts | None:
        """What is known of the first GPU that is trained on."""
        return next((gpu for gpu in self.facts.gpus or () if gpu.index in self.gpu_numbers), None)

    def gpu_mean(self, read: Callable[[Gpu], float | None]) -> float | None:
        """Return the mean of a reading of the GPUs that are trained on."""
        return mean_of(map(read, self.gpus))

    @cached_property
    def gpu_pct(self) -> float | None:
        """The share of the time in which they were busy."""
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
        name = "dlmon run" if name == "workloads" else name
    return clean(name, 24) or None


def _script(words: Sequence[str]) -> str | None:
    """Return the module or the script that an interpreter was given; None for what is neither."""
    following = iter(words)
    for word in following:
        if word == "-m":
            return next(following, None)
        if word in ("-W", "-X"):
            next(following, None)
        elif word == "-c":
            return None
        elif not word.startswith("-"):
            return word.rpartition("/")[2]
    return None


MIN_SAMPLES = 5
NAMED_IN_FULL = 2
BUSY_PCT = 90.0
# What has held goes on until it is so far below what it takes to begin.
_STAYS = 0.8


class LimitKind(Word):
    """What a limit is of."""

    LOSS = "loss"
    DATA = "data"
    GPU = "GPU"
    CPU = "CPU"
    MEMORY = "memory"
    DISK = "disk"
    STEP = "parts of a step"
    OTHERS = "other programs"
    WAITING = "waiting"
    UNCLEAR = "not clear"


NETWORK = "network"
KINDS = {
    "loss": LimitKind.LOSS,
    "gpu-lost": LimitKind.UNCLEAR,
    "ranks": LimitKind.DATA,
    "data-wait": LimitKind.DATA,
    **dict.fromkeys(
        ("gpu", "gpu-near-power", "gpu-thermal", "gpu-power-brake", "gpu-slowdown"), LimitKind.GPU
    ),
    "gpu-power-cap": LimitKind.GPU,
    **dict.fromkeys(("gpu-memory", "gpu-tensor", "gpu-kernels"), LimitKind.GPU),
    "cpu-quota": LimitKind.CPU,
    "other-programs": LimitKind.OTHERS,
    **dict.fromkeys(("cpu", "threads", "cores"), LimitKind.CPU),
    **dict.fromkeys(("swap", "memory-pressure"), LimitKind.MEMORY),
    "optimizer": LimitKind.STEP,
    "copy": LimitKind.STEP,
    "thread": LimitKind.CPU,
    "io-pressure": LimitKind.DISK,
    "gpu-shared": LimitKind.OTHERS,
    "allocator": LimitKind.MEMORY,
    "steal": LimitKind.OTHERS,
    **dict.fromkeys(("own-code", NETWORK), LimitKind.STEP),
    "idle": LimitKind.WAITING,
}
"""What each rule's limit is of, in the order in which they are named."""


@record(frozen=True)
class Evidence:
    """One rule that holds: a headline and the figures that show it; both in short.

    The advice is a next step for which the
    readings speak; empty where they speak for none. The share of the run's time that it took, 0 to
    1, is known of some.
    """

    rule: str
    brief: str
    headline: str
    figures: tuple[str, ...] = ()
    advice: str = ""
    share: float | None = None

    @property
    def text(self) -> str:
        """The same as a clause."""
        return ": ".join(filter(None, (self.headline, ", ".join(self.figures))))


@record(frozen=True)
class Limit:
    """What limits a run.

    `evidence` is all that held, the strongest first; none where it isn't clear. `measured` is
    what the readings come to, whatever holds: each figure with what it is of. Of a run that has
    `ended` all is said in the past.
    """

    evidence: tuple[Evidence, ...] = ()
    measured: tuple[tuple[LimitKind, str], ...] = ()
    ended: bool = False

    @property
    def rule(self) -> str:
        """The strongest that held."""
        return self.evidence[0].rule if self.evidence else "not-clear"

    @property
    def text(self) -> str:
        """All of it for a person: the strongest in full and the others in short."""
        if not self.evidence:
            listed = ", ".join(text for _, text in self.measured) or "nothing is measured"
            return f"Not clear: {listed}."
        text = " ".join(f"{one.text}." for one in self.evidence[:NAMED_IN_FULL])
        others = ", ".join(one.brief for one in self.evidence[NAMED_IN_FULL:])
        return f"{text} Also: {others}." if others else text

    @property
    def kind(self) -> LimitKind:
        return KINDS.get(self.rule, LimitKind.UNCLEAR)

    @property
    def headline(self) -> str:
        """What limits it in a few words; empty where that isn't clear."""
        return self.evidence[0].headline if self.evidence else ""

    @property
    def figures(self) -> tuple[str, ...]:
        """The evidence in short: the strongest rule's, the others', then what else was measured."""
        if not self.evidence:
            return tuple(text for _, text in self.measured)
        strongest, *others = self.evidence
        said = {self.kind} | {KINDS.get(one.rule, LimitKind.UNCLEAR) for one in others}
        if LimitKind.OTHERS in said:
            # Those figures hold what this run took, too.
            said |= {LimitKind.CPU}
        if LimitKind.DATA in said:
            said |= {LimitKind.GPU}
        if LimitKind.WAITING in said:
            said |= {LimitKind.CPU, LimitKind.DATA}
        rest = (text for kind, text in self.measured if kind not in said)
        return (*strongest.figures, *(one.brief for one in others), *rest)

    @property
    def advice(self) -> str:
        """What to try against the strongest, else in a step; empty for nothing."""
        first, *others = self.evidence or (Evidence("", "", ""),)
        in_step = [one.advice for one in others if KINDS.get(one.rule) is LimitKind.STEP]
        return next(filter(None, (first.advice, *in_step)), "")


def is_below(value: float, most: float, holds: bool) -> bool:
    """Whether a value is as small as a rule asks for, or nearly so where the rule `holds`."""
    return value < (most / _STAYS if holds else most)


def mean_of(values: Iterable[float | None]) -> float | None:
    """Return the mean, None where too few readings are known to stand for the half minute."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if len(known) >= MIN_SAMPLES else None
