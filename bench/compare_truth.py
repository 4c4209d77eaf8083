"""Check that `dlmon compare` says "faster" only of faster runs, with this machine's own noise.

A workload is recorded many times, one run after another. Then two sides of five runs are drawn at
random and compared by dlmon's own comparison, many times:

- both sides as recorded: at most 5 % of the comparisons may say faster or slower;
- the new side 5 % slower (its throughputs and windows scaled): at least 80 % must say slower. This
  share depends on how far this machine's runs differ, which is printed too.
"""

from __future__ import annotations

import argparse
import math
import random
import subprocess
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median, stdev

import harness
from harness import CannotRun

from dlmon.comparison.compared_run import RunFigures
from dlmon.comparison.sides import THROUGHPUT, compare_sides
from dlmon.log.directory import list_sessions
from dlmon.records import Status
from dlmon.session.run_figures import read_figures
from dlmon.statistics.ratios import Claim

A_SIDE = 5
COMPARISONS = 2_000
FALSE_BAR_PCT, DETECTED_BAR_PCT = 5.0, 80.0


def main() -> None:
    arguments = _arguments()
    with tempfile.TemporaryDirectory(prefix="dlmon-bench-") as folder:
        logs = arguments.logs or Path(folder)
        if arguments.logs is None:
            _record(logs, arguments)
        runs = _read(logs)
    if len(runs) < 2 * A_SIDE:
        raise CannotRun(f"{len(runs)} runs have a throughput, {2 * A_SIDE} are needed")
    rates = [run.values[THROUGHPUT] for run in runs]
    print(f"{len(runs)} runs of {runs[0].workload}, median {median(rates):,.0f} samples/s")
    differ_pct = 100 * stdev(map(math.log, rates))
    print(f"{'runs differ by (standard deviation)':<44} {differ_pct:.1f} %")
    order = random.Random(arguments.seed)
    print(f"\n{f'of {COMPARISONS:,} comparisons, in %':<44} {'faster':>7} {'slower':>7}")
    claims = {}
    for slower_pct in (0, 5, 10, 20):
        claims[slower_pct] = faster, slower = _claims_pct(runs, order, slower_pct / 100)
        name = f"{slower_pct} % slower" if slower_pct else "alike"
        print(f"{f'{name}, {A_SIDE} a side, drawn':<44} {faster:>7.1f} {slower:>7.1f}", flush=True)
    false_pct, detected_pct = sum(claims[0]), claims[5][1]
    print()
    reached = "reached" if false_pct <= FALSE_BAR_PCT else "not reached"
    bar = f"bar ≤ {FALSE_BAR_PCT:g} %"
    print(f"{'said of runs that are alike':<44} {false_pct:.1f} %  {bar}  {reached}")
    reached = "reached" if detected_pct >= DETECTED_BAR_PCT else "not reached"
    bar = f"bar ≥ {DETECTED_BAR_PCT:g} %"
    print(f"{'found of a 5 % slow-down':<44} {detected_pct:.1f} %  {bar}  {reached}")


def _arguments() -> argparse.Namespace:
    parser = harness.parser(__doc__)
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


def _record(logs: Path, arguments: argparse.Namespace) -> None:
    """Record the runs one after another, with real processes."""
    command = [harness.dlmon_command(), "sweep", arguments.workload, "--plain"]
    command += ["--repeat", str(arguments.runs), "--seconds", str(arguments.seconds)]
    command += ["--epochs", "1", "--data", "synthetic", "--log-dir", str(logs)]
    done = subprocess.run(command, stdout=subprocess.DEVNULL, check=False)
    if done.returncode:
        raise CannotRun(f"the runs could not be made (exit code {done.returncode})")


def _read(logs: Path) -> list[RunFigures]:
    """Return the runs that have a throughput, in the order of their recording."""
    entries = [entry for entry in list_sessions(logs) if entry.status == Status.COMPLETED]
    runs = [read_figures(entry.path) for entry in entries]
    return [
        replace(run, values={THROUGHPUT: run.values[THROUGHPUT]}, curve=None)
        for run in runs
        if THROUGHPUT in run.values
    ]


def _claims_pct(
    runs: Sequence[RunFigures], order: random.Random, slower_by: float
) -> tuple[float, float]:
    """Return the percentages of comparisons that say faster and that say slower."""
    claims: Counter[Claim] = Counter()
    for _ in range(COMPARISONS):
        sample = order.sample(runs, 2 * A_SIDE)
        new = [_slowed(run, slower_by) for run in sample[A_SIDE:]]
        claims[compare_sides(sample[:A_SIDE], new, ()).claim] += 1
    return 100 * claims[Claim.FASTER] / COMPARISONS, 100 * claims[Claim.SLOWER] / COMPARISONS


def _slowed(run: RunFigures, share: float) -> RunFigures:
    """Return the run with all its throughputs lower by a share."""
    rate = run.values[THROUGHPUT] * (1 - share)
    windows = [(samples, round(time_us / (1 - share))) for samples, time_us in run.windows]
    return replace(run, values={**run.values, THROUGHPUT: rate}, windows=windows)


if __name__ == "__main__":
    harness.run(main)
