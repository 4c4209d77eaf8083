"""Say what limits a run, with the figures that show it.

Pure. Every rule looks at the samples of the last half minute of steady training, and
before there are any, a few look at those of the start. Each states what was measured,
no cause that wasn't: on TensorFlow the wait for input happens inside the training
function and can't be seen. Other programs are named only where the run itself wants
the CPU. All rules that hold are kept, and the sentence names the two strongest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from dlmon.comparison.conditions import cores
from dlmon.records import Gpu, Machine, MachineFacts
from dlmon.session.limits import advice
from dlmon.session.limits.cpu import (
    IDLE_CORES,
    CpuUse,
    all_cores_busy,
    busiest_process_pct,
    busiest_thread_pct,
    count_of,
    cpu_use,
    mostly_idle,
    one_thread_of_the_cpu,
    other_programs,
    own_cpus,
    own_threads,
    quota,
)
from dlmon.session.limits.evidence import (
    BUSY_PCT,
    KINDS,
    MIN_SAMPLES,
    NAMED_IN_FULL,
    Evidence,
    Limit,
    LimitKind,
    mean_of,
    reaches,
    verb,
)
from dlmon.session.limits.gpu import (
    WAITED_SHARE,
    gpu_shared,
    gpu_works,
    one_core,
)
from dlmon.session.slow_readings import settled_after_ns

WINDOW_S = 30.0
SWAPPING_MIB_S = 1.0
STEAL_PCT = 5.0
PRESSURE_PCT = 10.0
# From so much on that the run reads from a disk, or so many of its processes that wait, it may be
# among the programs that wait for a disk, or for memory.
READ_MIB_S, FAULTS_S, BLOCKED = 0.1, 1.0, 0.1
# One rule leads before another from so much of the time more.
_LEADS_BY = 0.05
IDLE = "idle"


def window_s(interval_s: float) -> float:
    """Return how many seconds of samples to look at, by how far apart they are."""
    # The first may lie just outside, and what the slow readings leave out comes on top.
    unsettled_s = settled_after_ns(int(interval_s * 1e9)) / 1e9
    return max(WINDOW_S, unsettled_s + (MIN_SAMPLES + 1) * interval_s)


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


def look(
    samples: Sequence[Machine],
    facts: MachineFacts,
    gpu_index: int | None,
    *,
    cpus: object = None,
    threads: object = None,
    waited_share: float | None = None,
    workers: int | None = None,
    unmeasured: str | None = None,
    ended: bool = False,
    on_cpu: bool = False,
    is_lost: bool = False,
    interval_s: float = 1.0,
) -> Look:
    """Return what the rules say of samples, `MIN_SAMPLES` or more of them.

    Args:
        samples: whole samples (nothing left out) of steady training, oldest first.
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
    """
    of_gpu = next((one for one in facts.gpus or () if one.index == gpu_index), None)
    every_gpu = (gpu for sample in samples for gpu in sample.gpus or ())
    gpus = [] if is_lost else [gpu for gpu in every_gpu if gpu.index == gpu_index]
    use = cpu_use(samples, facts, count_of(cpus), interval_s)
    thread_pct = busiest_thread_pct(samples, interval_s)
    process_pct = busiest_process_pct(samples, interval_s)

    def found(holds: bool) -> tuple[Evidence, ...]:
        # What is used up comes first, then what was taken away, then what may be a sign of either.
        rules = (
            _data_wait(waited_share, workers, use, gpus, samples, ended, holds),
            gpu_works(gpus, of_gpu, ended, holds),
            quota(samples, facts, ended, holds),
            other_programs(use, samples, ended, holds),
            own_cpus(use, facts, samples if on_cpu else (), ended, waited_share, holds),
            own_threads(use, count_of(threads), ended, holds),
            all_cores_busy(use, samples, ended, holds),
            *_scarcity(samples, ended, holds),
            one_thread_of_the_cpu(use, thread_pct, ended, holds)
            if on_cpu
            else one_core(thread_pct, process_pct, gpus, of_gpu, waited_share, ended, holds),
            _io_pressure(samples, ended, holds),
            None if is_lost else gpu_shared(samples, gpu_index, ended),
            mostly_idle(use, gpus, on_cpu, unmeasured, ended, holds),
        )
        return tuple(one for one in rules if one is not None)

    clear = found(holds=False)
    is_explained = any(one.rule != IDLE for one in clear)
    measured = _measured(use, samples, gpus, None if is_explained else unmeasured, thread_pct)
    return Look(clear, found(holds=True), measured)


def limit_of(
    looks: Sequence[Look], ended: bool, first: Sequence[Evidence | None] = ()
) -> Limit | None:
    """Return what limits a run by what was seen of it again and again, oldest first.

    What holds clearly limits it from then on, until at two looks in a row it does not even nearly.
    What took the largest share of the time leads, until another one takes clearly more.

    Args:
        looks: at samples of the same time each; none where there are too few of them.
        ended: whether it is over.
        first: what comes before all that; None for nothing.
    """
    before = tuple(one for one in first if one is not None)
    if not looks:
        return _limit_of(before, (), ended) if before else None
    held: dict[str, Evidence] = {}
    missing: frozenset[str] = frozenset()
    leader = ""
    for looked in looks:
        held, missing = _held_after(looked, held, missing)
        leader = _leader(held, leader)
    if before or len(held) > 1:
        # Only where nothing else is known does it wait for something else.
        held.pop(IDLE, None)
    order = {rule: number for number, rule in enumerate(KINDS)}
    evidence = sorted(held.values(), key=lambda one: (one.rule != leader, order[one.rule]))
    if not evidence and not before:
        measured = looks[-1].measured
        listed = ", ".join(text for _, text in measured) or "nothing is measured"
        return Limit("not-clear", f"Not clear: {listed}.", measured=measured, ended=ended)
    return _limit_of((*before, *evidence), looks[-1].measured, ended)


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


def look_before_training(
    samples: Sequence[Machine], facts: MachineFacts, cpus: object = None, interval_s: float = 1.0
) -> Look:
    """Return what the rules say that look at the start; the arguments are those of `look`."""
    use = cpu_use(samples, facts, count_of(cpus), interval_s)

    def found(holds: bool) -> tuple[Evidence, ...]:
        rules = (
            quota(samples, facts, False, holds),
            other_programs(use, samples, False, holds),
            *_scarcity(samples, False, holds),
        )
        return tuple(one for one in rules if one is not None)

    measured = _measured(use, samples, (), None, None)
    return Look(found(holds=False), found(holds=True), measured)


def limit_before_training(looks: Sequence[Look]) -> Limit | None:
    """Return what holds up the start, by what was seen of it again and again; None for nothing."""
    limit = limit_of(looks, ended=False)
    return limit if limit is not None and limit.evidence else None


def _limit_of(
    evidence: tuple[Evidence, ...], measured: tuple[tuple[LimitKind, str], ...], ended: bool
) -> Limit:
    """Say the strongest in full and the others in short: none hides another."""
    text = " ".join(f"{one.text}." for one in evidence[:NAMED_IN_FULL])
    others = ", ".join(one.brief for one in evidence[NAMED_IN_FULL:])
    text = f"{text} Also: {others}." if others else text
    return Limit(evidence[0].rule, text, evidence, measured, ended)


# ---- data ----


def _data_wait(
    share: float | None,
    workers: int | None,
    use: CpuUse | None,
    gpus: Sequence[Gpu],
    samples: Sequence[Machine],
    ended: bool,
    holds: bool,
) -> Evidence | None:
    """Hold when a good part of the time went by without a batch to work on."""
    if share is None or not reaches(share, WAITED_SHARE, holds):
        return None
    headline = verb(ended, "Waiting for data", "Waited for data")
    # The bar of where the time went has a share of all time.
    recently = f"{100 * share:.0f} % of the last {WINDOW_S:.0f} s"
    figures = [recently]
    gpu_pct = mean_of(gpu.utilization_pct for gpu in gpus)
    if gpu_pct is not None:
        figures.append(f"GPU {gpus[-1].index} busy {gpu_pct:.0f} %")
    io_pct = _disk_wait_pct(samples, holds)
    advised = _against_data_wait(share, workers, use, io_pct, ended)
    brief = f"{100 * share:.0f} % waiting for data"
    return Evidence("data-wait", brief, headline, tuple(figures), advised, share)


def _against_data_wait(
    share: float, workers: int | None, use: CpuUse | None, io_pct: float | None, ended: bool
) -> str:
    """Return what may bring batches sooner, by what the run itself uses while it waits."""
    if io_pct is not None and io_pct >= PRESSURE_PCT:
        return advice.faster_disk(io_pct)
    if use is None or use.own is None:
        return ""
    idle = int(use.free or 0)
    if idle >= 1:
        return advice.more_workers(workers, f"{cores(idle)} idle")
    # What loads the data: its workers, or the training process. Where that is on a CPU, or waits
    # for one, in less than half of the time, it waits for something else, whatever others do.
    loading = max(1, workers or 0)
    wanted = use.own + loading * (use.waited or 0.0)
    if wanted < loading * share / 2 and use.own < use.allowed / 2:
        return advice.more_workers(workers, f"this run {use.own:.1f} of {cores(use.allowed)}")
    if use.wants_more() and use.others is not None and use.others >= 1:
        return advice.fewer_others(use.others, ended)
    if use.own >= BUSY_PCT / 100 * use.allowed:
        return "prepare the data before the run: no core is free to do it during training"
    return ""


# ---- memory and disk ----


def _scarcity(samples: Sequence[Machine], ended: bool, holds: bool) -> Iterator[Evidence]:
    """Yield what holds when memory is short, or the CPU time of a virtual machine."""
    used_mib = mean_of(s.memory.used_mib if s.memory else None for s in samples)
    rss_mib = mean_of(s.process.rss_mib if s.process else None for s in samples)
    advised = advice.against_short_memory(rss_mib, used_mib)
    swap_mib_s = mean_of(s.memory.swap_mib_s if s.memory else None for s in samples)
    faults_s = mean_of(s.process.major_faults_s if s.process else None for s in samples)
    waits = _waits(samples, faults_s, FAULTS_S, holds)
    if waits and swap_mib_s is not None and reaches(swap_mib_s, SWAPPING_MIB_S, holds):
        brief = f"swap {swap_mib_s:.0f} MiB/s"
        yield Evidence("swap", brief, "Too little memory", (brief,), advised)
    waited_pct = mean_of(s.pressure.memory_pct if s.pressure else None for s in samples)
    if waits and waited_pct is not None and reaches(waited_pct, PRESSURE_PCT, holds):
        waited = f"some program waited for it {waited_pct:.0f} % of the time"
        brief = f"memory pressure {waited_pct:.0f} %"
        headline = f"Memory {verb(ended, 'is', 'was')} short"
        yield Evidence("memory-pressure", brief, headline, (waited,), advised)
    steal_pct = mean_of(s.cpu.steal_pct if s.cpu else None for s in samples)
    if steal_pct is not None and reaches(steal_pct, STEAL_PCT, holds):
        brief = f"steal {steal_pct:.0f} %"
        headline = f"The host {verb(ended, 'takes', 'took')} this virtual machine's CPU time"
        yield Evidence("steal", brief, headline, (brief,), "run it later, or elsewhere")


def _io_pressure(samples: Sequence[Machine], ended: bool, holds: bool) -> Evidence | None:
    pct = _disk_wait_pct(samples, holds)
    if pct is None or not reaches(pct, PRESSURE_PCT, holds):
        return None
    waited = f"some program waited for it {pct:.0f} % of the time"
    brief = f"I/O pressure {pct:.0f} %"
    headline = f"The disk {verb(ended, 'is', 'was')} slow to answer"
    return Evidence("io-pressure", brief, headline, (waited,))


def _disk_wait_pct(samples: Sequence[Machine], holds: bool) -> float | None:
    """Return how long some program waited for a disk; None where this run is none of them."""
    read_mib_s = mean_of(s.process.read_mib_s if s.process else None for s in samples)
    if not _waits(samples, read_mib_s, READ_MIB_S, holds):
        return None
    return mean_of(s.pressure.io_pct if s.pressure else None for s in samples)


def _waits(samples: Sequence[Machine], rate: float | None, least: float, holds: bool) -> bool:
    """Whether the run may be one of those that wait for a disk, or for memory from one.

    It is where it reads from a disk at a `rate`, or where its processes were seen to wait; an older
    log tells neither.
    """
    blocked = mean_of(s.process.blocked if s.process else None for s in samples)
    if rate is None and blocked is None:
        return True
    return reaches(rate or 0.0, least, holds) or reaches(blocked or 0.0, BLOCKED, holds)


# ---- when nothing holds ----


def _measured(
    use: CpuUse | None,
    samples: Sequence[Machine],
    gpus: Sequence[Gpu],
    unmeasured: str | None,
    thread_pct: float | None,
) -> tuple[tuple[LimitKind, str], ...]:
    figures: list[tuple[LimitKind, str]] = []
    if use is not None and use.own is not None:
        of_which = cores(use.cores)
        if use.allowed < use.cores:
            of_which = f"the {cores(use.allowed)} that it may use"
        figures.append((LimitKind.CPU, f"this run {use.own:.1f} of {of_which}"))
    if use is not None and use.others is not None:
        figures.append((LimitKind.CPU, f"other programs {cores(round(use.others, 1))}"))
        if use.waited is not None and (use.free or 0) < IDLE_CORES:
            waited = f"waited for a CPU {100 * use.waited:.0f} % of the time"
            figures.append((LimitKind.CPU, waited))
    else:
        cpu_pct = mean_of(s.cpu.pct if s.cpu else None for s in samples)
        figures += [] if cpu_pct is None else [(LimitKind.CPU, f"CPU {cpu_pct:.0f} %")]
    if unmeasured is not None:
        figures.append((LimitKind.DATA, unmeasured))
    gpu_pct = mean_of(gpu.utilization_pct for gpu in gpus)
    if gpu_pct is not None:
        figures.append((LimitKind.GPU, f"GPU {gpus[-1].index} {gpu_pct:.0f} %"))
    if thread_pct is not None:
        figures.append((LimitKind.CPU, f"busiest thread {thread_pct:.0f} % of a core"))
    return tuple(figures)
