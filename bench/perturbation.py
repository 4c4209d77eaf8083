"""Slow-down of a real training run under dlmon's live screen.

Measured: the mean time of a step of the steady part of training, in windows of
one and the same run, in a pty of 120×40. In half of the windows all of dlmon is
at work: viewer, supervisor, sensors and callback. In the other half the three
processes are stopped (SIGSTOP), and the callback does nothing but keep the time
of the batch, as it does in the first half too. Two windows make a round, in
random order; the figure is the median over the rounds of the ratio of their
steps. Before each window dlmon runs for a while that doesn't count, so that it
has caught up with what it missed. A stop is shorter than the supervisor's
patience with silent sensors. Rounds in which other processes took a part of the
machine are left out, and a few more are measured for them.

With --exec, a script of Keras or PyTorch runs under `dlmon exec`. Then there is
a third window in each round: with a progress bar instead of dlmon, Keras's own
or tqdm. Where dlmon is stopped, its hooks are taken out of the framework too
(scripts/watched_loop.py).
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import harness
from cost import cpu_s, processes_of
from estimate import estimate_median, spread, verdict
from harness import CannotRun, machine_cpu_s
from terminal import Terminal

from dlmon.log.log_follower import LogFollower
from dlmon.protocol.job import Job
from dlmon.records import Batches, Notice, Record, Result
from workloads.catalog import UnknownWorkload, find

BAR_PCT = 1.0
WARM_UP_S = 2.0
# dlmon has caught up after the first; caches have changed hands after the second.
SETTLE_S, STOPPED_SETTLE_S = 1.2, 0.2
# Whole periods of the sensors and of the screen; and what fits their supervisor's patience.
WINDOW_S, STOPPED_WINDOW_S = 2.0, 1.2
MIN_ROUNDS, MIN_STEPS = 5, 3
# A round of windows in which other processes take more is measured once more, if there is time.
QUIET_PCT, MAX_TRIES = 15.0, 1.4
TIMEOUT_S = 180.0
POLL_S = 0.2
# Long enough for the sensors to give the sample that was due while they were stopped.
RESUME_S = 0.2
OWN = ("sensors", "supervisor", "viewer")
# What is at work in a window; the bytes of the switch say it to the run.
BARE, DLMON, PROGRESS_BAR = "bare", "dlmon", "progress bar"
SWITCH = {BARE: b"\0", DLMON: b"\1", PROGRESS_BAR: b"\2"}
LEAVE = b"\3"

Span = tuple[int, int, int]
"""So many steps, their begin and their end, in monotonic ns."""


@dataclass(frozen=True)
class Window:
    """A part of a run in monotonic ns; CPU of dlmon, and of others, in % of a core."""

    begin: int
    end: int
    own_pct: float
    others_pct: float

    def step_ms(self, spans: Sequence[Span]) -> float | None:
        """Return the mean step of what lies in it; None where that is hardly anything."""
        within = [(n, end - t) for n, t, end in spans if self.begin <= t and end <= self.end]
        steps = sum(count for count, _ in within)
        return sum(ns for _, ns in within) / steps / 1e6 if steps >= MIN_STEPS else None


Round = dict[str, Window]
"""A window of each side."""


def main() -> None:
    arguments = _arguments()
    names = [arguments.framework] if arguments.framework else arguments.workloads.split(",")
    for name in names:
        with tempfile.TemporaryDirectory(prefix="dlmon-bench-") as folder:
            _compare(name, Path(folder), arguments)


def _arguments() -> argparse.Namespace:
    parser = harness.parser(__doc__)
    parser.add_argument("--workloads", default="mnist-mlp-small,cifar10-cnn", metavar="A,B,...")
    parser.add_argument("--exec", choices=("keras", "pytorch"), dest="framework")
    parser.add_argument("--python", default=sys.executable, help="runs the script of --exec")
    parser.add_argument(
        "--network", choices=("small", "convnet"), default="small", help="of the script of --exec"
    )
    parser.add_argument(
        "--threads",
        type=int,
        help="that the convnet of --exec computes on; with fewer than there are cores, one is left "
        "to dlmon, as where a GPU trains",
    )
    parser.add_argument("--device", default="cpu", help="as for dlmon run")
    parser.add_argument("--backend", help="as for dlmon run")
    parser.add_argument("--interval", type=float, default=1.0, help="of the sensors, in seconds")
    parser.add_argument("--pcie", action="store_true", help="measure PCIe links too")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="three rounds")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.rounds = 3
    return arguments


def _compare(name: str, folder: Path, arguments: argparse.Namespace) -> None:
    if arguments.framework:
        command, script = _exec_command(folder, arguments), "watched_loop.py"
        sides: tuple[str, ...] = tuple(SWITCH)
        on = "" if arguments.threads is None else f" on {arguments.threads}"
        name = f"{name} {arguments.network}{on}"
    else:
        command, script = _run_command(name, folder, arguments), "timed_training.py"
        sides = (BARE, DLMON)
    rounds = _measure(command, script, sides, folder, arguments)
    spans: list[Span] = json.loads((folder / "times").read_text())
    # A window that lies in a validation has hardly a step.
    rounds = [one for one in rounds if all(w.step_ms(spans) for w in one.values())]
    least = min(MIN_ROUNDS, arguments.rounds)
    if len(rounds) < least:
        raise CannotRun(f"the steps of {name} are too long for these windows")
    rounds = _quiet_rounds(rounds, least, name)
    step_ms = {side: [one[side].step_ms(spans) or 0.0 for one in rounds] for side in sides}
    for side, each_ms in step_ms.items():
        print(f"{f'{name}: step, {side}':<44} {spread(each_ms, 3)} ms")
    own = spread([one[DLMON].own_pct for one in rounds])
    print(f"{f'{name}: CPU of dlmon':<44} {own} % of a core (context)")
    for side, against, bar_pct in ((DLMON, BARE, BAR_PCT), (DLMON, PROGRESS_BAR, 0.0)):
        if against in sides:
            pairs = zip(step_ms[side], step_ms[against], strict=True)
            found = estimate_median([(one / other - 1) * 100 for one, other in pairs])
            print(verdict(f"{name}: {side} against {against}", found, bar_pct, "%"), flush=True)


def _run_command(name: str, folder: Path, arguments: argparse.Namespace) -> list[str]:
    try:
        workload = find(name)
    except UnknownWorkload as error:
        raise CannotRun(str(error)) from None
    trains = (harness.script("timed_training.py"), str(folder / "times"), str(folder / "switch"))
    job = Job(
        workload=workload.name,
        command=(sys.executable, "-P", *trains),
        options={
            "workload": workload.name,
            "device": arguments.device,
            "backend": arguments.backend,
            "data": "synthetic",
            "batch_size": workload.batch_size,
            "steps": None,
            "epochs": 1000,
            "interval": arguments.interval,
        },
        log_dir=str(folder / "logs"),
        device=arguments.device,
        interval_s=arguments.interval,
        pcie=arguments.pcie,
    )
    (folder / "job").write_bytes(job.to_line())
    return [sys.executable, harness.script("shown_job.py"), str(folder / "job")]


def _exec_command(folder: Path, arguments: argparse.Namespace) -> list[str]:
    command = [harness.dlmon_command(), "exec", "--log-dir", str(folder / "logs")]
    command += ["--interval", str(arguments.interval), *["--pcie"] * arguments.pcie]
    command += ["--", arguments.python, harness.script("scripts/watched_loop.py")]
    command += [arguments.framework, arguments.network, str(folder / "times")]
    command += [str(folder / "switch")]
    return command + ([] if arguments.threads is None else [str(arguments.threads)])


def _measure(
    command: list[str],
    script: str,
    sides: Sequence[str],
    folder: Path,
    arguments: argparse.Namespace,
) -> list[Round]:
    """Run a command in a terminal, and return rounds of windows, until so many were quiet.

    Args:
        command: dlmon, which logs into `folder`/logs.
        script: is in the command line of what trains, which looks at `folder`/switch.
        sides: of a round, which come in random order.
        folder: is empty but for files of the command.
        arguments: of the bench.

    Raises:
        CannotRun: it ended, or the sensors did.
    """
    switch = folder / "switch"
    switch.write_bytes(SWITCH[DLMON])
    order, rounds = random.Random(arguments.seed), list[Round]()
    with Terminal(command) as terminal:
        follower = _follow(folder / "logs", terminal)
        _wait_for(follower, Batches)
        time.sleep(WARM_UP_S)
        pids = processes_of(terminal.pid, script)
        for _ in range(math.ceil(arguments.rounds * MAX_TRIES)):
            shuffled = order.sample(sides, len(sides))
            rounds.append({side: _measure_window(side, pids, switch) for side in shuffled})
            if sum(map(_is_quiet, rounds)) == arguments.rounds:
                break
        _set(switch, LEAVE)
        if not arguments.framework:
            _signal("workload", pids, signal.SIGUSR1)
        records = _wait_for(follower, Result)
        follower.close()
    lost = [r.text for r in records if isinstance(r, Notice) and "sensors" in r.text]
    if lost:
        raise CannotRun(f"the sensors did not outlast being stopped: {lost[0]}")
    return rounds


def _quiet_rounds(rounds: list[Round], least: int, name: str) -> list[Round]:
    """Return the rounds that nothing disturbed, or all where that are too few; print which."""
    quiet = list(filter(_is_quiet, rounds))
    if len(quiet) < len(rounds):
        what = "left out" if len(quiet) >= least else "disturbed, and not left out"
        count = f"{len(rounds) - len(quiet)} of {len(rounds)} rounds"
        words = f"other processes took over {QUIET_PCT:g} % of a core"
        print(f"{f'{name}: {what}':<44} {count}: {words}")
    return quiet if len(quiet) >= least else rounds


def _is_quiet(one: Round) -> bool:
    return all(window.others_pct <= QUIET_PCT for window in one.values())


def _measure_window(side: str, pids: dict[str, int], switch: Path) -> Window:
    on = side == DLMON
    time.sleep(SETTLE_S)
    if not on:
        _set(switch, SWITCH[side])
        for name in reversed(OWN):
            _signal(name, pids, signal.SIGSTOP)
        time.sleep(STOPPED_SETTLE_S)
    begin, own_s, ours_s, machine_s = _now(pids)
    time.sleep(WINDOW_S if on else STOPPED_WINDOW_S)
    end, own_end_s, ours_end_s, machine_end_s = _now(pids)
    if not on:
        _set(switch, SWITCH[DLMON])
        # The supervisor must find a sample when it looks, or it takes the sensors for dead.
        _signal("sensors", pids, signal.SIGCONT)
        time.sleep(RESUME_S)
        for name in ("supervisor", "viewer"):
            _signal(name, pids, signal.SIGCONT)
    percent = 1e11 / (end - begin)
    others_s = machine_end_s - machine_s - (ours_end_s - ours_s)
    return Window(begin, end, (own_end_s - own_s) * percent, max(0.0, others_s * percent))


def _now(pids: dict[str, int]) -> tuple[int, float, float, float]:
    """Return the time, and the CPU seconds of dlmon, of that and the run and us, and of all."""
    own_s = sum(cpu_s(pids[name]) for name in OWN)
    ours_s = own_s + cpu_s(pids["workload"]) + time.process_time()
    return time.monotonic_ns(), own_s, ours_s, machine_cpu_s()


def _signal(name: str, pids: dict[str, int], number: signal.Signals) -> None:
    try:
        os.kill(pids[name], number)
    except ProcessLookupError:
        raise CannotRun(f"the {name} ended while it was measured") from None


def _set(switch: Path, byte: bytes) -> None:
    # In place: the workload has mapped this very file.
    with switch.open("r+b") as file:
        file.write(byte)


def _follow(folder: Path, terminal: Terminal) -> LogFollower:
    """Return a follower of the log that appears in `folder`."""
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline and terminal.process.poll() is None:
        for path in folder.glob("*/session.jsonl"):
            return LogFollower(path)
        time.sleep(POLL_S)
    raise CannotRun(f"dlmon started no session: {terminal.last_output}")


def _wait_for(follower: LogFollower, kind: type[Batches] | type[Result]) -> list[Record]:
    """Return the records that come until there is one of this kind."""
    records: list[Record] = []
    deadline = time.monotonic() + TIMEOUT_S
    while not any(isinstance(record, kind) for record in records):
        if any(isinstance(record, Result) for record in records) or time.monotonic() > deadline:
            raise CannotRun("the run under dlmon ended too soon, or not at all")
        time.sleep(POLL_S)
        records += follower.poll()
    return records


if __name__ == "__main__":
    os.environ.pop("DLMON_RECORDS_FD", None)
    harness.run(main)
