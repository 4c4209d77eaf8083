"""Say what limits a run, with the figures that show it.

Pure. Every rule looks at the samples of the last half minute of steady training, and
before there are any, a few look at those of the start. Each states what was measured,
no cause that wasn't: on TensorFlow the wait for input happens inside the training
function and can't be seen. Other programs are named only where the run itself wants
the CPU. All rules that hold are kept, and the sentence names the two strongest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dlmon.comparison.conditions import cores
from dlmon.records import Gpu, Machine, MachineFacts
from dlmon.session.limits import advice
from dlmon.session.limits.cpu import (
    IDLE_CORES,
    CpuUse,
    all_cores_busy,
    busiest_thread_pct,
    count_of,
    cpu_use,
    mostly_idle,
    other_programs,
    own_cpus,
    own_threads,
    quota,
)
from dlmon.session.limits.evidence import (
    MIN_SAMPLES,
    NAMED_IN_FULL,
    Evidence,
    Limit,
    LimitKind,
    mean_of,
    verb,
)
from dlmon.session.limits.gpu import (
    BUSY_PCT,
    WAITED_SHARE,
    gpu_lost,
    gpu_shared,
    gpu_works,
    one_thread,
)
from dlmon.session.slow_readings import settled_after_ns

WINDOW_S = 30.0
SWAPPING_MIB_S = 1.0
STEAL_PCT = 5.0
PRESSURE_PCT = 10.0


def window_s(interval_s: float) -> float:
    """Return how many seconds of samples to look at, by how far apart they are."""
    # The first may lie just outside, and what the slow readings leave out comes on top.
    unsettled_s = settled_after_ns(int(interval_s * 1e9)) / 1e9
    return max(WINDOW_S, unsettled_s + (MIN_SAMPLES + 1) * interval_s)


def find_limit(
    samples: Sequence[Machine],
    facts: MachineFacts,
    gpu_index: int | None,
    cpus: object = None,
    threads: object = None,
    waited_share: float | None = None,
    workers: int | None = None,
    unmeasured: str | None = None,
    ended: bool = False,
    on_cpu: bool = False,
    loss: Evidence | None = None,
    latest: Machine | None = None,
    interval_s: float = 1.0,
) -> Limit | None:
    """Return what limits the run, None before there are samples enough to say.

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
        loss: that its loss is no number, which comes before all that makes it slow.
        latest: the newest sample, which may be of what follows steady training.
        interval_s: how far apart samples are taken.
    """
    if len(samples) < MIN_SAMPLES:
        return None if loss is None else Limit(loss.rule, f"{loss.text}.", (loss,), (), ended)
    gpus = [gpu for sample in samples for gpu in sample.gpus or () if gpu.index == gpu_index]
    lost = gpu_lost(samples, latest or samples[-1], gpu_index, ended)
    if lost is not None:
        # What it did before says nothing of what limits the run now.
        gpus = []
    use = cpu_use(samples, facts, count_of(cpus), interval_s)
    thread_pct = busiest_thread_pct(samples, interval_s)
    # What is used up comes first, then what was taken away, then what may be a sign of either.
    of_gpu = next((one for one in facts.gpus or () if one.index == gpu_index), None)
    found = (
        loss,
        lost,
        _data_wait(waited_share, workers, use, gpus, samples, ended),
        gpu_works(gpus, of_gpu, ended),
        quota(samples, facts, ended),
        other_programs(use, samples, ended),
        own_cpus(use, facts, samples if on_cpu else (), ended),
        own_threads(use, count_of(threads), ended),
        all_cores_busy(use, samples, ended),
        *_scarcity(samples, ended),
        one_thread(thread_pct, gpus, of_gpu, waited_share, ended),
        _io_pressure(samples, ended),
        gpu_shared(samples, gpu_index, ended) if lost is None else None,
    )
    evidence = tuple(one for one in found if one is not None)
    if not evidence and (idle := mostly_idle(use, gpus, on_cpu, unmeasured, ended)) is not None:
        evidence = (idle,)
    is_clear = any(one.rule not in ("idle", "gpu-lost", "loss") for one in evidence)
    measured = _measured(use, samples, gpus, None if is_clear else unmeasured, thread_pct)
    if not evidence:
        listed = ", ".join(text for _, text in measured) or "nothing is measured"
        return Limit("not-clear", f"Not clear: {listed}.", measured=measured, ended=ended)
    return _limit_of(evidence, measured, ended)


def find_limit_before_training(
    samples: Sequence[Machine], facts: MachineFacts, cpus: object = None, interval_s: float = 1.0
) -> Limit | None:
    """Return what holds up a run that doesn't train steadily yet.

    None for nothing, and before there are samples enough to say. That the run itself keeps the
    CPUs busy as it starts is no sign of what will limit it. The arguments are those of
    `find_limit`.
    """
    if len(samples) < MIN_SAMPLES:
        return None
    use = cpu_use(samples, facts, count_of(cpus), interval_s)
    found = (
        quota(samples, facts, ended=False),
        other_programs(use, samples, ended=False),
        *_scarcity(samples, ended=False),
    )
    evidence = tuple(one for one in found if one is not None)
    if not evidence:
        return None
    return _limit_of(evidence, _measured(use, samples, (), None, None), ended=False)


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
) -> Evidence | None:
    """Hold when a good part of the time went by without a batch to work on."""
    if share is None or share < WAITED_SHARE:
        return None
    headline = verb(ended, "Waiting for data", "Waited for data")
    text = f"{headline}: {100 * share:.0f} % of the time in the loader"
    figures = [f"{100 * share:.0f} % of the time in the loader"]
    gpu_pct = mean_of(gpu.utilization_pct for gpu in gpus)
    if gpu_pct is not None:
        text += f", GPU {gpus[-1].index} busy {gpu_pct:.0f} %"
        figures.append(f"GPU {gpus[-1].index} busy {gpu_pct:.0f} %")
    io_pct = mean_of(s.pressure.io_pct if s.pressure else None for s in samples)
    advised = _against_data_wait(share, workers, use, io_pct, ended)
    brief = f"{100 * share:.0f} % waiting for data"
    return Evidence("data-wait", text, brief, headline, tuple(figures), advised)


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
    if use.wants_more and use.others is not None and use.others >= 1:
        return advice.fewer_others(use.others, ended)
    if use.own >= BUSY_PCT / 100 * use.allowed:
        return "prepare the data before the run: no core is free to do it meanwhile"
    return ""


# ---- memory and disk ----


def _scarcity(samples: Sequence[Machine], ended: bool) -> Iterator[Evidence]:
    """Yield what holds when memory is short, or the CPU time of a virtual machine."""
    used_mib = mean_of(s.memory.used_mib if s.memory else None for s in samples)
    rss_mib = mean_of(s.process.rss_mib if s.process else None for s in samples)
    advised = advice.against_short_memory(rss_mib, used_mib)
    swap_mib_s = mean_of(s.memory.swap_mib_s if s.memory else None for s in samples)
    if swap_mib_s is not None and swap_mib_s >= SWAPPING_MIB_S:
        text = f"Memory: {swap_mib_s:.0f} MiB/s {verb(ended, 'go', 'went')} to and from swap"
        brief = f"swap {swap_mib_s:.0f} MiB/s"
        yield Evidence("swap", text, brief, "Too little memory", (brief,), advised)
    waited_pct = mean_of(s.pressure.memory_pct if s.pressure else None for s in samples)
    if waited_pct is not None and waited_pct >= PRESSURE_PCT:
        waited = f"some program waited for it {waited_pct:.0f} % of the time"
        brief = f"memory pressure {waited_pct:.0f} %"
        headline = f"Memory {verb(ended, 'is', 'was')} short"
        yield Evidence("memory-pressure", f"Memory: {waited}", brief, headline, (waited,), advised)
    steal_pct = mean_of(s.cpu.steal_pct if s.cpu else None for s in samples)
    if steal_pct is not None and steal_pct >= STEAL_PCT:
        text = f"The host of this virtual machine took {steal_pct:.0f} % of its CPU time (steal)"
        brief = f"steal {steal_pct:.0f} %"
        headline = f"The host {verb(ended, 'takes', 'took')} this virtual machine's CPU time"
        yield Evidence("steal", text, brief, headline, (brief,), "run it later, or elsewhere")


def _io_pressure(samples: Sequence[Machine], ended: bool) -> Evidence | None:
    pct = mean_of(s.pressure.io_pct if s.pressure else None for s in samples)
    if pct is None or pct < PRESSURE_PCT:
        return None
    waited = f"some program waited for it {pct:.0f} % of the time"
    brief = f"I/O pressure {pct:.0f} %"
    headline = f"The disk {verb(ended, 'is', 'was')} slow to answer"
    return Evidence("io-pressure", f"Disk: {waited}", brief, headline, (waited,))


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
        figures.append((LimitKind.CPU, f"everything else {use.others:.1f}"))
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
