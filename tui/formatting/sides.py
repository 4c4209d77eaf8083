"""Two sides of runs beside each other, in words. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from dlmon.comparison.compiling import compiles
from dlmon.comparison.sides import (
    ACCOUNT,
    THROUGHPUT,
    Difference,
    RunFigures,
    SidesComparison,
    SidesFigure,
)
from dlmon.records import AccountPart, Status
from dlmon.statistics.claims import Claim
from dlmon.statistics.ratios import Basis, Ratio
from tui.formatting import units
from tui.formatting.account import part_name
from workloads.catalog import WORKLOADS

COLUMNS = ("", "base", "new", "change", "95 % interval", "p", "n")
GAP = 2
# What goes first where there is no room.
_DROPPED = ("n", "p", "95 % interval")

NOT_SIGNIFICANT = "~"
LEGEND = "~ no significant difference: the interval, which allows for how runs differ, holds 0 %"
LEGEND_ONE_RUN = (
    "~ not significant: runs differ by more than their own seconds show; n is the runs of each side"
)
UNKNOWN = "–"

# Of a script, what counts its batches is among the versions.
_KERAS = frozenset(("keras", "tf_keras"))
_NAMES = {
    THROUGHPUT: "samples/s",
    "seconds_per_epoch": "seconds per epoch",
    "step_ms.median": "median step, ms",
    "step_ms.p95": "95 % of steps, ms",
    "compile_s": "compile, s",
    "gpu_pct": "GPU busy, %",
    "cpu_pct": "CPU busy, %",
    "gpu_power_w": "GPU power, W",
    "cpu_power_w": "CPU power, W",
    "energy_j_per_epoch.gpu": "GPU, J per epoch",
    "energy_j_per_epoch.cpu": "CPU, J per epoch",
    "memory_mib": "memory, GiB",
    "gpu_memory_mib": "GPU memory, GiB",
    "cost_usd_per_epoch": "USD per epoch",
    "cost_usd": "USD",
}


@dataclass(frozen=True)
class FigureRow:
    """One figure as it is shown: a text for each of `COLUMNS`, and whether new is better."""

    cells: tuple[str, ...]
    is_better: bool | None


def figure_rows(comparison: SidesComparison) -> list[FigureRow]:
    """Return the rows of the table."""
    names = _names_of(comparison)
    return [_row(figure, names(figure.name)) for figure in comparison.figures]


def shown_columns(rows: Sequence[FigureRow], width: int) -> list[tuple[int, int]]:
    """Return which columns have room, each with its width."""
    left = list(enumerate(COLUMNS))
    for dropped in ("", *_DROPPED):
        left = [(index, name) for index, name in left if not dropped or name != dropped]
        widths = [
            (index, max(len(name), *(len(row.cells[index]) for row in rows)))
            for index, name in left
        ]
        if sum(cells for _, cells in widths) + GAP * (len(widths) - 1) <= width:
            break
    return widths


def _names_of(comparison: SidesComparison) -> Callable[[str], str]:
    """Return what names a figure: some have other names where all runs are of scripts."""
    runs = (*comparison.base, *comparison.new)
    return partial(
        figure_name,
        compiled=all(map(_compiled, runs)),
        is_script=all("command" in run.options for run in runs),
    )


def _compiled(run: RunFigures) -> bool:
    if "command" in run.options and not _KERAS.intersection(run.versions):
        return False
    return compiles((), run.versions.get("backend"), run.options.get("jit"))


def _row(figure: SidesFigure, name: str) -> FigureRow:
    ratio = figure.ratio
    interval = ""
    if ratio is not None and ratio.low is not None and ratio.high is not None:
        interval = f"{_signed(ratio.low)} to {_signed(ratio.high)} %"
    cells = (
        name,
        _number(figure.name, figure.base),
        _number(figure.name, figure.new),
        "" if ratio is None else change_text(ratio),
        interval,
        "" if ratio is None or ratio.p is None else p_text(ratio.p),
        "+".join(map(str, figure.runs)),
    )
    return FigureRow(cells, figure.is_better)


def figure_name(name: str, compiled: bool = True, is_script: bool = False) -> str:
    """Write what a figure is, with its unit."""
    if name.startswith(ACCOUNT):
        part = AccountPart(name.removeprefix(ACCOUNT))
        return f"{part_name(part, is_script, compiled)}, s"
    if name == "compile_s" and not compiled:
        return "first batch, extra s"
    return _NAMES.get(name, name)


def change_text(ratio: Ratio) -> str:
    """Write by how much new differs from base: +4.9 %, or ~ +0.4 % where it isn't significant."""
    mark = "" if ratio.is_significant else f"{NOT_SIGNIFICANT} "
    return f"{mark}{_signed(ratio.value)} %"


def p_text(p: float) -> str:
    """Write a probability: 0.41, 0.003 or <0.001."""
    if p < 0.001:
        return "<0.001"
    return f"{p:.3f}" if p < 0.1 else f"{p:.2f}"


def _signed(ratio: float) -> str:
    change = 100 * (ratio - 1)
    if abs(change) >= 99.95:
        return f"{change:+,.0f}" if change < 1e6 else "over +1,000,000"
    return f"{round(change, 1) + 0:+.1f}"


def _number(name: str, value: float | None) -> str:
    if value is None:
        return UNKNOWN
    if name.endswith("_mib"):
        return f"{value / 1024:.2f}"
    if "usd" in name:
        return units.dollars(value).removesuffix(" USD")
    if name.endswith("_pct"):
        return f"{value:.0f}"
    if abs(value) >= 999.5:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) >= 99.95 or abs(value) < 0.01 else f"{value:.2f}"


def side_name(runs: Sequence[RunFigures]) -> str:
    """Return what to call a side: by the one name of its runs, or by the first of them."""
    names = {run.name for run in runs}
    name = names.pop() if len(names) == 1 else None
    if len(runs) == 1:
        return name or runs[0].session
    first = runs[0].name or runs[0].session
    return f"{name}, {len(runs)} runs" if name else f"{first} and {len(runs) - 1} more"


def verdict(comparison: SidesComparison) -> str:
    """Say what may be said of the new side's throughput beside the base's."""
    ratio, claim = comparison.throughput.ratio, comparison.claim
    if ratio is not None and ratio.low is not None and ratio.high is not None:
        low, high = ratio.low, ratio.high
        if claim is Claim.FASTER:
            span = f"{_pct(low - 1)} to {_pct(high - 1)} %"
            return f"new is {_pct(ratio.value - 1)} % faster than base ({span})"
        if claim is Claim.SLOWER:
            span = f"{_pct(1 - high)} to {_pct(1 - low)} %"
            return f"new is {_pct(1 - ratio.value)} % slower than base ({span})"
        if claim is Claim.UNCLEAR:
            span = f"{_signed(low)} to {_signed(high)} %"
            return f"no significant difference in throughput: {span}"
    if ratio is None or min(comparison.throughput.runs) < 2:
        return f"one run a side does not show how runs differ: {how_to_know(comparison)} does"
    return "the runs do not differ at all, so how sure the change is can't be known"


def how_to_know(comparison: SidesComparison) -> str:
    """Return the command that makes the repeats which would decide."""
    workload = comparison.new[0].workload
    if workload not in WORKLOADS:
        return "dlmon exec --repeat 3 -- … for each side"
    return f"dlmon sweep {workload} --repeat 3 for each side"


def _pct(share: float) -> str:
    return f"{100 * share:,.1f}"


def legend(comparison: SidesComparison) -> str:
    """Say what `~` means in this table."""
    ratio = comparison.throughput.ratio
    is_of_runs = ratio is not None and ratio.basis in (Basis.RUNS, Basis.LIKE_RUNS)
    return LEGEND if is_of_runs else LEGEND_ONE_RUN


def doubts(comparison: SidesComparison) -> list[str]:
    """Say what speaks against comparing these runs by these figures."""
    said = [f"not like with like: {difference}" for difference in comparison.unlike]
    for run in (*comparison.base, *comparison.new):
        name = run.name or run.session
        if run.status == Status.RUNNING:
            said.append(f"{name} is still running: its figures are those so far")
        if run.status == Status.UNKNOWN:
            said.append(f"whether {name} still runs on {run.host} can't be seen from here")
        if run.valid is False:
            reasons = "; ".join(run.against.values()) or "its figures may be off"
            said.append(f"{name}: {reasons}")
    for run in comparison.left_out:
        reason = f": {run.why}" if run.why else ""
        said.append(f"{run.name or run.session} is left out, it has no throughput{reason}")
    return said


def notes(comparison: SidesComparison) -> list[str]:
    """Say what the figures rest on, and which are not compared."""
    name = _names_of(comparison)
    said = [
        f"{name(figure.name)} is not compared: {figure.why}"
        for figure in comparison.figures
        if figure.why is not None
    ]
    ratio = comparison.throughput.ratio
    if ratio is not None and ratio.basis is Basis.LIKE_RUNS:
        said.append("how runs differ is taken from other runs of the same conditions here")
    if ratio is not None and ratio.basis is Basis.WITHIN_RUNS:
        said.append("the interval is of how these runs varied by themselves, not of how runs do")
    return said


def difference_text(difference: Difference) -> str:
    """Write what both sides have otherwise: threads: 2, not 4."""
    return f"{difference.name}: {difference.base}, now {difference.new}"


def why_refused(comparison: SidesComparison) -> str:
    """Say why two sides don't compare, and what compares them all the same."""
    differences = "; ".join(comparison.unlike)
    return f"these runs do not compare: {differences}; --anyway shows them side by side"
