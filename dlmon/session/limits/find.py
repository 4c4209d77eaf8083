"""Find the limit of a run, with the figures that show it and advice that they support.

Every rule judges the samples of the last half minute of steady training; before that, a few
rules judge the samples of the start. A rule states what was measured, never a cause that wasn't:
on TensorFlow, the wait for input happens inside the training function and can't be seen. Other
programs are named only if the run itself wants the CPU. A limit has the evidence of all rules that
hold, and its sentence names the two strongest.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import dropwhile, islice
from typing import Any, NamedTuple

from dlmon.comparison.conditions import cores
from dlmon.records import NOT_NUMBERS, TITLES, Epoch, Machine
from dlmon.records.sanitize import clean
from dlmon.session.learning import LOSS, Metric, metric_of
from dlmon.session.limits.evidence import (
    FORWARD,
    IDLE,
    KINDS,
    NETWORK,
    OWN_CODE,
    TIE,
    Evidence,
    Limit,
    LimitKind,
)
from dlmon.session.limits.rules import (
    LEAST_STEPS,
    WAITED_SHARE,
    all_cores_busy,
    allocator_frees,
    collectives,
    copy_share,
    gpu_shared,
    gpu_works,
    mostly_idle,
    network,
    no_part_leads,
    one_core,
    one_thread_of_the_cpu,
    optimizer_share,
    other_programs,
    own_code,
    own_cpus,
    own_threads,
    part_text,
    quota,
    stop_other_programs,
)
from dlmon.session.limits.run_samples import (
    BUSY_PCT,
    IDLE_CORES,
    MIN_SAMPLES,
    RunSamples,
    settled_after_ns,
)
from dlmon.session.limits.time_parts import NO_TIME, TimeShares

WINDOW_S = 30.0
SWAPPING_MIB_S = 1.0
STEAL_PCT = 5.0
PRESSURE_PCT = 10.0
# A run with this disk read rate, major fault rate, or number of blocked processes may be among the
# programs that wait for a disk, or for memory.
READ_MIB_S, FAULTS_S, BLOCKED = 0.1, 1.0, 0.1
# Another rule leads once its share of the time is larger than the leader's by this much.
_LEADS_BY = 0.05
_ORDER = list(KINDS)
# The limits that explain why forward and backward take long.
_NETWORK = (NETWORK, FORWARD)
_NETWORK_REASONS = (LimitKind.GPU, LimitKind.CPU)
_OTHER_NETWORK_REASONS = ("other-programs", "swap", "memory-pressure")
_CHECKS_PER_WINDOW = 6
"""The number of times that the rules are checked while one window of samples passes."""
_NEWEST_CHECKS = 12
"""The limit of a run follows from this many of the newest checks."""
_SETTLED_NS = 2_000_000_000
"""The longest delay between a sample and the records of the batches of its time."""
_MAX_SAMPLES = 2000


def window_s(interval_s: float) -> float:
    """Return the length of a window of samples, in seconds, for a sampling interval."""
    # The first sample may lie just outside, and the slow readings need extra time to settle.
    unsettled_s = settled_after_ns(int(interval_s * 1e9)) / 1e9
    return max(WINDOW_S, unsettled_s + (MIN_SAMPLES + 1) * interval_s)


def history_s(interval_s: float) -> float:
    """Return the age, in seconds, of the oldest sample that the current limit follows from."""
    window = window_s(interval_s)
    return window + (_NEWEST_CHECKS + 1) * window / _CHECKS_PER_WINDOW + _SETTLED_NS / 1e9


class RuleCheck(NamedTuple):
    """The findings of the rules for one window of samples.

    Attributes:
        clear: evidence of the rules that hold.
        nearly: evidence of the rules that at least nearly hold, which is enough for a rule that
            held before.
        measured: the measured figures, whatever holds.
    """

    clear: tuple[Evidence, ...]
    nearly: tuple[Evidence, ...]
    measured: tuple[tuple[LimitKind, str], ...]

    def with_evidence(self, evidence: Sequence[Evidence]) -> RuleCheck:
        """Return this check with evidence of rules that it doesn't have."""
        rules = {item.rule for item in self.nearly}
        more = tuple(item for item in evidence if item.rule not in rules)
        return self._replace(clear=(*self.clear, *more), nearly=(*self.nearly, *more))


Rule = Callable[[RunSamples], Evidence | None]


def check_rules(run: RunSamples, rules: Sequence[Rule] = ()) -> RuleCheck:
    """Return the findings of `rules`, or of those for steady training if there are none."""
    training = not rules
    rules = rules or _rules_of_training(run)
    clear, nearly = (
        tuple(filter(None, (rule(samples) for rule in rules)))
        for samples in (run, run.lenient_copy)
    )
    is_explained = training and any(evidence.rule != IDLE for evidence in clear)
    return RuleCheck(clear, nearly, _measured(run, is_explained))


def _rules_of_training(run: RunSamples) -> Sequence[Rule]:
    """Return the rules for steady training."""
    return (
        *(_data_wait, gpu_works, quota, other_programs, own_cpus, own_threads, all_cores_busy),
        *(_swapping, _memory_pressure, _steal),
        one_thread_of_the_cpu if run.on_cpu else one_core,
        *(optimizer_share, copy_share, _io_pressure, gpu_shared, allocator_frees, mostly_idle),
        *(collectives, own_code, network, no_part_leads),
    )


def limit_of(
    checks: Sequence[RuleCheck],
    is_over: bool,
    first: Sequence[Evidence | None] = (),
    ranks: Evidence | None = None,
    time: TimeShares = NO_TIME,
) -> Limit | None:
    """Return the limit of a run by several checks of its rules.

    A rule that once held counts until two checks in a row find that it doesn't even nearly hold.
    The part of a step or of the time that took the largest share leads, until another one takes
    clearly more. If the network would lead, the rule that explains its time leads instead.

    Args:
        checks: the checks, oldest first; empty if there were too few samples.
        is_over: the run is over.
        first: evidence that comes before that of the rules.
        ranks: evidence that other ranks wait for one.
        time: the shares of the parts of the time.
    """
    before = tuple(evidence for evidence in first if evidence is not None)
    if not checks and not before and ranks is None and not time.evidence:
        return None
    held: dict[str, Evidence] = {}
    missing: frozenset[str] = frozenset()
    leader = ""
    for check in checks:
        held, missing = _held_after(check, held, missing)
        leader = _leader(held, leader)
    held = {evidence.rule: evidence for evidence in held.values()}
    if leader == "cpu" and "cpu-quota" in held:
        # It uses all that it may, because a container's limit is low.
        leader = "cpu-quota"
    share = held[leader].share if leader in held else None
    for rule in (OWN_CODE, *_NETWORK) if leader == TIE else (TIE,):
        held.pop(rule, None)
    if before or any(KINDS[rule].kind is not LimitKind.STEP for rule in held.keys() - {IDLE}):
        # That a run is idle is evidence only if nothing else explains it.
        held.pop(IDLE, None)
    reasons = [
        rule
        for rule in held
        if KINDS[rule].kind in _NETWORK_REASONS or rule in _OTHER_NETWORK_REASONS
    ]
    if leader in _NETWORK:
        reasons = [rule for rule in reasons if _explains_network(rule, checks)]
        leader = min(reasons, key=_ORDER.index, default=leader)
    if reasons:
        held = {rule: evidence for rule, evidence in held.items() if rule not in _NETWORK}
    evidence = sorted(
        (_with_steady_advice(evidence, checks) for evidence in held.values()),
        key=lambda evidence: (evidence.rule != leader, _ORDER.index(evidence.rule)),
    )
    largest = max(time.evidence, key=lambda part: part.share or 0.0, default=None)
    # The steps of the others hold the wait for a rank as well, most of it in backward.
    least_shares = (share or 0.0) / 2, time.of_steps * (1.0 if share is None else share) + _LEADS_BY
    for item, least in zip((ranks, largest), least_shares, strict=True):
        leads = item is not None and (item.share or 0.0) >= least
        leads = leads and not (item and evidence and _explains_pauses(evidence[0], item))
        if item is not None and (leads or evidence):
            evidence.insert(0 if leads else 1, item)
    return Limit((*before, *evidence), checks[-1].measured if checks else (), is_over)


def _explains_pauses(evidence: Evidence, pauses: Evidence) -> bool:
    """Return whether a wait for a CPU, which is of all the time, is half of the pauses or more."""
    waits_for_cpu = evidence.rule in ("other-programs", "cpu-quota")
    return (
        waits_for_cpu
        and pauses.rule == "pauses"
        and (evidence.share or 0.0) >= (pauses.share or 0.0) / 2
    )


def _explains_network(rule: str, checks: Sequence[RuleCheck]) -> bool:
    """Return whether a rule explains half of the time of forward and backward over all checks.

    One of which no share is known explains all of it in the checks in which it holds.
    """
    network = explained = 0.0
    if len(checks) < _NEWEST_CHECKS:
        # At first, a rule may lack readings.
        checks = list(dropwhile(lambda check: rule not in {e.rule for e in check.nearly}, checks))
    for check in checks:
        held = {evidence.rule: evidence for evidence in check.nearly}
        share = next((held[name].share or 0.0 for name in _NETWORK if name in held), 0.0)
        network += share
        if rule in held:
            own = held[rule].share
            explained += share if own is None else own
    return explained >= network / 2


def _with_steady_advice(evidence: Evidence, checks: Sequence[RuleCheck]) -> Evidence:
    """Replace the advice of some evidence by the most frequent one, with its newest figures."""
    advice = [
        earlier.advice
        for check in checks
        # The advice of a rule that holds comes before that of one that nearly holds.
        for earlier in {e.rule: e for e in (*check.nearly, *check.clear)}.values()
        if earlier.rule == evidence.rule
    ]
    kinds = Counter(text.partition(":")[0] for text in advice)
    if not kinds:
        return evidence
    most = max(kinds, key=lambda kind: kinds[kind])
    newest = next(text for text in reversed(advice) if text.partition(":")[0] == most)
    return replace(evidence, advice=newest)


def _held_after(
    check: RuleCheck, held: Mapping[str, Evidence], missing: frozenset[str]
) -> tuple[dict[str, Evidence], frozenset[str]]:
    """Return the evidence that holds after one more check, by topic, and the topics missing in it.

    Args:
        check: the check.
        held: the evidence that held before it.
        missing: the topics of `held` that were missing in the check before.
    """
    clear = {_topic(evidence): evidence for evidence in check.clear}
    nearly = {_topic(evidence): evidence for evidence in check.nearly}
    still: dict[str, Evidence] = {}
    for topic, evidence in held.items():
        near = nearly.get(topic)
        if near is not None and near.rule == evidence.rule:
            still[topic] = near
        elif topic in clear or near is not None:
            still[topic] = clear.get(topic) or nearly[topic]
        elif topic not in missing:
            still[topic] = evidence
    return {**clear, **still}, frozenset(still.keys() - nearly.keys() - clear.keys())


def _topic(evidence: Evidence) -> str:
    """Return the topic of a rule: of rules that share one, only one can hold."""
    if evidence.rule in _NETWORK:
        return NETWORK
    return "gpu" if KINDS[evidence.rule].kind is LimitKind.GPU else evidence.rule


def _leader(held: Mapping[str, Evidence], leader: str) -> str:
    """Return the rule that took the largest share of the time; "" if no share is known."""
    shares = {
        evidence.rule: evidence.share for evidence in held.values() if evidence.share is not None
    }
    if not shares:
        return ""
    if leader not in shares:
        # A tie is only told if nothing led before it.
        leader = min(shares, key=_ORDER.index)
    largest = max(shares, key=lambda rule: shares[rule])
    return largest if shares[largest] > shares[leader] + _LEADS_BY else leader


class RuleChecks:
    """The newest samples, and checks of the rules every few seconds of the session's clock.

    All viewers of a session check the rules at the same moments, whenever they started, so they
    show the same limit.
    """

    def __init__(self, start_ns: int, interval_s: float) -> None:
        self._start_ns = start_ns
        self._window_ns = int(window_s(interval_s) * 1e9)
        self._every_ns = self._window_ns // _CHECKS_PER_WINDOW
        self._history_ns = int(history_s(interval_s) * 1e9)
        self._samples: deque[Machine] = deque(maxlen=_MAX_SAMPLES)
        self._checks: dict[int, RuleCheck | None] = {}
        self._inputs: Any = None
        interval_ns = int(interval_s * 1e9)
        self._settled_ns = settled_after_ns(interval_ns) + MIN_SAMPLES * interval_ns
        self._first_ns: int | None = None
        self.newest_at_ns: int | None = None
        """The moment of the newest check."""

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the samples: a reader that resumes from an index reads them again."""
        samples = deque[Machine](maxlen=_MAX_SAMPLES)
        return vars(self) | {"_samples": samples, "_checks": {}, "_inputs": None}

    def add(self, sample: Machine) -> None:
        self._samples.append(sample)
        self._first_ns = self._first_ns or sample.t
        while self._samples[0].t < sample.t - self._history_ns:
            self._samples.popleft()

    @property
    def newest(self) -> tuple[Machine, ...]:
        """The newest window of samples."""
        return self._window_before(self._samples[-1].t) if self._samples else ()

    @property
    def are_enough(self) -> bool:
        """True if there are enough samples to check the rules."""
        return len(self._samples) >= MIN_SAMPLES

    @property
    def are_settled(self) -> bool:
        """True if the newest check has slow readings that cover nothing before the first sample."""
        newest_ns, first_ns = self.newest_at_ns, self._first_ns
        return bool(newest_ns and first_ns and newest_ns - first_ns >= self._settled_ns)

    def newest_checks(
        self, inputs: Any, check: Callable[[tuple[Machine, ...], int], RuleCheck]
    ) -> tuple[RuleCheck, ...]:
        """Return the newest checks, oldest first; empty if there are too few samples.

        Args:
            inputs: all else that the checks depend on; if it changes, all checks are made again.
            check: checks the rules for samples that end at a moment.
        """
        if not self.are_enough:
            return ()
        if inputs != self._inputs:
            self._inputs, self._checks = inputs, {}
        newest_ns = self._samples[-1].t
        last = (newest_ns - _SETTLED_NS - self._start_ns) // self._every_ns
        checks = {}
        for number in range(last - _NEWEST_CHECKS + 1, last + 1):
            if number not in self._checks:
                at_ns = self._start_ns + number * self._every_ns
                samples = self._window_before(at_ns)
                few = len(samples) < MIN_SAMPLES
                self._checks[number] = None if few else check(samples, at_ns)
            checks[number] = self._checks[number]
        self._checks = checks
        self.newest_at_ns = self._start_ns + last * self._every_ns
        if any(checks.values()):
            return tuple(filter(None, checks.values()))
        # Before the first of these moments, check the first samples.
        first = tuple(islice(self._samples, MIN_SAMPLES))
        self.newest_at_ns = first[-1].t + _SETTLED_NS
        return (check(first, self.newest_at_ns),)

    def _window_before(self, at_ns: int) -> tuple[Machine, ...]:
        first_ns = at_ns - self._window_ns
        return tuple(sample for sample in self._samples if first_ns <= sample.t <= at_ns)


# ---- data ----


def _data_wait(run: RunSamples) -> Evidence | None:
    """Return evidence if the run waited for data in a good part of the time."""
    share, parts = run.waited_share, run.parts
    if share is None or not run.reaches(share, WAITED_SHARE):
        return None
    if parts is not None and parts.steps < LEAST_STEPS:
        # The other parts, which may be larger, are known soon.
        return None
    reasons = [f"waiting for the next batch in {run.waited_window}"]
    if run.parts is not None and run.parts.wait_us is not None:
        reasons = [f"{part_text(run.parts, 'wait_us')} waiting for the next batch"]
    if run.gpu_pct is not None:
        reasons.append(f"{run.gpu_name} busy {run.gpu_pct:.0f} %")
    advice = _data_wait_advice(run, share)
    return Evidence("data-wait", f"{100 * share:.0f} %", tuple(reasons), advice, share)


def _data_wait_advice(run: RunSamples, share: float) -> str:
    """Return advice against waiting for data, by the CPUs that the run uses while it waits."""
    use, workers, io_pct = run.cpu_use, run.workers, _disk_wait_pct(run)
    if io_pct is not None and io_pct >= PRESSURE_PCT:
        waited = f"some program waited for a disk {io_pct:.0f} % of the time"
        return f"keep the data in memory or on a faster disk: {waited}"
    if use is None or use.run_cores is None:
        return ""
    idle = int(use.free_cores or 0)
    if idle >= 1:
        return _more_workers(workers, f"{cores(idle)} idle")
    # The data is loaded by workers, or by the training process. If these compute, or wait for a
    # CPU, in less than half of the time, they wait for something else, whatever others do.
    loading = max(1, workers or 0)
    wanted = use.run_cores + loading * (use.waited_share or 0.0)
    if wanted < loading * share / 2 and use.run_cores < use.allowed_cores / 2:
        return _more_workers(workers, f"this run {use.run_cores:.1f} of {cores(use.allowed_cores)}")
    if run.wants_cpu and use.other_cores is not None and use.other_cores >= 1:
        return stop_other_programs(run, use.other_cores)
    if use.run_cores >= BUSY_PCT / 100 * use.allowed_cores:
        return "prepare the data before the run: no core is free to do it during training"
    return ""


def _more_workers(workers: int | None, figure: str) -> str:
    """Return the advice to use more loader workers, with the figure that supports it."""
    if workers is None:
        return ""
    if workers == 0:
        return f"load the data in worker processes: num_workers is 0; try 2 ({figure})"
    return f"use more loader workers: {workers} used, {figure}"


def unmeasured_wait(backend: str | None) -> str:
    """Return a clause that the wait for data is not measured, with the backend of Keras."""
    with_backend = f" with Keras on {TITLES.get(backend, backend)}" if backend else ""
    return f"waiting for data is not measured{with_backend}"


# ---- memory and disk ----


def _swapping(run: RunSamples) -> Evidence | None:
    """Return evidence if the machine swaps and the run waits for its memory."""
    mib_s = run.mean(lambda s: s.memory.swap_mib_s if s.memory else None)
    if mib_s is None or not run.reaches(mib_s, SWAPPING_MIB_S) or not _waits_for_memory(run):
        return None
    return Evidence("swap", f"{mib_s:.0f} MiB/s", ("too little memory",), _short_memory_advice(run))


def _memory_pressure(run: RunSamples) -> Evidence | None:
    """Return evidence if programs wait for memory, and the run may be one of them."""
    pct = run.mean(lambda s: s.pressure.memory_pct if s.pressure else None)
    if pct is None or not run.reaches(pct, PRESSURE_PCT) or not _waits_for_memory(run):
        return None
    reason = f"some program waited for memory {pct:.0f} % of the time"
    return Evidence("memory-pressure", "", (reason,), _short_memory_advice(run))


def _waits_for_memory(run: RunSamples) -> bool:
    faults_s = run.mean(lambda s: s.process.major_faults_s if s.process else None)
    return _waits(run, faults_s, FAULTS_S)


def _short_memory_advice(run: RunSamples) -> str:
    """Return the advice to free memory: of the run if it holds most, else of other programs."""
    used_mib = run.mean(lambda s: s.memory.used_mib if s.memory else None)
    rss_mib = run.mean(lambda s: s.process.rss_mib if s.process else None)
    if rss_mib is None or not used_mib:
        return ""
    held = f"{rss_mib / 1024:.1f} of {used_mib / 1024:.1f} GiB in use"
    if rss_mib >= used_mib / 2:
        return f"make this run use less memory: {held}"
    return f"end programs that hold memory: this run {held}"


def _steal(run: RunSamples) -> Evidence | None:
    """Return evidence if the host takes CPU time of this virtual machine."""
    pct = run.mean(lambda s: s.cpu.steal_pct if s.cpu else None)
    if pct is None or not run.reaches(pct, STEAL_PCT) or mostly_idle(run) is not None:
        return None
    takes = run.verb("takes", "took")
    reason = f"the host {takes} this virtual machine's CPU time"
    return Evidence("steal", f"{pct:.0f} %", (reason,), "run it later, or elsewhere")


def _io_pressure(run: RunSamples) -> Evidence | None:
    pct = _disk_wait_pct(run)
    if pct is None or not run.reaches(pct, PRESSURE_PCT):
        return None
    return Evidence("io-pressure", "", (f"some program waited for a disk {pct:.0f} % of the time",))


def _disk_wait_pct(run: RunSamples) -> float | None:
    """Return how much of the time some program waited for a disk; None if this run didn't."""
    read_mib_s = run.mean(lambda s: s.process.read_mib_s if s.process else None)
    if not _waits(run, read_mib_s, READ_MIB_S):
        return None
    return run.mean(lambda s: s.pressure.io_pct if s.pressure else None)


def _waits(run: RunSamples, rate: float | None, least: float) -> bool:
    """Return whether the run may be among the programs that wait for a disk, or for memory.

    It may if its rate of reads or faults is at least `least`, or its processes were blocked; an old
    log has neither reading.
    """
    blocked = run.mean(lambda s: s.process.blocked if s.process else None)
    if rate is None and blocked is None:
        return True
    return run.reaches(rate or 0.0, least) or run.reaches(blocked or 0.0, BLOCKED)


# ---- measured figures ----


def _measured(run: RunSamples, is_explained: bool = False) -> tuple[tuple[LimitKind, str], ...]:
    figures: list[tuple[LimitKind, str]] = []
    use = run.cpu_use
    if use is not None and use.run_cores is not None:
        figures.append((LimitKind.CPU, use.run_text))
    if use is not None and use.idle_cores is not None and (use.free_cores or 0) > 1:
        figures.append((LimitKind.CPU, f"{cores(round(use.idle_cores, 1))} idle"))
    if use is not None and use.other_cores is not None:
        figures.append((LimitKind.CPU, f"other programs {cores(round(use.other_cores, 1))}"))
        if use.waited_share is not None and (use.free_cores or 0) < IDLE_CORES:
            waited = f"waited for a CPU {100 * use.waited_share:.0f} % of the time"
            figures.append((LimitKind.CPU, waited))
    else:
        cpu_pct = run.mean(lambda s: s.cpu.pct if s.cpu else None)
        figures += [] if cpu_pct is None else [(LimitKind.CPU, f"CPU {cpu_pct:.0f} %")]
    if run.thread_pct is not None:
        figures.append((LimitKind.CPU, f"busiest thread {run.thread_pct:.0f} % of a core"))
    if run.unmeasured is not None and not is_explained:
        figures.append((LimitKind.DATA, run.unmeasured))
    if run.gpu_pct is not None:
        figures.append((LimitKind.GPU, f"{run.gpu_name} {run.gpu_pct:.0f} %"))
    elif why := next((gpu.why.get("utilization_pct") for gpu in run.gpus), None):
        # That nothing is known of the GPU says most about why nothing is clear.
        figures.insert(0, (LimitKind.GPU, f"utilisation of {run.gpu_name} not read: {clean(why)}"))
    return tuple(figures)


# The rules that apply before steady training.
RULES_OF_THE_START = (quota, other_programs, _swapping, _memory_pressure, _steal)


# float16 overflows above 65,504; float32 and bfloat16 do not.
_OVERFLOW = ("float16", "mixed_float16")


def loss_is_no_number(
    metrics: Mapping[str, Metric],
    epochs: Sequence[Epoch],
    epoch_now: int | None,
    precision: str | None,
    is_script: bool,
    is_over: bool,
    since: tuple[int, int] | None = None,
) -> Evidence | None:
    """Return evidence if the newest training loss is NaN or infinite.

    Args:
        metrics: the metrics of the training, by name.
        epochs: the epochs that ended.
        epoch_now: the current epoch, from 0; None if the loop has no epochs.
        precision: the numeric precision of the training.
        is_script: it is the user's own script, whose training can be changed.
        is_over: the run is over, so texts are in the past tense.
        since: the epoch and the step at its first reading; None if no reading has a step.
    """
    loss = metrics.get(LOSS)
    if loss is None or loss.newest is not None or loss.why not in NOT_NUMBERS:
        return None
    first = _first_epoch(loss, epochs, epoch_now)
    places = [] if first is None else [f"epoch {first + 1:,}"]
    if since is not None and first == (None if epoch_now is None else since[0]):
        # A loss is read at most once a second.
        places.insert(0, f"about step {max(1, since[1]):,}")
    from_there = f" from {' of '.join(places)} on" if places else ""
    reason = f"the loss {'was' if is_over else 'is'} {loss.why}{from_there}"
    rule = "loss" if loss.why == "NaN" else "loss-infinite"
    last = loss.series.newest
    reasons = (reason, *([] if last is None else [f"{last:.4g} before"]))
    return Evidence(rule, "", reasons, _loss_advice(precision, is_script, is_over))


def _first_epoch(loss: Metric, epochs: Sequence[Epoch], epoch_now: int | None) -> int | None:
    """Return the first epoch of those whose loss is no number; None if unknown."""
    first = None
    if not epochs or loss.last_ns > epochs[-1].end:
        first = epoch_now
    for epoch in reversed(epochs):
        are_bad = [
            value is None and epoch.why.get(name) in NOT_NUMBERS
            for name, value in epoch.metrics.items()
            if metric_of(name) == (LOSS, False)
        ]
        if not are_bad:
            # The unknown loss of this epoch may have been as bad.
            return None
        if not all(are_bad):
            return first
        first = epoch.epoch
    return first


def _loss_advice(precision: str | None, is_script: bool, is_over: bool) -> str:
    """Return advice against a bad loss; the learning rate of dlmon's own workloads is fixed."""
    overflows = precision in _OVERFLOW
    if not is_script:
        changes = "train in float32" if overflows else ""
    else:
        changes = f"{'float32, ' if overflows else ''}a lower learning rate or gradient clipping"
    if is_over:
        return changes
    stop = "stop it (s, dlmon stop)"
    return f"{stop}: then {changes}" if changes else stop
