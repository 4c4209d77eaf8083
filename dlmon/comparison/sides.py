"""The comparison of two sides, each of one run or several, figure by figure. Pure.

Runs of different work don't compare: `RunComparison.unlike` names the differences. Differences in
options, environment and code are named too: they are what the user compares.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace

from dlmon.comparison.arguments import NOT_GIVEN, arguments_of
from dlmon.comparison.compared_run import BACKEND, RunFigures, lower_is_better, options_with_effect
from dlmon.quantities import BY_KEY, OTHER_CORES, QUANTITIES, SAMPLES_PER_SECOND, Quantity
from dlmon.records import GpuState, Status, TimePart
from dlmon.records.record import record
from dlmon.records.sanitize import SHOWN_LENGTH, clean
from dlmon.statistics.ratios import Claim, Ratio, geometric_mean, ratio_of, run_spread

THROUGHPUT = SAMPLES_PER_SECOND
ACCOUNT = "account."
"""The prefix of the parts of the time breakdown."""
METRIC = "metric."
"""The prefix of the last values of metrics."""
STEP_PART = "step."
"""The prefix of the parts of a step."""
# Unlike other parts, it may not have been measured if a run lacks it.
_DATA_WAIT = f"{ACCOUNT}{TimePart.DATA_WAIT}"
# Parts that don't depend on the number of batches.
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
"""The compared figures of the table of quantities."""
_FIRST = FIGURES[: FIGURES.index("step_ms.p95") + 1]
_MEMORY = ("memory_mib", "gpu_memory_mib")

NOTICEABLE_CORES = 0.5
NOTICEABLE_DISAGREEMENT = 0.01
CONTENTS = "contents of "
_SHOWN_DIGITS = 12
_LONGEST_LIST = 4
_LONGEST_ERROR = 160


def quantity_of(key: str) -> Quantity:
    """Return the quantity of a figure: of the table, a part of the time or a step, or a metric."""
    if key.startswith(STEP_PART):
        return Quantity(key, unit="ms", per="batch")
    if key.startswith(ACCOUNT):
        return Quantity(key, unit="s", per="" if key in _ONCE else "run")
    if key.startswith(METRIC):
        name = key.removeprefix(METRIC)
        return Quantity(
            key, name, less_is_better=lower_is_better(name), per="run", number_format="metric"
        )
    return BY_KEY[key]


@record(frozen=True)
class ComparedFigure:
    """One figure of both sides.

    Attributes:
        base, new: the geometric mean of each side; None if no run has it, or if its runs have it
            in different units.
        ratio: new over base; None if it can't be compared.
        runs: the number of runs with the figure, by side.
        why: the reason why it isn't compared although both sides have it.
    """

    name: str
    base: float | None
    new: float | None
    ratio: Ratio | None
    runs: tuple[int, int]
    why: str | None = None

    @property
    def is_better(self) -> bool | None:
        """True if new is the better side; None if that is unclear, or neither is better."""
        claim = Claim.UNKNOWN if self.ratio is None else self.ratio.claim
        less_is_better = quantity_of(self.name).less_is_better
        if claim not in (Claim.FASTER, Claim.SLOWER) or less_is_better is None:
            return None
        return (claim is Claim.SLOWER) == less_is_better


@record(frozen=True)
class Difference:
    """One difference between the sides: its name, and the values of both."""

    name: str
    base: str
    new: str


@record(frozen=True)
class ChangedFile:
    """A file that differs between two commits; lines are None if it isn't text."""

    name: str
    added: int | None
    deleted: int | None


@record(frozen=True)
class CodeChanges:
    """What git tells about the commits of two sides.

    Attributes:
        base, new: the commits.
        files: the files that differ, those with the most lines first; None if not known.
        uncommitted: the runs whose script was changed after its commit.
        why: the reason if the files aren't known.
    """

    base: str
    new: str
    files: tuple[ChangedFile, ...] | None = None
    uncommitted: tuple[str, ...] = ()
    why: str = ""


@record(frozen=True)
class RunComparison:
    """Two sides of runs, figure by figure.

    Attributes:
        unlike: differences in their work, which prevent a comparison.
        options, environment, arguments: differences in options, in software and hardware, and in
            the commands of scripts.
        left_out: runs without a throughput.
        versions: differences in the file and the commit of a script.
        code: the files that changed between the commits; None if runs have none, or several.
    """

    base: tuple[RunFigures, ...]
    new: tuple[RunFigures, ...]
    figures: tuple[ComparedFigure, ...]
    unlike: tuple[str, ...] = ()
    options: tuple[Difference, ...] = ()
    environment: tuple[Difference, ...] = ()
    left_out: tuple[RunFigures, ...] = ()
    arguments: tuple[Difference, ...] = ()
    versions: tuple[Difference, ...] = ()
    code: CodeChanges | None = None

    @property
    def throughput(self) -> ComparedFigure:
        return self.figures[0]

    def _figure(self, name: str) -> ComparedFigure | None:
        return next((figure for figure in self.figures if figure.name == name), None)

    @property
    def others_took_more(self) -> float | None:
        """The cores that other programs used during new beyond those during base.

        Negative if they used fewer; None if that isn't known, or too little to matter.
        """
        cores = self._figure(OTHER_CORES)
        if cores is None or cores.base is None or cores.new is None:
            return None
        more = cores.new - cores.base
        return more if abs(more) >= NOTICEABLE_CORES else None

    @property
    def epoch_time_against_throughput(self) -> float | None:
        """The ratio of seconds per epoch, if it favours the other side than the throughput does.

        None if they agree, or if either ratio may be chance.
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
        """The verdict on new against base; only the interval decides."""
        ratio = self.throughput.ratio
        return Claim.UNKNOWN if ratio is None else ratio.claim


class NotComparable(Exception):
    """Two sides can't be compared at all; the message is a sentence for the user."""


class NoThroughput(NotComparable):
    """No run of a side has a throughput.

    Attributes:
        run: the first of them.
        comparison: the differences of all runs, and the figures that they have.
    """

    def __init__(self, run: RunFigures, why: str, comparison: RunComparison) -> None:
        super().__init__(why)
        self.run, self.comparison = run, comparison


def compare_sides(
    base: Sequence[RunFigures], new: Sequence[RunFigures], earlier: Sequence[RunFigures] = ()
) -> RunComparison:
    """Compare two sides of runs.

    Args:
        base: the runs of one side.
        new: the runs of the other.
        earlier: other runs; if a side has only one run, those under the same conditions on the
            same machine show how much runs differ.

    Raises:
        NotComparable: a run is on both sides, or no run of a side has a throughput.
    """
    common = {run.session for run in base} & {run.session for run in new}
    if common:
        raise NotComparable(f"{min(common)} is on both sides: a run can't be compared with itself")
    left_out = tuple(run for run in (*base, *new) if THROUGHPUT not in run.values)
    unmeasured = _unmeasured(base, "base") or _unmeasured(new, "new")
    if unmeasured is None:
        base, new = ([run for run in side if run not in left_out] for side in (base, new))
    runs = (*base, *new)
    repeats = _repeats(runs, earlier)
    # Older logs lack the Keras backend of scripts.
    is_known = all(run.command is None or BACKEND in run.options for run in runs)

    def options_of(run: RunFigures) -> dict[str, object]:
        options = options_with_effect(run.options)
        return options if is_known else {n: v for n, v in options.items() if n != BACKEND}

    leading = [*_FIRST, *_names_of(runs, METRIC), *_names_of(runs, STEP_PART), *_MEMORY]
    names = dict.fromkeys([*leading, *FIGURES, *_names_of(runs, ACCOUNT)])
    figures = [_figure(name, base, new, repeats) for name in names]
    comparison = RunComparison(
        base=tuple(base),
        new=tuple(new),
        figures=tuple(f for f in figures if f.name == THROUGHPUT or any(f.runs)),
        unlike=_unlike(base, new),
        options=_differences(base, new, options_of),
        environment=_differences(base, new, _environment_of),
        left_out=left_out if unmeasured is None else (),
        arguments=argument_differences(base, new),
        versions=code_differences(base, new),
    )
    if unmeasured is None:
        return comparison
    run, why = unmeasured
    throughput, *others = comparison.figures
    figures = [replace(throughput, ratio=None, why=why), *others]
    raise NoThroughput(run, why, replace(comparison, figures=tuple(figures)))


def is_slower_by(comparison: RunComparison, share: float) -> bool:
    """Return whether all of the interval shows the new side slower by more than `share`."""
    ratio = comparison.throughput.ratio
    if ratio is None or ratio.high is None or not ratio.is_significant:
        return False
    return ratio.high < 1 - share


def _unmeasured(side: Sequence[RunFigures], side_is: str) -> tuple[RunFigures, str] | None:
    """Return the first run of a side without any throughput, and why it has none."""
    if any(THROUGHPUT in run.values for run in side):
        return None
    several = f"none of the {len(side)} runs of {side_is} has a throughput to compare: "
    return side[0], f"{several if len(side) > 1 else ''}{without_throughput(side[0])}"


def without_throughput(run: RunFigures) -> str:
    """Return a sentence with the reason why a run has no throughput to compare."""
    name = run.name or run.session
    if run.status == Status.FAILED:
        return f"{name} {failed_text(run)} before it had a throughput to compare"
    why = run.lacking.get(SAMPLES_PER_SECOND)
    return f"{name} has no throughput to compare{f': {why}' if why else ''}"


def failed_text(run: RunFigures) -> str:
    """Return that a run failed, and shortly why: failed (out of memory)."""
    return f"failed ({clean(run.error, _LONGEST_ERROR)})" if run.error else "failed"


def _figure(
    name: str,
    base: Sequence[RunFigures],
    new: Sequence[RunFigures],
    repeats: Sequence[Sequence[RunFigures]],
) -> ComparedFigure:
    ours, theirs = _values(name, base), _values(name, new)
    why = _why_unlike(name, base, new) if ours and theirs else None
    has_ratio = quantity_of(name).has_ratio
    ratio = _ratio(name, base, new, repeats) if why is None and has_ratio else None
    mixed = [name == THROUGHPUT and len(_throughput_units(side)) > 1 for side in (base, new)]
    return ComparedFigure(
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
    """Return a figure of the runs that have it; a part missing in a time breakdown took 0 s."""
    if name.startswith(ACCOUNT) and name != _DATA_WAIT:
        return [
            run.values.get(name, 0.0)
            for run in runs
            if any(key.startswith(ACCOUNT) for key in run.values)
        ]
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


def _throughput_units(runs: Iterable[RunFigures]) -> set[str]:
    return {run.throughput_unit for run in runs}


def _why_unlike(name: str, base: Sequence[RunFigures], new: Sequence[RunFigures]) -> str | None:
    """Return the reason why a figure doesn't compare although the work is the same."""
    runs = (*base, *new)
    if name == THROUGHPUT and len(_throughput_units(runs)) > 1:
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
    timings = [run.seconds_per_epoch for run in runs if run.seconds_per_epoch is not None]
    first_only = next(filter(None, (run.of_first_epoch for run in runs)), None)
    if first_only is not None and any(timing.first_left_out for timing in timings):
        return first_only
    projected = {run.is_projected for run in runs if name in run.values}
    if name == "seconds_per_epoch" and len(projected) > 1:
        return "one is measured, the other a projection"
    return None


def _repeats(runs: Sequence[RunFigures], earlier: Iterable[RunFigures]) -> list[list[RunFigures]]:
    """Return earlier runs of the same work as these, in groups of repeats.

    Their versions may differ from these runs'.
    """
    sessions, works = {run.session for run in runs}, {run.work for run in runs}
    return like_groups(
        run
        for run in earlier
        if run.session not in sessions and THROUGHPUT in run.values and run.work in works
    )


def like_groups(runs: Iterable[RunFigures]) -> list[list[RunFigures]]:
    """Group runs of the same settings, as repeats have; the order is kept."""
    groups: dict[Hashable, list[RunFigures]] = defaultdict(list)
    for run in runs:
        groups[run.settings].append(run)
    return list(groups.values())


# ---- differences ----


def _unlike(base: Sequence[RunFigures], new: Sequence[RunFigures]) -> tuple[str, ...]:
    """Return the differences in the work of any two of the runs."""
    are_scripts = [run.command is not None for run in (*base, *new)]
    program = "network"
    if any(are_scripts):
        program = "script" if all(are_scripts) else "what is trained"
    work: dict[str, Callable[[RunFigures], object]] = {
        program: lambda run: run.workload,
        "batch size": lambda run: run.batch_size,
        "precision": lambda run: run.precision,
        "mode": lambda run: run.mode,
        "devices": lambda run: run.devices,
        "data": lambda run: run.data,
    }
    scripts = [run.script for run in (*base, *new) if run.script is not None]
    if len({run.workload for run in (*base, *new)}) == 1 and not all(
        script.is_same(scripts[0]) for script in scripts
    ):
        # They have one name, but different places.
        work[program] = lambda run: run.script and run.script.place
    differences = []
    for name, value_of in work.items():
        ours, theirs = ({value_of(run): None for run in side} for side in (base, new))
        if len({**ours, **theirs}) > 1:
            differences.append(f"{name} {_listed(ours)}, not {_listed(theirs)}")
    return tuple(differences)


def _differences(
    base: Sequence[RunFigures],
    new: Sequence[RunFigures],
    values_of: Callable[[RunFigures], Mapping[str, object]],
) -> tuple[Difference, ...]:
    sides = [[values_of(run) for run in side] for side in (base, new)]
    names = dict.fromkeys(name for side in sides for values in side for name in values)
    differences = []
    for name in names:
        texts = [_listed([values.get(name) for values in side]) for side in sides]
        if texts[0] != texts[1]:
            differences.append(Difference(clean(name, SHOWN_LENGTH), *texts))
    return tuple(differences)


def argument_differences(
    base: Sequence[RunFigures], new: Sequence[RunFigures]
) -> tuple[Difference, ...]:
    """Return the differing arguments of scripts, each in full."""
    runs = [*base, *new]
    commands = [run.command for run in runs if run.command is not None]
    if len(commands) < len(runs):
        return ()
    scripts = {run.workload for run in runs}
    arguments = arguments_of(commands, scripts.pop() if len(scripts) == 1 else None)
    by_run = {run.session: values for run, values in zip(runs, arguments, strict=True)}
    absent = {name: NOT_GIVEN for values in arguments for name in values}
    return _differences(base, new, lambda run: absent | by_run[run.session])


def code_differences(
    base: Sequence[RunFigures], new: Sequence[RunFigures]
) -> tuple[Difference, ...]:
    """Return the differences in the code of scripts, as far as known for all: older logs lack it.

    Commits and hashes are cut to their first digits.
    """
    runs = [*base, *new]
    names = {run.workload for run in runs}
    script = names.pop() if len(names) == 1 else "the script"

    def code_of(run: RunFigures) -> dict[str, str | None]:
        path, commit = (run.script.path, run.script.git_commit) if run.script else (None, None)
        return {
            f"path of {script}": path,
            f"{CONTENTS}{script}": (run.script_sha256 or "")[:_SHOWN_DIGITS],
            "git commit": (commit or "")[:_SHOWN_DIGITS],
        }

    fields = [name for name in code_of(runs[0]) if all(code_of(run)[name] for run in runs)]
    return _differences(base, new, lambda run: {name: code_of(run)[name] for name in fields})


def _environment_of(run: RunFigures) -> dict[str, object]:
    machine = run.machine
    return {
        "host": run.host,
        "device": run.device_name or run.device,
        "CPU": machine.cpu_model,
        "cores": machine.cores,
        "CPU limit": machine.cpu_limit,
        "memory (MiB)": machine.memory_mib,
        "driver": "none" if machine.gpus_state == GpuState.NO_DRIVER else machine.driver,
        "governor": machine.governor,
        "on battery": machine.on_battery,
        **{f"version of {name}": value for name, value in run.versions.items()},
    }


def _listed(values: Iterable[object]) -> str:
    """Write the different values of a side."""
    texts = sorted({_text(value) for value in values})
    text = ", ".join(texts[:_LONGEST_LIST])
    return f"{text}, …" if len(texts) > _LONGEST_LIST else text


def _text(value: object) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return clean(str(value))
