"""Measure the slow-down of a real training run under dlmon's live screen.

Measured: the mean time of a step in steady training, in windows of the same run, in a pty of
120×40. In half of the windows all of dlmon runs: viewer, supervisor, sensors and callback. In the
other half the three processes are stopped (SIGSTOP), and the callback only notes the time of each
batch, as it always does. Two windows in random order are a round; the figure is the median over the
rounds of the ratio of their steps. Before each window dlmon runs for a while that doesn't count, to
catch up after a stop. A stop is shorter than the supervisor's time limit for the sensors. Rounds
that other processes disturbed are replaced by a few more rounds.

With --exec, a script of Keras or PyTorch runs under `dlmon exec`. Then each round has a third
window, with a progress bar instead of dlmon: Keras's own, or tqdm. While dlmon is stopped, its
hooks are removed from the framework too (scripts/watched_loop.py).
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
# After the first, dlmon has caught up; after the second, the training has the caches.
SETTLE_S, STOPPED_SETTLE_S = 1.2, 0.2
# Whole periods of sensors and screen; and less than the supervisor's time limit for sensors.
WINDOW_S, STOPPED_WINDOW_S = 2.0, 1.2
MIN_ROUNDS, MIN_STEPS = 5, 3
# Rounds in which other processes take more are measured again, up to this many tries.
QUIET_PCT, MAX_TRIES = 15.0, 1.4
TIMEOUT_S = 180.0
POLL_S = 0.2
# Time for the sensors to send the sample that was due while they were stopped.
RESUME_S = 0.2
OWN = ("sensors", "supervisor", "viewer")
# The sides that windows compare, and the byte of the switch for each.
BARE, DLMON, PROGRESS_BAR = "bare", "dlmon", "progress bar"
SWITCH = {BARE: b"\0", DLMON: b"\1", PROGRESS_BAR: b"\2"}
LEAVE = b"\3"

Span = tuple[int, int, int]
"""A number of steps, their begin and their end, in monotonic ns."""


@dataclass(frozen=True)
class Window:
    """A part of a run in monotonic ns; CPU of dlmon and of other processes in % of a core."""

    begin: int
    end: int
    own_pct: float
    others_pct: float

    def step_ms(self, spans: Sequence[Span]) -> float | None:
        """Return the mean step of the spans in it; None if they have too few steps."""
        within = [(n, end - t) for n, t, end in spans if self.begin <= t and end <= self.end]
        steps = sum(count for count, _ in within)
        return sum(ns for _, ns in within) / steps / 1e6 if steps >= MIN_STEPS else None


Round = dict[str, Window]
"""One window of each side."""


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
    # A window during a validation has hardly any steps.
    rounds = [r for r in rounds if all(window.step_ms(spans) for window in r.values())]
    least = min(MIN_ROUNDS, arguments.rounds)
    if len(rounds) < least:
        raise CannotRun(f"the steps of {name} are too long for these windows")
    rounds = _quiet_rounds(rounds, least, name)
    step_ms = {side: [r[side].step_ms(spans) or 0.0 for r in rounds] for side in sides}
    for side, windows_ms in step_ms.items():
        print(f"{f'{name}: step, {side}':<44} {spread(windows_ms, 3)} ms")
    own_pct = spread([r[DLMON].own_pct for r in rounds])
    print(f"{f'{name}: CPU of dlmon':<44} {own_pct} % of a core (context)")
    for side, against, bar_pct in ((DLMON, BARE, BAR_PCT), (DLMON, PROGRESS_BAR, 0.0)):
        if against in sides:
            pairs = zip(step_ms[side], step_ms[against], strict=True)
            slower_pct = estimate_median([(ms / against_ms - 1) * 100 for ms, against_ms in pairs])
            line = verdict(f"{name}: {side} against {against}", slower_pct, bar_pct, "%")
            print(line, flush=True)


def _run_command(name: str, folder: Path, arguments: argparse.Namespace) -> list[str]:
    try:
        workload = find(name)
    except UnknownWorkload as error:
        raise CannotRun(str(error)) from None
    script = (harness.script("timed_training.py"), str(folder / "times"), str(folder / "switch"))
    job = Job(
        workload=workload.name,
        command=(sys.executable, "-P", *script),
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
    """Run a command in a terminal, and measure rounds until enough of them are quiet.

    Args:
        command: dlmon, which logs into `folder`/logs.
        script: a part of the command line of the training process, which reads `folder`/switch.
        sides: the sides of a round, measured in random order.
        folder: the folder of the command's files.
        arguments: the options of the bench.

    Raises:
        CannotRun: the command or its sensors ended.
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
    """Return the undisturbed rounds, or all if those are too few; print how many were disturbed."""
    quiet = list(filter(_is_quiet, rounds))
    if len(quiet) < len(rounds):
        action = "left out" if len(quiet) >= least else "disturbed, and not left out"
        count = f"{len(rounds) - len(quiet)} of {len(rounds)} rounds"
        words = f"other processes took over {QUIET_PCT:g} % of a core"
        print(f"{f'{name}: {action}':<44} {count}: {words}")
    return quiet if len(quiet) >= least else rounds


def _is_quiet(windows: Round) -> bool:
    return all(window.others_pct <= QUIET_PCT for window in windows.values())


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
        # The supervisor must find a sample, or it restarts the sensors.
        _signal("sensors", pids, signal.SIGCONT)
        time.sleep(RESUME_S)
        for name in ("supervisor", "viewer"):
            _signal(name, pids, signal.SIGCONT)
    percent = 1e11 / (end - begin)
    others_s = machine_end_s - machine_s - (ours_end_s - ours_s)
    return Window(begin, end, (own_end_s - own_s) * percent, max(0.0, others_s * percent))


def _now(pids: dict[str, int]) -> tuple[int, float, float, float]:
    """Return the time, and the CPU seconds of dlmon, of dlmon with the run and us, and of all."""
    own_s = sum(cpu_s(pids[name]) for name in OWN)
    ours_s = own_s + cpu_s(pids["workload"]) + time.process_time()
    return time.monotonic_ns(), own_s, ours_s, machine_cpu_s()


def _signal(name: str, pids: dict[str, int], number: signal.Signals) -> None:
    try:
        os.kill(pids[name], number)
    except ProcessLookupError:
        raise CannotRun(f"the {name} ended while it was measured") from None


def _set(switch: Path, byte: bytes) -> None:
    # Written in place, because the workload has mapped this file.
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
    """Return the new records up to the first of this kind."""
    records: list[Record] = []
    deadline = time.monotonic() + TIMEOUT_S
    while not any(isinstance(record, kind) for record in records):
        if any(isinstance(record, Result) for record in records) or time.monotonic() > deadline:
            raise CannotRun("the run under dlmon ended too soon, or not at all")
        time.sleep(POLL_S)
        records += follower.poll()
    return records


if __name__ == "__main__":
    harness.run(main)
