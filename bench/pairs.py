"""Check the verdicts of `dlmon ab` where both sides are the same, and where one is slower.

By simulation: experiments whose pairs are drawn from the noise of the pairs that logs of `ab` hold
(--logs), stopped by the rule of `dlmon.statistics.pairs`. Printed: how often the interval holds the
truth, and how often a difference is claimed that isn't there.

With --real N: N experiments of a loop of about 1.3 ms steps against itself, and N against one that
sleeps 0.1 ms before each fourth step, about 5 % of a step. They take at most --time each. The loop
is PyTorch's; with --numpy NumPy's, of which more pairs fit into a minute. Printed too: the time of
a pair beside its windows and the starts of its scripts, until their first step. It includes the
ends of the scripts, 0.1 s with NumPy and 0.7 s with PyTorch.
"""

from __future__ import annotations

import json
import math
import random
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import closing
from itertools import groupby, product
from pathlib import Path
from statistics import mean, median

import harness
from harness import CannotRun

from dlmon.log.folder import log_of
from dlmon.log.log_follower import LogFollower, RecordFollower
from dlmon.records import Batches, Ended, SweepHeader
from dlmon.statistics.pairs import FIRST_PAIRS, is_proven_early, paired_ratio, pairs_needed
from dlmon.sweep.log import list_sweeps
from dlmon.sweep.pairs import verdict_of
from dlmon.sweep.turns import TurnTimes

SCRIPTS = Path(__file__).with_name("scripts")
SIDES = {"alike": "env:SIDE=1,2", "slower": "env:SLEEP_MS=0,0.1"}
EXPERIMENTS = 2000
MOST_PAIRS = 40
TO = 0.02
SLOWER = 1.05


def noise_of(logs: Sequence[Path]) -> list[tuple[float, float | None]]:
    """Return the logarithms of the ratios of recorded pairs, less the mean of each experiment.

    With each comes its error by the turns of the pair, if known.
    """
    noise: list[tuple[float, float | None]] = []
    for directory in logs:
        for entry in list_sweeps(directory):
            if entry.plan.pairs is None:
                continue
            pairs = [pair for pair in verdict_of(entry.sweep).counted if pair.ratio]
            if len(pairs) > 1:
                values = [math.log(pair.ratio or math.nan) for pair in pairs]
                # The mean of few pairs takes part of their spread away.
                scale = math.sqrt(len(values) / (len(values) - 1))
                centred = (scale * (value - mean(values)) for value in values)
                noise += zip(centred, (pair.error for pair in pairs), strict=True)
    return noise


def simulate(
    noise: Sequence[tuple[float, float | None]], truth: float, until_proven: bool
) -> tuple[float, float, float]:
    """Return the shares of intervals with the truth and of claims, and the mean number of pairs."""
    source, held, claimed, pairs = random.Random(1), 0, 0, 0
    for _ in range(EXPERIMENTS):
        ratios: list[float] = []
        errors: list[float | None] = []
        while len(ratios) < min(MOST_PAIRS, pairs_needed(ratios, errors, TO) or FIRST_PAIRS):
            value, error = source.choice(noise)
            ratios.append(truth * math.exp(value))
            errors.append(error)
            if until_proven and is_proven_early(ratios, errors):
                break
        ratio = paired_ratio(ratios, errors)
        assert ratio is not None
        held += ratio.holds(truth)
        claimed += ratio.is_proven
        pairs += len(ratios)
    return held / EXPERIMENTS, claimed / EXPERIMENTS, pairs / EXPERIMENTS


def added_s(directory: Path) -> list[float]:
    """Return what each pair took beside its windows, and the starts of its scripts."""
    added = []
    for entry in list_sweeps(directory):
        with closing(RecordFollower(entry.path, SweepHeader)) as follower:
            ends = [event for event in follower.poll() if isinstance(event, Ended)]
        before_wall = max(end.wall for end in ends if end.slot.repeat == 0)
        for _, pair in groupby((end for end in ends if end.slot.repeat), lambda e: e.slot.repeat):
            both = list(pair)
            ended_wall = max(end.wall for end in both)
            spent_s = sum(_start_and_window_s(directory / (e.outcome.session or "")) for e in both)
            added.append(ended_wall - before_wall - spent_s)
            before_wall = ended_wall
    return added


def _start_and_window_s(session: Path) -> float:
    with closing(LogFollower(log_of(session))) as follower:
        records = follower.poll()
        begin_ns = follower.header.t
    times = TurnTimes()
    times.add(records)
    first_step_ns = next(record.t for record in records if isinstance(record, Batches))
    return (first_step_ns - begin_ns) / 1e9 + times.seconds


def real(
    script: Sequence[str], vary: str, logs: Path, window: str, time: str
) -> tuple[str, float, int]:
    """Make one experiment; return its verdict, its ratio and its number of pairs."""
    command = [sys.executable, "-P", "-c", "from tui.start import main; main()", "ab"]
    command += ["--vary", vary, "--window", window, "--for", time, "--to", "2%", "--json"]
    command += ["--log-dir", str(logs), "--", *script]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not done.stdout.strip():
        raise CannotRun(done.stderr.strip().splitlines()[-1] if done.stderr else "no answer")
    told = json.loads(done.stdout)
    if not told["pairs"]:
        raise CannotRun("not one pair could be made: does the script run, and is --time enough?")
    return told["verdict"], told["ratio"] or math.nan, len(told["pairs"])


def main() -> None:
    parser = harness.parser(__doc__)
    parser.add_argument("--logs", type=Path, nargs="*", default=[], metavar="DIR")
    parser.add_argument("--real", type=int, default=0, metavar="N")
    parser.add_argument("--sides", nargs="+", choices=SIDES, default=list(SIDES))
    parser.add_argument("--python", default=sys.executable, help="an interpreter with PyTorch")
    parser.add_argument("--numpy", action="store_true", help="a loop of NumPy's")
    parser.add_argument("--window", default="2s")
    parser.add_argument("--time", default="2m")
    options = parser.parse_args()
    noise = noise_of(options.logs)
    if noise:
        spread = math.sqrt(mean(value * value for value, _ in noise))
        print(f"{len(noise)} recorded pairs, which lie {100 * spread:.1f} % apart")
        for truth, until_proven in product((1.0, 1 / SLOWER), (False, True)):
            held, claimed, pairs = simulate(noise, truth, until_proven)
            rule = "until proven, " if until_proven else ""
            print(
                f"{rule}ratio {truth:.3f}: the interval holds it in {100 * held:.1f} %, a "
                f"difference is claimed in {100 * claimed:.1f} % of {EXPERIMENTS:,}, "
                f"after {pairs:.1f} pairs"
            )
    file_name = "short_numpy_steps.py" if options.numpy else "short_steps.py"
    script = [options.python, str(SCRIPTS / file_name)]
    for name in options.sides:
        verdicts, added = [], []
        for _ in range(options.real):
            with tempfile.TemporaryDirectory() as folder:
                verdict, ratio, pairs = real(
                    script, SIDES[name], Path(folder), options.window, options.time
                )
                added += added_s(Path(folder))
            verdicts.append(verdict)
            print(f"{name}: {verdict}, ratio {ratio:.3f}, {pairs} pairs", flush=True)
        if verdicts:
            claims = sum(verdict != "no clear difference" for verdict in verdicts)
            print(f"{name}: a difference is claimed in {claims} of {len(verdicts)}")
            print(f"{name}: a pair takes {median(added):.1f} s beside its windows and starts")


if __name__ == "__main__":
    harness.run(main)
