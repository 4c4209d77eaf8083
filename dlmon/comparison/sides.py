"""Put two sides of runs beside each other: what each took, how sure the difference is. Pure.

A side is one run or several. Unlike runs don't compare: `SidesComparison.unlike` says what
differs in their work. What differs in how they computed is what a person compares: it is named.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

from dlmon.comparison.arguments import NOT_GIVEN, arguments_of
from dlmon.comparison.compared_run import (
    BACKEND,
    RunFigures,
    lower_is_better,
    options_with_effect,
)
from dlmon.quantities import BY_KEY, OTHER_CORES, QUANTITIES, SAMPLES_PER_SECOND, Quantity
from dlmon.records import Status, TimePart
from dlmon.records.record import record
from dlmon.records.sanitize import SHOWN_LENGTH, clean
from dlmon.statistics.ratios import (
    Claim,
    Ratio,
    geometric_mean,
    ratio_of,
    run_spread,
)

THROUGHPUT = SAMPLES_PER_SECOND
ACCOUNT = "account."
"""What the name of a part of the account begins with."""
METRIC = "metric."
"""What the name of a metric's last value begins with."""
# Of a run without it, it may not have been measured.
_DATA_WAIT = f"{ACCOUNT}{TimePart.DATA_WAIT}"
# However many batches follow, these take as long.
_ONCE = frozenset(
    f"{ACCOUNT}{part}"
    for part in (
        TimePart.STARTUP,
        TimePart.LOADING,
        TimePart.BUILDING,
        TimePart.COMPILING,
        TimePart.EVALUATION,
    )
)

FIGURES = tuple(quantity.key for quantity in QUANTITIES if quantity.is_compared)
"""What is compared, in this order. Metrics and the parts of the account follow."""

NOTICEABLE_CORES = 0.5
NOTICEABLE_DISAGREEMENT = 0.01
_SHOWN_DIGITS = 12
_LONGEST_LIST = 4
_LONGEST_ERROR = 160


def quantity_of(key: str) -> Quantity:
    """Return the quantity that a figure is of: one of the table, a part of the account, a metric.

    What each of these is called depends on the runs.
    """
    if key.startswith(ACCOUNT):
        return Quantity(key, unit="s", per="" if key in _ONCE else "run")
    if key.startswith(METRIC):
        name = key.removeprefix(METRIC)
        return Quantity(
            key, name, less_is_better=lower_is_better(name), per="run", number_format="metric"
        )
    return BY_KEY[key]


@record(frozen=True)
class SidesFigure:
    """One figure of both sides.

    Attributes:
        base, new: the geometric mean of each side; None where no run has it, or its runs have it
            in different units.
        ratio: new over base; None where it can't be compared.
        runs: how many runs of each side have it.
        why: why it isn't compared though both sides have it.
    """

    name: str
    base: float | None
    new: float | None
    ratio: Ratio | None
    runs: tuple[int, int]
    why: str | None = None

    @property
    def is_better(self) -> bool | None:
        """Whether new is the better side; None where that is unclear, or neither would be."""
        claim = Claim.UNKNOWN if self.ratio is None else self.ratio.claim
        less_is_better = quantity_of(self.name).less_is_better
        if claim not in (Claim.FASTER, Claim.SLOWER) or less_is_better is None:
            return None
        return (claim is Claim.SLOWER) == less_is_better


@record(frozen=True)
class Difference:
    """What both sides have otherwise: its name, and what each has."""

    name: str
    base: str
    new: str


@record(frozen=True)
class SidesComparison:
    """Two sides, figure by figure.

    Attributes:
        unlike: what differs in their work, so that they don't compare.
        options, environment: what differs in how they computed, and on what.
        arguments: what differs in the commands of scripts.
        left_out: runs that have no throughput, with the reason.
    """

    base: tuple[RunFigures, ...]
    new: tuple[RunFigures, ...]
    figures: tuple[SidesFigure, ...]
    unlike: tuple[str, ...] = ()
    options: tuple[Difference, ...] = ()
    environment: tuple[Difference, ...] = ()
    left_out: tuple[RunFigures, ...] = ()
    arguments: tuple[Difference, ...] = ()

    @property
    def throughput(self) -> SidesFigure:
        return self.figures[0]

    def _figure(self, name: str) -> SidesFigure | None:
        return next((figure for figure in self.figures if figure.name == name), None)

    @property
    def others_took_more(self) -> float | None:
        """How many cores more other programs took beside new than beside base; less is negative.

        None where that isn't known, and where it is too little to matter.
        """
        cores = self._figure(OTHER_CORES)
        if cores is None or cores.base is None or cores.new is None:
            return None
        more = cores.new - cores.base
        return more if abs(more) >= NOTICEABLE_CORES else None

    @property
    def epoch_time_against_throughput(self) -> float | None:
        """New's seconds per epoch over base's, where these speak for the other side; else None.

        Nor is that said of what may be chance, where it is known how runs differ.
        """
        epoch = self._figure("seconds_per_epoch")
        if epoch is None or epoch.ratio is None or self.throughput.ratio is None:
            return None
        ratios = (epoch.ratio, self.throughput.ratio)
        if any(ratio.p is not None and not ratio.is_significant for ratio in ratios):
            return None
        longer, faster = (ratio.value - 1 for ratio in ratios)
        disagree = longer * faster > 0 and min(abs(longer), abs(faster)) >= NOTICEABLE_DISAGREEMENT
        return epoch.ratio.value if disagree else None

    @property
    def claim(self) -> Claim:
        """What may be said of the new side beside the base; only its interval decides."""
        ratio = self.throughput.ratio
        return Claim.UNKNOWN if ratio is None else ratio.claim


class NotComparable(Exception):
    """Two sides can't be compared at all; the message is a sentence for a person."""


class NoThroughput(NotComparable):
    """No run of a side has a throughput; `run` is the first of them."""

    def __init__(self, run: RunFigures, why: str) -> None:
        super().__init__(why)
        self.run = run


def compare_sides(
    base: Sequence[RunFigures], new: Sequence[RunFigures], earlier: Sequence[RunFigures] = ()
) -> SidesComparison:
    """Return two sides beside each other.

    Args:
        base: the runs of one side.
        new: those of the other.
        earlier: other runs; those of the same conditions on the same machine say how far runs
            differ, where a side has one run only.

    Raises:
        NotComparable: a run stands on both sides, or a side has none with a throughput.
    """
    both = {run.session for run in base} & {run.session for run in new}
    if both:
        raise NotComparable(f"{min(both)} is on both sides: a run can't be compared with itself")
    left_out = tuple(run for run in (*base, *new) if THROUGHPUT not in run.values)
    base, new = _measured(base, "base"), _measured(new, "new")
    repeats = _repeats((*base, *new), earlier)
    of_both = (*base, *new)
    # Of scripts it was not always recorded what their Keras runs on.
    is_known = all(run.command is None or BACKEND in run.options for run in of_both)

    def options_of(run: RunFigures) -> dict[str, object]:
        options = options_with_effect(run.options)
        return options if is_known else {n: v for n, v in options.items() if n != BACKEND}

    names = [*FIGURES, *_names_of(of_both, METRIC), *_names_of(of_both, ACCOUNT)]
    figures = (_figure(name, base, new, repeats) for name in names)
    return SidesComparison(
        base=tuple(base),
        new=tuple(new),
        figures=tuple(f for f in figures if f.name == THROUGHPUT or any(f.runs)),
        unlike=_unlike(base, new),
        options=_differences(base, new, options_of),
        environment=(*code_differences(base, new), *_differences(base, new, _environment_of)),
        left_out=left_out,
        arguments=argument_differences(base, new),
    )


def is_slower_by(comparison: SidesComparison, share: float) -> bool:
    """Return whether the new side is slower by more than a share (0 to 1) beyond its interval."""
    ratio = comparison.throughput.ratio
    if ratio is None or ratio.high is None or not ratio.is_significant:
        return False
    return ratio.high < 1 - share


def _measured(side: Sequence[RunFigures], side_is: str) -> list[RunFigures]:
    measured = [run for run in side if THROUGHPUT in run.values]
    if not measured:
        several = f"none of the {len(side)} runs of {side_is} has a throughput to compare: "
        why = f"{several if len(side) > 1 else ''}{without_throughput(side[0])}"
        raise NoThroughput(side[0], why)
    return measured


def without_throughput(run: RunFigures) -> str:
    """Say why a run has no throughput to compare: bad failed (out of memory) before it had one."""
    name = run.name or run.session
    if run.status == Status.FAILED:
        return f"{name} {failed_text(run)} before it had a throughput to compare"
    why = run.lacking.get(SAMPLES_PER_SECOND)
    return f"{name} has no throughput to compare{f': {why}' if why else ''}"


def failed_text(run: RunFigures) -> str:
    """Say that a run failed, and shortly why: failed (out of memory)."""
    return f"failed ({clean(run.error, _LONGEST_ERROR)})" if run.error else "failed"


def _figure(
    name: str,
    base: Sequence[RunFigures],
    new: Sequence[RunFigures],
    repeats: Sequence[Sequence[RunFigures]],
) -> SidesFigure:
    ours, theirs = _values(name, base), _values(name, new)
    why = _why_unlike(name, base, new) if ours and theirs else None
    has_ratio = quantity_of(name).has_ratio
    ratio = _ratio(name, base, new, repeats) if why is None and has_ratio else None
    mixed = [name == THROUGHPUT and len(_counts_steps(side)) > 1 for side in (base, new)]
    return SidesFigure(
        name=name,
        base=None if mixed[0] else _center(ours, has_ratio),
        new=None if mixed[1] else _center(theirs, has_ratio),
        ratio=ratio,
        runs=(len(ours), len(theirs)),
        why=why,
    )


def _ratio(
    name: str,
    base: Sequence[RunFigures],
    new: Sequence[RunFigures],
    repeats: Sequence[Sequence[RunFigures]],
) -> Ratio | None:
    groups = (_values(name, group) for group in (*repeats, base, new))
    spread = run_spread(group for group in groups if min(group, default=0) > 0)
    single = [side for side in (base, new) if len(side) == 1] if name == THROUGHPUT else []
    within = [side[0].throughput_error for side in single]
    return ratio_of(_values(name, base), _values(name, new), spread, within)


def throughput_ratio(
    base: RunFigures, new: RunFigures, earlier: Sequence[RunFigures]
) -> Ratio | None:
    """Return the ratio of two runs' throughputs, as `compare_sides` does; None without both."""
    if _why_unlike(THROUGHPUT, [base], [new]) is not None:
        return None
    return _ratio(THROUGHPUT, [base], [new], _repeats((base, new), earlier))


def _values(name: str, runs: Iterable[RunFigures]) -> list[float]:
    """Return a figure of the runs that have it; a part of an account that took no time is 0."""
    if name.startswith(ACCOUNT) and name != _DATA_WAIT:
        accounts = (run.values for run in runs if any(of.startswith(ACCOUNT) for of in run.values))
        return [account.get(name, 0.0) for account in accounts]
    return [run.values[name] for run in runs if name in run.values]


def _center(values: Sequence[float], is_geometric: bool) -> float | None:
    if not values:
        return None
    if is_geometric and min(values) > 0:
        return geometric_mean(values)
    return sum(values) / len(values)


def _names_of(runs: Iterable[RunFigures], prefix: str) -> list[str]:
    names = (name for run in runs for name in run.values if name.startswith(prefix))
    return list(dict.fromkeys(names))


def _counts_steps(runs: Iterable[RunFigures]) -> set[bool]:
    """Return whether the throughputs of runs are of steps: both where they differ in that."""
    return {run.counts_steps for run in runs}


def _why_unlike(name: str, base: Sequence[RunFigures], new: Sequence[RunFigures]) -> str | None:
    """Say why a figure doesn't compare though the work is alike."""
    runs = (*base, *new)
    if name == THROUGHPUT and len(_counts_steps(runs)) > 1:
        return "one side counts steps, the other samples"
    per = quantity_of(name).per
    if per == "run":
        if any(name.removeprefix(METRIC) in run.read_once for run in runs):
            return "the last value covers only some steps, and no epoch"
        counts = {run.batches for run in runs if run.batches is not None}
        return "the runs had different numbers of batches" if len(counts) > 1 else None
    if per != "epoch":
        return None
    if len({run.samples for run in runs}) > 1:
        return "their epochs differ in length"
    projected = {run.is_projected for run in runs if name in run.values}
    if name == "seconds_per_epoch" and len(projected) > 1:
        return "one is measured, the other a projection"
    return None


def _repeats(runs: Sequence[RunFigures], earlier: Iterable[RunFigures]) -> list[list[RunFigures]]:
    """Return earlier runs of the same work as the sides' in groups that were made alike.

    The versions may be others than theirs.
    """
    sessions, works = {run.session for run in runs}, {run.work for run in runs}
    others = (run for run in earlier if run.session not in sessions and THROUGHPUT in run.values)
    return like_groups(run for run in others if run.work in works)


def like_groups(runs: Iterable[RunFigures]) -> list[list[RunFigures]]:
    """Return runs in groups that were made alike, as repeats are; as they come otherwise."""
    groups: dict[Hashable, list[RunFigures]] = defaultdict(list)
    for run in runs:
        groups[run.settings].append(run)
    return list(groups.values())


# ---- what differs ----


def _unlike(base: Sequence[RunFigures], new: Sequence[RunFigures]) -> tuple[str, ...]:
    """Say what differs in the work of any two of the runs."""
    scripts = [run.command is not None for run in (*base, *new)]
    trained = "script" if all(scripts) else "what is trained" if any(scripts) else "network"
    work: dict[str, Callable[[RunFigures], object]] = {
        trained: lambda run: run.workload,
        "batch size": lambda run: run.batch_size,
        "precision": lambda run: run.precision,
        "mode": lambda run: run.mode,
        "devices": lambda run: run.devices,
        "data": lambda run: run.data,
    }
    found = []
    scripts_of_all = [run.script for run in (*base, *new) if run.script is not None]
    if len({run.workload for run in (*base, *new)}) == 1 and not all(
        script.is_same(scripts_of_all[0]) for script in scripts_of_all
    ):
        # They are called alike, but lie in different places.
        work[trained] = lambda run: run.script and run.script.place
    for name, value_of in work.items():
        ours, theirs = ({value_of(run): None for run in side} for side in (base, new))
        if len({**ours, **theirs}) > 1:
            found.append(f"{name} {_listed(ours)}, not {_listed(theirs)}")
    return tuple(found)


def _differences(
    base: Sequence[RunFigures],
    new: Sequence[RunFigures],
    read: Callable[[RunFigures], Mapping[str, object]],
) -> tuple[Difference, ...]:
    sides = [[read(run) for run in side] for side in (base, new)]
    names = dict.fromkeys(name for side in sides for of_run in side for name in of_run)
    found = []
    for name in names:
        texts = [_listed([of_run.get(name) for of_run in side]) for side in sides]
        if texts[0] != texts[1]:
            found.append(Difference(clean(name, SHOWN_LENGTH), *texts))
    return tuple(found)


def argument_differences(
    base: Sequence[RunFigures], new: Sequence[RunFigures]
) -> tuple[Difference, ...]:
    """Return the arguments of scripts that differ, each in full."""
    runs = [*base, *new]
    commands = [run.command for run in runs if run.command is not None]
    if len(commands) < len(runs):
        return ()
    scripts = {run.workload for run in runs}
    read = arguments_of(commands, scripts.pop() if len(scripts) == 1 else None)
    by_run = {run.session: arguments for run, arguments in zip(runs, read, strict=True)}
    absent = {name: NOT_GIVEN for arguments in read for name in arguments}
    return _differences(base, new, lambda run: absent | by_run[run.session])


def code_differences(
    base: Sequence[RunFigures], new: Sequence[RunFigures]
) -> tuple[Difference, ...]:
    """Return what differs in the code of scripts, as far as it is known of all: older logs lack it.

    Of a commit and a hash the first digits tell them apart.
    """
    runs = [*base, *new]
    names = {run.workload for run in runs}
    script = names.pop() if len(names) == 1 else "the script"

    def read(run: RunFigures) -> dict[str, str | None]:
        path, commit = (run.script.path, run.script.git_commit) if run.script else (None, None)
        return {
            f"path of {script}": path,
            f"contents of {script}": (run.script_sha256 or "")[:_SHOWN_DIGITS],
            "git commit": (commit or "")[:_SHOWN_DIGITS],
        }

    known = [name for name in read(runs[0]) if all(read(run)[name] for run in runs)]
    return _differences(base, new, lambda run: {name: read(run)[name] for name in known})


def _environment_of(run: RunFigures) -> dict[str, object]:
    machine = run.machine
    return {
        "host": run.host,
        "device": run.device_name or run.device,
        "CPU": machine.cpu_model,
        "cores": machine.cores,
        "CPU limit": machine.cpu_limit,
        "memory (MiB)": machine.memory_mib,
        "driver": machine.driver,
        "governor": machine.governor,
        "on battery": machine.on_battery,
        **{f"version of {name}": value for name, value in run.versions.items()},
    }


def _listed(values: Iterable[object]) -> str:
    """Write what the runs of a side have: one value, or all that there are."""
    texts = sorted({_text(value) for value in values})
    shown = ", ".join(texts[:_LONGEST_LIST])
    return f"{shown}, …" if len(texts) > _LONGEST_LIST else shown


def _text(value: object) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return clean(str(value))
