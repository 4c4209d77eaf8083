"""What many viewers of one session cost its training.

Measured: the mean time of a step of the steady part of training, in windows of one and the same
run that `dlmon run --detach` began. In half of the windows ten viewers follow it, live screens of
120×40 and plain lines by turns; in the other half they are stopped (SIGSTOP). Two windows make a
round, in random order; the figure is the median over the rounds of the ratio of their steps. Before
each window the viewers catch up with what they missed, which doesn't count. Rounds in which other
processes took a part of the machine are left out, and a few more are measured for them.

The viewers take processor time, on this same machine: `--cpus` keeps training to as many, so that
what is left of the machine is theirs, as where they watch from elsewhere.
"""

from __future__ import annotations

import argparse
import itertools
import os
import signal
import subprocess
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean

import harness
from cost import cpu_s
from estimate import estimate_median, spread, verdict
from harness import CannotRun, machine_cpu_s
from perturbation import durations_s
from terminal import Terminal
from windows import Moment, Round, Window, measure_rounds, quiet_rounds, window_between

from dlmon.launch.children import die_with_parent
from dlmon.log.directory import list_sessions
from dlmon.log.follower import LogFollower
from dlmon.records import Batches

BAR_PCT = 1.0
# The viewers have caught up after it.
SETTLE_S, WINDOW_S = 1.5, 3.0
MIN_ROUNDS, MIN_STEPS = 3, 3
WATCHED, ALONE = "watched", "alone"
TIMEOUT_S = 120.0
STEADY_BATCHES = 50


@dataclass
class Run:
    """A session that trains, and the ends of its batches in monotonic ns."""

    follower: LogFollower
    supervisor: int
    ended: list[tuple[int, int]] = field(default_factory=list)

    def read(self) -> None:
        """Take the batches that ended since the last call."""
        for record in self.follower.poll():
            if isinstance(record, Batches):
                after_us = itertools.accumulate(record.dt_us[1:], initial=0)
                ends = [record.t + us * 1000 for us in after_us]
                self.ended += enumerate(ends, record.first)

    def steps_s(self, window: Window) -> list[float]:
        """Return the steps in a window."""
        return durations_s((i, t) for i, t in self.ended if window.begin <= t < window.end)


def main() -> None:
    arguments = _arguments()
    with tempfile.TemporaryDirectory(prefix="dlmon-bench-") as folder, ExitStack() as viewers:
        run = _begin(Path(folder), arguments)
        try:
            _wait_until_steady(run)
            pids = _attach(Path(folder), arguments.viewers, viewers)
            rounds = measure_rounds(
                lambda side: _measure(run, side == WATCHED, pids),
                (WATCHED, ALONE),
                arguments.rounds,
                arguments.seed,
            )
            # What a window held may be written a moment after it.
            time.sleep(1.0)
            run.read()
        finally:
            os.kill(run.supervisor, signal.SIGTERM)
        _print(run, rounds, arguments)


def _print(run: Run, rounds: list[Round], arguments: argparse.Namespace) -> None:
    # A window that lies in the opening of an epoch has hardly a step.
    rounds = [one for one in rounds if all(len(run.steps_s(w)) >= MIN_STEPS for w in one.values())]
    least = min(MIN_ROUNDS, arguments.rounds)
    if len(rounds) < least:
        raise CannotRun(f"the steps of {arguments.workload} are too long for these windows")
    rounds = quiet_rounds(rounds, least, arguments.workload)
    followed, alone = (
        [mean(run.steps_s(one[side])) * 1000 for one in rounds] for side in (WATCHED, ALONE)
    )
    name = f"{arguments.viewers} viewers"
    print(f"{'step, without viewers':<44} {spread(alone, 3)} ms")
    print(f"{f'step, {name}':<44} {spread(followed, 3)} ms")
    cpu = spread([one[WATCHED].own_pct for one in rounds])
    print(f"{f'CPU of {name}, together':<44} {cpu} % of a core (context)")
    slower = [(one / other - 1) * 100 for one, other in zip(followed, alone, strict=True)]
    print(verdict(f"slow-down by {name}", estimate_median(slower), BAR_PCT, "%"))


def _begin(folder: Path, arguments: argparse.Namespace) -> Run:
    """Start a run that goes on without us."""
    command = [harness.dlmon_command(), "run", arguments.workload, "--detach", "--device", "cpu"]
    command += ["--data", "synthetic", "--epochs", "1000", "--log-dir", str(folder)]
    command += ["--cpus", str(arguments.cpus)] if arguments.cpus else []
    ran = subprocess.run(command, capture_output=True, text=True)
    entries = list_sessions(folder)
    if ran.returncode or not entries or entries[0].pid is None:
        raise CannotRun(f"no run was started: {ran.stderr.strip()}")
    return Run(LogFollower(entries[0].path), entries[0].pid)


def _wait_until_steady(run: Run) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while len(run.ended) < STEADY_BATCHES:
        if time.monotonic() > deadline:
            raise CannotRun("the run did not begin to train")
        time.sleep(0.2)
        run.read()


def _attach(folder: Path, count: int, viewers: ExitStack) -> list[int]:
    """Attach viewers, every second of them a screen; return their pids."""
    command = [harness.dlmon_command(), "attach", "last", "--log-dir", str(folder)]
    pids = []
    for number in range(count):
        if number % 2 == 0:
            terminal = viewers.enter_context(Terminal(command, "Throughput"))
            terminal.first_seen(TIMEOUT_S)
            pids.append(terminal.pid)
            continue
        plain = subprocess.Popen(
            [*command, "--plain"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=die_with_parent(os.getpid()),
        )
        viewers.callback(plain.wait)
        viewers.callback(plain.kill)
        pids.append(plain.pid)
    return pids


def _measure(run: Run, on: bool, pids: list[int]) -> Window:
    for pid in pids:
        os.kill(pid, signal.SIGCONT if on else signal.SIGSTOP)
    time.sleep(SETTLE_S)
    run.read()
    before = _cpu_now(run, pids)
    time.sleep(WINDOW_S)
    return window_between(before, _cpu_now(run, pids))


def _cpu_now(run: Run, pids: list[int]) -> Moment:
    viewers_s = sum(map(cpu_s, pids))
    session = [run.supervisor, *_children(run.supervisor)]
    ours_s = viewers_s + sum(map(cpu_s, session)) + time.process_time()
    return Moment(time.monotonic_ns(), viewers_s, ours_s, machine_cpu_s())


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workload", default="mnist-mlp-small")
    parser.add_argument("--viewers", type=int, default=10)
    parser.add_argument("--cpus", type=int, help="as for dlmon run: keep training to so many")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="three rounds")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.rounds = 3
    return arguments


if __name__ == "__main__":
    harness.run(main)
