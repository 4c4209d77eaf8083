"""Say what limits a run, with the figures that show it, and what to try where they speak for that.

Pure. Every rule looks at the samples of the last half minute of steady training, and
before there are any, a few look at those of the start. Each states what was measured,
no cause that wasn't: on TensorFlow the wait for input happens inside the training
function and can't be seen. Other programs are named only where the run itself wants
the CPU. All rules that hold are kept, and the sentence names the two strongest.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple

from dlmon.comparison.conditions import cores
from dlmon.records import TITLES, Epoch, Machine
from dlmon.session.learning import LOSS, Metric, metric_of
from dlmon.session.limits.rules import (
    WAITED_SHARE,
    all_cores_busy,
    allocator_frees,
    copy_share,
    fewer_others,
    gpu_shared,
    gpu_works,
    mostly_idle,
    network,
    one_core,
    one_thread_of_the_cpu,
    optimizer_share,
    other_programs,
    own_code,
    own_cpus,
    own_threads,
    quota,
)
from dlmon.session.limits.seen import (
    BUSY_PCT,
    IDLE_CORES,
    KINDS,
    MIN_SAMPLES,
    NETWORK,
    Evidence,
    Limit,
    LimitKind,
    Seen,
    settled_after_ns,
)

WINDOW_S = 30.0
SWAPPING_MIB_S = 1.0
STEAL_PCT = 5.0
PRESSURE_PCT = 10.0
# A run that reads this much from a disk, or has this many processes that wait, may be among the
# programs that wait for a disk, or for memory.
READ_MIB_S, FAULTS_S, BLOCKED = 0.1, 1.0, 0.1
# By how much more of the time a rule has to take to lead in the place of another.
_LEADS_BY = 0.05
IDLE = "idle"
_OF_THE_NETWORK = (LimitKind.GPU, LimitKind.CPU)
_IN_A_WINDOW = 6
"""How often a run is looked at while one window of samples passes."""
_LOOKS = 12
"""How many of the newest looks say what limits a run."""
_SETTLED_NS = 2_000_000_000
"""How much later than a sample what batches say of its time may be written."""
_MAX_SAMPLES = 2000


def window_s(interval_s: float) -> float:
    """Return how many seconds of samples to look at, by how far apart they are."""
    # The first may lie just outside, and what the slow readings leave out comes on top.
    unsettled_s = settled_after_ns(int(interval_s * 1e9)) / 1e9
    return max(WINDOW_S, unsettled_s + (MIN_SAMPLES + 1) * interval_s)


def looked_back_s(interval_s: float) -> float:
    """Return how long before a moment lies all that says what limits a run then."""
    window = window_s(interval_s)
    return window + (_LOOKS + 1) * window / _IN_A_WINDOW + _SETTLED_NS / 1e9


class Look(NamedTuple):
    """What the rules say of some samples.

    Attributes:
        clear: what holds.
        nearly: what holds, or nearly does, which is enough for what has held before.
        measured: what the samples come to, whatever holds.
    """

    clear: tuple[Evidence, ...]
    nearly: tuple[Evidence, ...]
    measured: tuple[tuple[LimitKind, str], ...]


Rule = Callable[[Seen], Evidence | None]


def look(seen: Seen, rules: Sequence[Rule] = ()) -> Look:
    """Return what rules say of samples: without any, those of steady training."""
    training = not rules
    rules = rules or _rules_of_training(seen)
    clear, nearly = (
        tuple(filter(None, (rule(each) for rule in rules))) for each in (seen, seen.held)
    )
    is_explained = training and any(one.rule != IDLE for one in clear)
    return Look(clear, nearly, _measured(seen, is_explained))


def _rules_of_training(seen: Seen) -> Sequence[Rule]:
    """Return what is used up, then what was taken away, then what may be a sign of either."""
    return (
        *(_data_wait, gpu_works, quota, other_programs, own_cpus, own_threads, all_cores_busy),
        *(_swapping, _memory_pressure, _steal),
        one_thread_of_the_cpu if seen.on_cpu else one_core,
        *(optimizer_share, copy_share, _io_pressure, gpu_shared, allocator_frees, mostly_idle),
        *(own_code, network),
    )


def limit_of(
    looks: Sequence[Look], ended: bool, first: Sequence[Evidence | None] = ()
) -> Limit | None:
    """Return what limits a run by what was seen of it again and again, oldest first.

    What holds clearly limits it from then on, until at two looks in a row it does not even nearly.
    What took the largest share of the time leads, until another one takes clearly more; in the
    place of the network leads what says why that takes so long.

    Args:
        looks: at samples of the same time each; none where there are too few of them.
        ended: whether it is over.
        first: what comes before all that; None for nothing.
    """
    before = tuple(one for one in first if one is not None)
    if not looks and not before:
        return None
    held: dict[str, Evidence] = {}
    missing: frozenset[str] = frozenset()
    leader = ""
    for looked in looks:
        held, missing = _held_after(looked, held, missing)
        leader = _leader(held, leader)
    if before or any(KINDS[rule] is not LimitKind.STEP for rule in held.keys() - {IDLE}):
        # Only where nothing else is known does it wait for something else.
        held.pop(IDLE, None)
    order = {rule: number for number, rule in enumerate(KINDS)}
    reasons = [rule for rule in held if KINDS[rule] in _OF_THE_NETWORK or rule == "other-programs"]
    if reasons:
        # They say why the network takes its time.
        held.pop(NETWORK, None)
        leader = min(reasons, key=lambda rule: order[rule]) if leader == NETWORK else leader
    steady = (_with_steady_advice(one, looks) for one in held.values())
    evidence = sorted(steady, key=lambda one: (one.rule != leader, order[one.rule]))
    return Limit((*before, *evidence), looks[-1].measured if looks else (), ended)


def _with_steady_advice(one: Evidence, looks: Sequence[Look]) -> Evidence:
    """Return evidence with what most looks advised beside its headline, with the newest figures."""
    alike = [
        other.advice
        for looked in looks
        for other in looked.nearly
        if (other.rule, other.headline) == (one.rule, one.headline)
    ]
    kinds = Counter(advice.partition(":")[0] for advice in alike)
    if not kinds:
        return one
    most = max(kinds, key=lambda kind: kinds[kind])
    advice = next(text for text in reversed(alike) if text.partition(":")[0] == most)
    return replace(one, advice=advice)


def _held_after(
    looked: Look, held: Mapping[str, Evidence], missing: frozenset[str]
) -> tuple[dict[str, Evidence], frozenset[str]]:
    """Return what holds after one more look, by what it is about, and what of it was missing there.

    Args:
        looked: the look.
        held: what held before it.
        missing: what of that was missing in the look before.
    """
    clear = {_about(one): one for one in looked.clear}
    nearly = {_about(one): one for one in looked.nearly}
    now: dict[str, Evidence] = {}
    for about, one in held.items():
        near = nearly.get(about)
        if near is not None and near.rule == one.rule:
            now[about] = near
        elif about in clear or near is not None:
            now[about] = clear.get(about) or nearly[about]
        elif about not in missing:
            now[about] = one
    gone = frozenset(now.keys() - nearly.keys() - clear.keys())
    return {**clear, **now}, gone


def _about(one: Evidence) -> str:
    """Return what two rules have in common of which only one can hold."""
    return "gpu" if KINDS[one.rule] is LimitKind.GPU else one.rule


def _leader(held: Mapping[str, Evidence], leader: str) -> str:
    """Return the rule that took the largest share of the time; "" where no share is known."""
    shares = {one.rule: one.share for one in held.values() if one.share is not None}
    if not shares:
        return ""
    if leader not in shares:
        leader = min(shares, key=list(KINDS).index)
    largest = max(shares, key=lambda rule: shares[rule])
    return largest if shares[largest] > shares[leader] + _LEADS_BY else leader


# ---- looked at again and again ----


class Looks:
    """Keeps the newest samples, and what was seen of them every few seconds of the session's clock.

    All who follow a session look at it at the same moments, whenever each of them began, so they
    see the same.

    Args:
        start_ns: when the session began, on its own clock.
        interval_s: how far apart samples are taken.
    """

    def __init__(self, start_ns: int, interval_s: float) -> None:
        self._start_ns = start_ns
        self._window_ns = int(window_s(interval_s) * 1e9)
        self._every_ns = self._window_ns // _IN_A_WINDOW
        self._kept_ns = int(looked_back_s(interval_s) * 1e9)
        self._samples: deque[Machine] = deque(maxlen=_MAX_SAMPLES)
        self._seen: dict[int, Look | None] = {}
        self._known: Any = None

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the samples: who goes on from an index reads them again."""
        return vars(self) | {"_samples": deque(maxlen=_MAX_SAMPLES), "_seen": {}, "_known": None}

    def add(self, sample: Machine) -> None:
        self._samples.append(sample)
        while self._samples[0].t < sample.t - self._kept_ns:
            self._samples.popleft()

    @property
    def newest(self) -> tuple[Machine, ...]:
        return self._before(self._samples[-1].t) if self._samples else ()

    @property
    def are_enough(self) -> bool:
        """Whether there are samples enough to say anything."""
        return len(self._samples) >= MIN_SAMPLES

    def take(
        self, known: Any, look: Callable[[tuple[Machine, ...], int], Look]
    ) -> tuple[Look, ...]:
        """Return what is seen of the run, the oldest first; none where samples are too few.

        Args:
            known: whatever else the result depends on; all is computed again when it changes.
            look: says what is seen of samples that end at a moment.
        """
        if not self.are_enough:
            return ()
        if known != self._known:
            self._known, self._seen = known, {}
        newest_ns = self._samples[-1].t
        last = (newest_ns - _SETTLED_NS - self._start_ns) // self._every_ns
        seen = {}
        for number in range(last - _LOOKS + 1, last + 1):
            if number not in self._seen:
                at_ns = self._start_ns + number * self._every_ns
                samples = self._before(at_ns)
                few = len(samples) < MIN_SAMPLES
                self._seen[number] = None if few else look(samples, at_ns)
            seen[number] = self._seen[number]
        self._seen = seen
        looks = tuple(one for one in seen.values() if one is not None)
        if looks:
            return looks
        # At first there is no such moment yet: what the first samples say stands until then.
        first = tuple(islice(self._samples, MIN_SAMPLES))
        return (look(first, first[-1].t + _SETTLED_NS),)

    def _before(self, at_ns: int) -> tuple[Machine, ...]:
        first_ns = at_ns - self._window_ns
        return tuple(sample for sample in self._samples if first_ns <= sample.t <= at_ns)


# ---- data ----


def _data_wait(seen: Seen) -> Evidence | None:
    """Hold when a good part of the time went by without a batch to work on."""
    share = seen.waited_share
    if share is None or not seen.reaches(share, WAITED_SHARE):
        return None
    headline = seen.verb("Waiting for data", "Waited for data")
    # The bar of where the time went has a share of all time.
    figures = [f"{100 * share:.0f} % of the last {seen.waited_of_s:.0f} s"]
    if seen.gpu_pct is not None:
        figures.append(f"{seen.gpu_name} busy {seen.gpu_pct:.0f} %")
    advised = _against_data_wait(seen, share)
    brief = f"{100 * share:.0f} % waiting for data"
    return Evidence("data-wait", brief, headline, tuple(figures), advised, share)


def _against_data_wait(seen: Seen, share: float) -> str:
    """Return what may bring batches sooner, by what the run itself uses while it waits."""
    use, workers, io_pct = seen.use, seen.workers, _disk_wait_pct(seen)
    if io_pct is not None and io_pct >= PRESSURE_PCT:
        waited = f"some program waited for a disk {io_pct:.0f} % of the time"
        return f"keep the data in memory or on a faster disk: {waited}"
    if use is None or use.own is None:
        return ""
    idle = int(use.free or 0)
    if idle >= 1:
        return _more_workers(workers, f"{cores(idle)} idle")
    # What loads the data: its workers, or the training process. Where that is on a CPU, or waits
    # for one, in less than half of the time, it waits for something else, whatever others do.
    loading = max(1, workers or 0)
    wanted = use.own + loading * (use.waited or 0.0)
    if wanted < loading * share / 2 and use.own < use.allowed / 2:
        return _more_workers(workers, f"this run {use.own:.1f} of {cores(use.allowed)}")
    if seen.wants_cpu and use.others is not None and use.others >= 1:
        return fewer_others(seen, use.others)
    if use.own >= BUSY_PCT / 100 * use.allowed:
        return "prepare the data before the run: no core is free to do it during training"
    return ""


def _more_workers(workers: int | None, figure: str) -> str:
    """Return that more processes may load the data, with the figure that speaks for it."""
    if workers is None:
        return ""
    if workers == 0:
        return f"load the data in worker processes: num_workers is 0; try 2 ({figure})"
    return f"use more loader workers: {workers} used, {figure}"


def unmeasured_wait(backend: str | None) -> str:
    """Say that the wait for data is not measured; `backend` is what Keras runs on."""
    where = f" with Keras on {TITLES.get(backend, backend)}" if backend else ""
    return f"waiting for data is not measured{where}"


# ---- memory and disk ----


def _swapping(seen: Seen) -> Evidence | None:
    """Hold when memory is written to a disk, and the run waits for some of it."""
    mib_s = seen.mean(lambda s: s.memory.swap_mib_s if s.memory else None)
    if mib_s is None or not seen.reaches(mib_s, SWAPPING_MIB_S) or not _waits_for_memory(seen):
        return None
    brief = f"swap {mib_s:.0f} MiB/s"
    return Evidence("swap", brief, "Too little memory", (brief,), _against_short_memory(seen))


def _memory_pressure(seen: Seen) -> Evidence | None:
    pct = seen.mean(lambda s: s.pressure.memory_pct if s.pressure else None)
    if pct is None or not seen.reaches(pct, PRESSURE_PCT) or not _waits_for_memory(seen):
        return None
    waited = f"some program waited for it {pct:.0f} % of the time"
    headline = f"Memory {seen.verb('is', 'was')} short"
    brief, advised = f"memory pressure {pct:.0f} %", _against_short_memory(seen)
    return Evidence("memory-pressure", brief, headline, (waited,), advised)


def _waits_for_memory(seen: Seen) -> bool:
    faults_s = seen.mean(lambda s: s.process.major_faults_s if s.process else None)
    return _waits(seen, faults_s, FAULTS_S)


def _against_short_memory(seen: Seen) -> str:
    """Return whose memory to free: the run's where it has the most."""
    used_mib = seen.mean(lambda s: s.memory.used_mib if s.memory else None)
    rss_mib = seen.mean(lambda s: s.process.rss_mib if s.process else None)
    if rss_mib is None or not used_mib:
        return ""
    holds = f"{rss_mib / 1024:.1f} of {used_mib / 1024:.1f} GiB in use"
    if rss_mib >= used_mib / 2:
        return f"make this run use less memory: {holds}"
    return f"end programs that hold memory: this run {holds}"


def _steal(seen: Seen) -> Evidence | None:
    """Hold when CPU time of a virtual machine is taken."""
    pct = seen.mean(lambda s: s.cpu.steal_pct if s.cpu else None)
    if pct is None or not seen.reaches(pct, STEAL_PCT) or mostly_idle(seen) is not None:
        return None
    brief = f"steal {pct:.0f} %"
    headline = f"The host {seen.verb('takes', 'took')} this virtual machine's CPU time"
    return Evidence("steal", brief, headline, (brief,), "run it later, or elsewhere")


def _io_pressure(seen: Seen) -> Evidence | None:
    pct = _disk_wait_pct(seen)
    if pct is None or not seen.reaches(pct, PRESSURE_PCT):
        return None
    waited = f"some program waited for it {pct:.0f} % of the time"
    brief = f"I/O pressure {pct:.0f} %"
    headline = f"The disk {seen.verb('is', 'was')} slow to answer"
    return Evidence("io-pressure", brief, headline, (waited,))


def _disk_wait_pct(seen: Seen) -> float | None:
    """Return how long some program waited for a disk; None where this run is none of them."""
    read_mib_s = seen.mean(lambda s: s.process.read_mib_s if s.process else None)
    if not _waits(seen, read_mib_s, READ_MIB_S):
        return None
    return seen.mean(lambda s: s.pressure.io_pct if s.pressure else None)


def _waits(seen: Seen, rate: float | None, least: float) -> bool:
    """Whether the run may be one of those that wait for a disk, or for memory from one.

    It is where it reads from a disk at a `rate`, or where its processes were seen to wait; an older
    log tells neither.
    """
    blocked = seen.mean(lambda s: s.process.blocked if s.process else None)
    if rate is None and blocked is None:
        return True
    return seen.reaches(rate or 0.0, least) or seen.reaches(blocked or 0.0, BLOCKED)


# ---- when nothing holds ----


def _measured(seen: Seen, is_explained: bool = False) -> tuple[tuple[LimitKind, str], ...]:
    figures: list[tuple[LimitKind, str]] = []
    use = seen.use
    if use is not None and use.own is not None:
        figures.append((LimitKind.CPU, use.own_text))
    if use is not None and use.others is not None:
        figures.append((LimitKind.CPU, f"other programs {cores(round(use.others, 1))}"))
        if use.waited is not None and (use.free or 0) < IDLE_CORES:
            waited = f"waited for a CPU {100 * use.waited:.0f} % of the time"
            figures.append((LimitKind.CPU, waited))
    else:
        cpu_pct = seen.mean(lambda s: s.cpu.pct if s.cpu else None)
        figures += [] if cpu_pct is None else [(LimitKind.CPU, f"CPU {cpu_pct:.0f} %")]
    if seen.unmeasured is not None and not is_explained:
        figures.append((LimitKind.DATA, seen.unmeasured))
    if seen.gpu_pct is not None:
        figures.append((LimitKind.GPU, f"{seen.gpu_name} {seen.gpu_pct:.0f} %"))
    if seen.thread_pct is not None:
        figures.append((LimitKind.CPU, f"busiest thread {seen.thread_pct:.0f} % of a core"))
    return tuple(figures)


# Before it trains, these alone say something.
RULES_OF_THE_START = (quota, other_programs, _swapping, _memory_pressure, _steal)


NO_NUMBERS = ("NaN", "infinite")
# It overflows from 65,504 on, where float32 and bfloat16 do not.
_OVERFLOW = ("float16", "mixed_float16")


def loss_is_no_number(
    metrics: Mapping[str, Metric],
    epochs: Sequence[Epoch],
    epoch_now: int | None,
    precision: str | None,
    is_script: bool,
    ended: bool,
) -> Evidence | None:
    """Hold when the newest loss of the training is NaN, or infinite.

    Args:
        metrics: what the training said of itself, by what it is of.
        epochs: those that ended.
        epoch_now: the one that is being trained, from 0; None where the loop has none.
        precision: what it computes in.
        is_script: whether it is a person's own, who can change how it trains.
        ended: whether the run is over, so that the words are in the past.
    """
    loss = metrics.get(LOSS)
    if loss is None or loss.newest is not None or loss.why not in NO_NUMBERS:
        return None
    headline = f"The loss {'was' if ended else 'is'} {loss.why}"
    first = _first_epoch(loss, epochs, epoch_now)
    since = () if first is None else (f"from epoch {first + 1:,} on",)
    advised = _advice(precision, is_script, ended)
    return Evidence("loss", f"loss {loss.why}", headline, since, advised)


def _first_epoch(loss: Metric, epochs: Sequence[Epoch], epoch_now: int | None) -> int | None:
    """Return from which epoch on it is no number; None where the epochs do not say it."""
    first = None
    if not epochs or loss.last_ns > epochs[-1].end:
        first = epoch_now
    for epoch in reversed(epochs):
        said = [
            value is None and epoch.why.get(name) in NO_NUMBERS
            for name, value in epoch.metrics.items()
            if metric_of(name) == (LOSS, False)
        ]
        if not said:
            # What is not known of it may have been as bad.
            return None
        if not all(said):
            return first
        first = epoch.epoch
    return first


def _advice(precision: str | None, is_script: bool, ended: bool) -> str:
    """Return what may keep it a number: how a workload of dlmon's own learns is fixed."""
    overflows = precision in _OVERFLOW
    if not is_script:
        changes = "train in float32" if overflows else ""
    else:
        changes = f"{'float32, ' if overflows else ''}a lower learning rate or gradient clipping"
    if ended:
        return changes
    return f"stop the run: then {changes}" if changes else "stop the run"
