"""Whether `dlmon compare` says "faster" only where it is so, with this machine's own noise.

A workload is recorded many times, one run after another; then sides of runs are drawn from these
and compared by dlmon's own comparison, again and again:

- both sides as they were recorded: at most 5 % of such comparisons may say faster or slower;
- the new side 5 % slower (each of its throughputs, and windows, by that factor): at least 80 %
  must say slower. How many can depends on how far this machine's runs differ, which is shown with
  the slow-down that five runs a side would find in 80 % of cases.

As context: one side recorded after the other, and in turn, where the machine's own drift counts;
and one run a side, judged by the other runs.

    python bench/compare_truth.py [--runs 30] [--seconds 5] [--quick] [--logs DIR]
"""

from __future__ import annotations

import argparse
import math
import random
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median, stdev

import harness
from harness import CannotRun

from dlmon.comparison.run import RunFigures
from dlmon.comparison.sides import THROUGHPUT, compare_sides
from dlmon.log.directory import list_sessions
from dlmon.records import Status
from dlmon.session.figures import read_figures
from dlmon.statistics.intervals import student_95_of
from dlmon.statistics.ratios import Claim

RUNS_A_SIDE = 5
COMPARISONS = 2_000
SLOWER_BY = 0.05
FALSE_BAR_PCT, FOUND_BAR_PCT = 5.0, 80.0
# Beyond the interval's half-width, for a difference to be found in 80 % of cases.
_POWER_80 = 0.84

Sides = tuple[Sequence[RunFigures], Sequence[RunFigures]]
Draw = Callable[[random.Random], Sides]


def main() -> None:
    arguments = _arguments()
    with tempfile.TemporaryDirectory(prefix="dlmon-bench-") as folder:
        logs = arguments.logs or Path(folder)
        if arguments.logs is None:
            _record(arguments.workload, logs, arguments.runs, arguments.seconds)
        runs = _read(logs)
    per_side = RUNS_A_SIDE
    if len(runs) < 2 * per_side:
        raise CannotRun(f"{len(runs)} runs have a throughput, {2 * per_side} are needed")
    _print_noise(runs, per_side)
    order = random.Random(arguments.seed)

    def drawn(order: random.Random) -> Sides:
        some = order.sample(runs, 2 * per_side)
        return some[:per_side], some[per_side:]

    def one_after_the_other(order: random.Random) -> Sides:
        start = order.randrange(len(runs) - 2 * per_side + 1)
        some = runs[start : start + 2 * per_side]
        return some[:per_side], some[per_side:]

    def in_turn(order: random.Random) -> Sides:
        start = order.randrange(len(runs) - 2 * per_side + 1)
        some = runs[start : start + 2 * per_side]
        return some[::2], some[1::2]

    def one_each(order: random.Random) -> Sides:
        some = order.sample(runs, 2)
        return some[:1], some[1:]

    false_pct = 0.0
    found_pct = 0.0
    print(f"\n{f'of {COMPARISONS:,} comparisons, in %':<44} {'faster':>7} {'slower':>7}")
    for name, draw in (
        (f"alike, {per_side} a side, drawn", drawn),
        (f"alike, {per_side} a side, one after the other", one_after_the_other),
        (f"alike, {per_side} a side, in turn", in_turn),
        ("alike, one a side, judged by the others", one_each),
    ):
        faster, slower = _said(draw, order, 0.0, runs)
        print(f"{name:<44} {faster:>7.1f} {slower:>7.1f}", flush=True)
        if draw is drawn:
            false_pct = faster + slower
    for share in (SLOWER_BY, 0.1, 0.2, 0.5):
        faster, slower = _said(drawn, order, share, runs)
        name = f"{share:.0%} slower, {per_side} a side, drawn".replace("%", " %")
        print(f"{name:<44} {faster:>7.1f} {slower:>7.1f}", flush=True)
        if share == SLOWER_BY:
            found_pct = slower
    print()
    _print_bar("said of runs that are alike", false_pct, FALSE_BAR_PCT, at_most=True)
    _print_bar("found of a 5 % slow-down", found_pct, FOUND_BAR_PCT, at_most=False)


def _print_bar(name: str, value_pct: float, bar_pct: float, at_most: bool) -> None:
    reached = value_pct <= bar_pct if at_most else value_pct >= bar_pct
    sign = "≤" if at_most else "≥"
    verdict = "reached" if reached else "not reached"
    print(f"{name:<44} {value_pct:.1f} %  bar {sign} {bar_pct:g} %  {verdict}")


def _record(workload: str, logs: Path, runs: int, seconds: float) -> None:
    """Make so many runs, one after another, with real processes."""
    command = [harness.dlmon_command(), "sweep", workload, "--repeat", str(runs), "--plain"]
    options = ["--seconds", str(seconds), "--epochs", "1", "--data", "synthetic"]
    done = subprocess.run(
        [*command, *options, "--log-dir", str(logs)], stdout=subprocess.DEVNULL, check=False
    )
    if done.returncode:
        raise CannotRun(f"the runs could not be made (exit code {done.returncode})")


def _read(logs: Path) -> list[RunFigures]:
    """Return the runs that have a throughput, in the order in which they were recorded."""
    entries = [entry for entry in list_sessions(logs) if entry.status == Status.COMPLETED]
    runs = [read_figures(entry.path) for entry in entries]
    return [
        replace(run, values={THROUGHPUT: run.values[THROUGHPUT]}, curve=None)
        for run in runs
        if THROUGHPUT in run.values
    ]


def _print_noise(runs: Sequence[RunFigures], per_side: int) -> None:
    rates = [run.values[THROUGHPUT] for run in runs]
    spread = stdev(map(math.log, rates))
    half = student_95_of(2 * per_side - 2) * spread * math.sqrt(2 / per_side)
    found = 1 - math.exp(-half * (1 + _POWER_80 / student_95_of(2 * per_side - 2)))
    print(f"{len(runs)} runs of {runs[0].workload}, median {median(rates):,.0f} samples/s")
    print(f"{'runs differ by (standard deviation)':<44} {100 * spread:.1f} %")
    print(f"{'so that five a side find, in 80 % of cases,':<44} {100 * found:.0f} % (context)")


def _said(
    draw: Draw, order: random.Random, slower_by: float, runs: Sequence[RunFigures]
) -> tuple[float, float]:
    """Return how many percent of comparisons said faster, and how many slower."""
    claims: Counter[Claim] = Counter()
    for _ in range(COMPARISONS):
        base, new = draw(order)
        new = [_slowed(run, slower_by) for run in new]
        claims[compare_sides(base, new, runs if len(base) == 1 else ()).claim] += 1
    return 100 * claims[Claim.FASTER] / COMPARISONS, 100 * claims[Claim.SLOWER] / COMPARISONS


def _slowed(run: RunFigures, share: float) -> RunFigures:
    """Return a run that was slower by a share throughout."""
    rate = run.values[THROUGHPUT] * (1 - share)
    windows = [(samples, round(time_us / (1 - share))) for samples, time_us in run.windows]
    return replace(run, values={**run.values, THROUGHPUT: rate}, windows=windows)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description='Whether "faster" is said only where it is so.')
    parser.add_argument("--workload", default="mnist-mlp-small")
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--seconds", type=float, default=5.0, help="of steady training, each run")
    parser.add_argument("--logs", type=Path, help="runs of one kind that were recorded before")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="12 runs of 3 seconds")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.runs, arguments.seconds = 12, 3.0
    return arguments


if __name__ == "__main__":
    harness.run(main)
