"""Compare two ways to measure two processes on one machine: in turns, and one after the other.

Both processes train the same (PyTorch, about 1.3 ms a step), so the true ratio of their rates is
1. Both are alive; their supervisors suspend one while the other runs. Of each pair of processes,
their rates are measured in short turns, and with one long turn each, in random order and for the
same time in all. Printed: the logarithm of the ratio of the rates, of each pair, and how far
these lie apart. The first 0.02 s of each turn are left out.
"""

from __future__ import annotations

import math
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev

import harness
from harness import CannotRun

from dlmon.launch.supervisor_process import launch
from dlmon.log.log_follower import LogFollower
from dlmon.protocol.job import Job, Refused
from dlmon.protocol.stop import FROM_SCREEN, RESUME, SUSPEND
from dlmon.records import Batches, Suspended
from dlmon.statistics.intervals import mean_half_width
from dlmon.statistics.turns import Step, Turn, sum_of_turns, turn_sums

SCRIPT = Path(__file__).with_name("scripts") / "short_steps.py"
WARM_UP_STEPS = 1500
GUARD_S = 0.02
TIMEOUT_S = 120.0


class Process:
    """A process that trains, with its supervisor."""

    def __init__(self, python: str, logs: Path) -> None:
        command = (python, str(SCRIPT))
        job = Job("short_steps.py", command, {"interval": 1.0}, str(logs), script=True)
        self._supervisor = launch(job)
        answer = self._supervisor.answer()
        if isinstance(answer, Refused):
            raise CannotRun(answer.reason)
        self._follower = LogFollower(Path(answer.log))
        self._batches: list[Batches] = []
        self._suspensions: dict[int, Suspended] = {}
        """By their begin, in order."""

    def wait_until_warm(self) -> None:
        self._wait_for(lambda: sum(len(b.dt_us) for b in self._batches) >= WARM_UP_STEPS)

    def suspend(self) -> None:
        self._supervisor.send(SUSPEND)
        self._wait_for(self._is_suspended)

    def resume(self) -> None:
        self._supervisor.send(RESUME)
        self._wait_for(lambda: not self._is_suspended())

    def stop(self) -> None:
        self._supervisor.send(FROM_SCREEN)
        self._supervisor.process.wait(TIMEOUT_S)

    def rate(self, begin_ns: int, end_ns: int) -> float:
        """Return the samples per second in the turns that it had in a time."""
        turns, since = [], begin_ns
        for suspension in self._suspensions.values():
            turns.append(Turn(since, min(max(since, suspension.t), end_ns)))
            since = max(begin_ns, suspension.until or end_ns)
        steps = (step for batches in self._batches for step in _steps_of(batches))
        rate = sum_of_turns(turn_sums(steps, turns, GUARD_S)).rate
        if rate is None:
            raise CannotRun("a process ended no step in its turns")
        return rate

    def _is_suspended(self) -> bool:
        return any(suspension.until is None for suspension in self._suspensions.values())

    def _wait_for(self, condition: Callable[[], bool]) -> None:
        until = time.monotonic() + TIMEOUT_S
        while not condition():
            if time.monotonic() > until:
                raise CannotRun("a process did not train, or its supervisor did not answer")
            time.sleep(0.002)
            for record in self._follower.poll():
                if isinstance(record, Batches):
                    self._batches.append(record)
                elif isinstance(record, Suspended):
                    self._suspensions[record.t] = record


def _steps_of(batches: Batches) -> Iterator[Step]:
    end_ns = batches.begin
    for dt_us, samples in zip(batches.dt_us, batches.counted, strict=True):
        end_ns += dt_us * 1000
        yield Step(end_ns, dt_us * 1000, samples)


def _log_ratio(
    pair: Sequence[Process], turn_s: float, seconds: float, order: random.Random
) -> float:
    """Let two suspended processes take turns for a time; return the log of their rates' ratio."""
    begin_ns = time.monotonic_ns()
    for _ in range(round(seconds / 2 / turn_s)):
        # In a fixed order, what happens each second on a machine could meet one of them only.
        for process in order.sample(pair, len(pair)):
            process.resume()
            time.sleep(turn_s)
            process.suspend()
    first, second = (process.rate(begin_ns, time.monotonic_ns()) for process in pair)
    return math.log(first / second)


def _measure_pair(
    python: str, logs: Path, seconds: float, turns_s: Mapping[str, float], order: random.Random
) -> dict[str, float]:
    """Return the log of the ratio of two new processes by each way of `turns_s`."""
    pair = [Process(python, logs), Process(python, logs)]
    try:
        for process in pair:
            process.wait_until_warm()
            process.suspend()
        ways = order.sample(sorted(turns_s), len(turns_s))
        return {way: _log_ratio(pair, turns_s[way], seconds, order) for way in ways}
    finally:
        for process in pair:
            process.stop()


def main() -> None:
    parser = harness.parser(__doc__)
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=12.0, help="of each pair, each way")
    parser.add_argument(
        "--turns", type=float, nargs="+", default=[0.125, 0.5], help="their seconds"
    )
    parser.add_argument("--python", default=sys.executable, help="the one that has PyTorch")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    turns_s = {f"turns of {turn_s:g} s": turn_s for turn_s in arguments.turns}
    turns_s["one after the other"] = arguments.seconds / 2
    order, ratios = random.Random(arguments.seed), {way: list[float]() for way in turns_s}
    with tempfile.TemporaryDirectory(prefix="dlmon-bench-") as logs:
        for number in range(1, arguments.pairs + 1):
            of_pair = _measure_pair(
                *(arguments.python, Path(logs), arguments.seconds, turns_s, order)
            )
            for way, ratio in of_pair.items():
                ratios[way].append(ratio)
            texts = [f"{way} {100 * of_pair[way]:+6.2f} %" for way in turns_s]
            print(f"pair {number:>2}: {', '.join(texts)}", flush=True)
    for way, of_way in ratios.items() if arguments.pairs > 1 else ():
        half_pct = 100 * mean_half_width(of_way)
        print(
            f"{way:<20} apart by {100 * stdev(of_way):.2f} % (standard deviation), "
            f"mean {100 * mean(of_way):+.2f} ± {half_pct:.2f} %"
        )


if __name__ == "__main__":
    harness.run(main)
