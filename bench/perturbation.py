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
(scripts/watched_loop.py). The windows of a round lie seconds apart, and this
machine changes by more than a percent within that; so the hooks alone are
measured too, beside dlmon at work, in turns of a second without their first
epochs.

With --separate, the sides are runs of their own: `dlmon run` in a pty against
the same workload, built and fitted by the same code with a callback that only
keeps the time. Two equal runs of TensorFlow differ by several percent here (by
how their memory lies, and by what else the machine does in that minute), so
this needs dozens of rounds to say anything about two percent.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from statistics import mean

import harness
from cost import cpu_s, processes_of
from estimate import estimate_median, spread, verdict
from harness import CannotRun, end_tree, machine_cpu_s
from terminal import Terminal
from windows import Moment, Round, Window, measure_rounds, quiet_rounds, window_between

from dlmon.launch.children import die_with_parent
from dlmon.launch.job import Job
from dlmon.log.folder import LogError
from dlmon.log.follower import LogFollower
from dlmon.records import Batches, Notice, Record, Result
from workloads.catalog import UnknownWorkload, Workload, find

BAR_PCT = 1.0
WARM_UP_BATCHES, WARM_UP_NS = 10, 2_000_000_000
# dlmon has caught up after the first; caches have changed hands after the second.
SETTLE_S, STOPPED_SETTLE_S = 1.2, 0.2
# Whole periods of the sensors and of the screen; and what fits their supervisor's patience.
WINDOW_S, STOPPED_WINDOW_S = 2.0, 1.2
MIN_ROUNDS, MIN_STEPS = 5, 3
PROBE_STEPS = 40
TIMEOUT_S = 180.0
POLL_S = 0.2
# Long enough for the sensors to give the sample that was due while they were stopped.
RESUME_S = 0.2
OWN = ("sensors", "supervisor", "viewer")
# What is at work in a window; the bytes of the switch say it to the run.
BARE, DLMON, PROGRESS_BAR = "bare", "dlmon", "progress bar"
SWITCH = {BARE: b"\0", DLMON: b"\1", PROGRESS_BAR: b"\2"}
LEAVE, IN_TURN = b"\3", b"\4"
TURN_S = 2.5

# Index and end of a batch; an index of 0 begins an epoch.
Ended = list[tuple[int, int]]
Options = dict[str, str | int | float | None]


def main() -> None:
    arguments = _arguments()
    if arguments.framework:
        _compare_script(arguments)
        return
    measure = _compare_runs if arguments.separate else _compare_windows
    for name in arguments.workloads.split(","):
        measure(_find(name), arguments)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
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
    parser.add_argument("--seconds", type=float, default=8.0, help="of each run with --separate")
    parser.add_argument("--plain", action="store_true", help="dlmon's plain lines, not its screen")
    parser.add_argument("--separate", action="store_true", help="compare runs, not windows")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--quick", action="store_true", help="three rounds of windows, or one of runs"
    )
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.rounds = 1 if arguments.separate else 3
    return arguments


def _print(
    name: str, dlmon_ms: list[float], bare_ms: list[float], own_pct: list[float], side: str
) -> None:
    print(f"{f'{name}: step, bare':<44} {spread(bare_ms, 3)} ms")
    print(f"{f'{name}: step, {side}':<44} {spread(dlmon_ms, 3)} ms")
    print(f"{f'{name}: CPU of {side}':<44} {spread(own_pct)} % of a core (context)")
    slower = [(one / other - 1) * 100 for one, other in zip(dlmon_ms, bare_ms, strict=True)]
    print(verdict(f"{name}: slow-down, {side}", estimate_median(slower), BAR_PCT, "%"), flush=True)


def _find(name: str) -> Workload:
    try:
        return find(name)
    except UnknownWorkload as error:
        raise CannotRun(str(error)) from None


def _options(workload: Workload, arguments: argparse.Namespace) -> Options:
    return {
        "workload": workload.name,
        "device": arguments.device,
        "backend": arguments.backend,
        "data": "synthetic",
        "batch_size": workload.batch_size,
        "steps": None,
        "epochs": 1000,
        "interval": arguments.interval,
    }


# Windows of one run


def _compare_windows(workload: Workload, arguments: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory(prefix="dlmon-bench-") as path:
        folder = Path(path)
        times, switch = folder / "times", folder / "switch"
        job = Job(
            workload=workload.name,
            command=(
                sys.executable,
                "-P",
                harness.script("timed_training.py"),
                str(times),
                str(switch),
            ),
            options=_options(workload, arguments),
            log_dir=str(folder / "logs"),
            device=arguments.device,
            interval_s=arguments.interval,
            pcie=arguments.pcie,
        )
        (folder / "job").write_bytes(job.to_line())
        command = [sys.executable, harness.script("shown_job.py"), str(folder / "job")]
        command += ["--plain"] if arguments.plain else []
        rounds = _measure(command, "timed_training.py", (DLMON, BARE), folder, arguments)
        ended: Ended = [(index, end) for index, end in json.loads(times.read_text())]
    # A window that lies in a validation has hardly a step.
    rounds = [
        one for one in rounds if all(len(_steps_s(w, ended)) >= MIN_STEPS for w in one.values())
    ]
    least = min(MIN_ROUNDS, arguments.rounds)
    if len(rounds) < least:
        raise CannotRun(f"the steps of {workload.name} are too long here; use --separate")
    rounds = quiet_rounds(rounds, least, workload.name)
    dlmon_ms, bare_ms = (
        [mean(_steps_s(one[side], ended)) * 1000 for one in rounds] for side in (DLMON, BARE)
    )
    side = "dlmon --plain" if arguments.plain else "dlmon"
    own_pct = [one[DLMON].own_pct for one in rounds]
    _print(workload.name, dlmon_ms, bare_ms, own_pct, side)


def _compare_script(arguments: argparse.Namespace) -> None:
    """Compare windows of a script under `dlmon exec`."""
    name, script = arguments.framework, "watched_loop.py"
    on = "" if arguments.threads is None else f" on {arguments.threads}"
    shown = f"{name} {arguments.network}{on}"
    with tempfile.TemporaryDirectory(prefix="dlmon-bench-") as path:
        folder = Path(path)
        times = folder / "times"
        command = [harness.dlmon_command(), "exec", "--log-dir", str(folder / "logs")]
        command += ["--interval", str(arguments.interval)]
        command += [f"--{name}" for name in ("plain", "pcie") if getattr(arguments, name)]
        command += ["--", arguments.python, str(harness.ROOT / "bench" / "scripts" / script)]
        command += [name, arguments.network, str(times), str(folder / "switch")]
        command += [] if arguments.threads is None else [str(arguments.threads)]
        rounds = _measure(command, script, (DLMON, BARE, PROGRESS_BAR), folder, arguments)
        epochs: list[tuple[int, int, int, int, int | None]] = json.loads(times.read_text())

    def step_ms(side: str, window: Window) -> float:
        """Return the mean step of the epochs that lie in a window."""
        within = [
            (steps, end - begin)
            for byte, steps, begin, end, _ in epochs
            if byte == SWITCH[side][0] and window.begin <= begin and end <= window.end
        ]
        if not within:
            raise CannotRun("no epoch fits into a window here")
        steps, took_ns = map(sum, zip(*within, strict=True))
        return took_ns / steps / 1e6

    rounds = quiet_rounds(rounds, min(MIN_ROUNDS, arguments.rounds), name)
    found = {
        side: [step_ms(side, one[side]) for one in rounds] for side in (DLMON, BARE, PROGRESS_BAR)
    }
    _print(shown, found[DLMON], found[BARE], [one[DLMON].own_pct for one in rounds], "dlmon exec")
    turns = _turns_ms(epochs)
    _compare_sides(shown, "slow-down, hooks alone", turns[DLMON], turns[BARE], BAR_PCT)
    _compare_sides(shown, "hooks alone against bar", turns[DLMON], turns[PROGRESS_BAR], 0.0)
    _compare_sides(shown, "slow-down, progress bar", found[PROGRESS_BAR], found[BARE], None)
    _compare_sides(shown, "dlmon exec against bar", found[DLMON], found[PROGRESS_BAR], 0.0)


def _turns_ms(epochs: list[tuple[int, int, int, int, int | None]]) -> dict[str, list[float]]:
    """Return the mean steps of what came in turn, without the first epoch of each."""
    found: dict[str, list[float]] = {side: [] for side in SWITCH}
    sides = {byte[0]: side for side, byte in SWITCH.items()}
    for byte, steps, begin, end, number in epochs:
        if number == 1:
            found[sides[byte]].append(0.0)
            took = [0, 0]
        if number:
            took = [took[0] + steps, took[1] + end - begin]
            found[sides[byte]][-1] = took[1] / took[0] / 1e6
    return found


def _compare_sides(
    name: str, what: str, ones: list[float], others: list[float], bar_pct: float | None
) -> None:
    """Print how much slower one side is than another; a bar of None is context."""
    figure = estimate_median([(a / b - 1) * 100 for a, b in zip(ones, others, strict=True)])
    if bar_pct is None:
        interval = f"[{figure.low:.2f} .. {figure.high:.2f}]"
        print(f"{f'{name}: {what}':<44} {figure.value:.2f} %  {interval}  (context)")
    else:
        print(verdict(f"{name}: {what}", figure, bar_pct, "%"), flush=True)


def _measure(
    command: list[str],
    script: str,
    sides: tuple[str, ...],
    folder: Path,
    arguments: argparse.Namespace,
) -> list[Round]:
    """Run a command in a terminal, and return the rounds of windows of what it trains.

    Args:
        command: dlmon, which logs into `folder`/logs.
        script: is in the command line of what trains, which looks at `folder`/switch.
        sides: of a round.
        folder: is empty but for files of the command.
        arguments: of the bench.

    Raises:
        CannotRun: it ended, or the sensors did.
    """
    switch = folder / "switch"
    switch.write_bytes(SWITCH[DLMON])
    with Terminal(command) as terminal:
        follower = _follow(folder / "logs", terminal)
        _wait_until_steady(follower, terminal)
        pids = processes_of(terminal.pid, script)
        rounds = measure_rounds(
            lambda side: _measure_window(side, pids, switch),
            sides,
            arguments.rounds,
            arguments.seed,
        )
        if arguments.framework:
            _set(switch, IN_TURN)
            time.sleep(TURN_S * arguments.rounds)
            _set(switch, LEAVE)
        else:
            _signal("workload", pids, signal.SIGUSR1)
        records = _read_to_result(follower)
        follower.close()
    lost = [r.text for r in records if isinstance(r, Notice) and "sensors" in r.text]
    if lost:
        raise CannotRun(f"the sensors did not outlast being stopped: {lost[0]}")
    return rounds


def _measure_window(side: str, pids: dict[str, int], switch: Path) -> Window:
    on = side == DLMON
    time.sleep(SETTLE_S)
    if not on:
        _stop(side, pids, switch)
        time.sleep(STOPPED_SETTLE_S)
    before = _cpu_now(pids)
    time.sleep(WINDOW_S if on else STOPPED_WINDOW_S)
    after = _cpu_now(pids)
    if not on:
        _resume(pids, switch)
    return window_between(before, after)


def _cpu_now(pids: dict[str, int]) -> Moment:
    own_s = _own_cpu_s(pids)
    ours_s = own_s + cpu_s(pids["workload"]) + time.process_time()
    return Moment(time.monotonic_ns(), own_s, ours_s, machine_cpu_s())


def _steps_s(window: Window, ended: Ended) -> list[float]:
    return durations_s((index, t) for index, t in ended if window.begin <= t < window.end)


def _wait_until_steady(follower: LogFollower, terminal: Terminal) -> None:
    """Wait for training to have run for the time of the warm-up."""
    deadline = time.monotonic() + TIMEOUT_S
    first_end: int | None = None
    while time.monotonic() < deadline and terminal.process.poll() is None:
        for record in follower.poll():
            if isinstance(record, Batches) and first_end is None:
                first_end = record.t
            elif isinstance(record, Result):
                raise CannotRun(f"the run under dlmon ended too soon: {record.error}")
        if first_end is not None and time.monotonic_ns() > first_end + WARM_UP_NS:
            return
        time.sleep(POLL_S)
    raise CannotRun("the run under dlmon did not begin to train")


def _stop(side: str, pids: dict[str, int], switch: Path) -> None:
    _set(switch, SWITCH[side])
    for name in reversed(OWN):
        _signal(name, pids, signal.SIGSTOP)


def _resume(pids: dict[str, int], switch: Path) -> None:
    _set(switch, SWITCH[DLMON])
    # The supervisor must find a sample when it looks, or it takes the sensors for dead.
    _signal("sensors", pids, signal.SIGCONT)
    time.sleep(RESUME_S)
    for name in ("supervisor", "viewer"):
        _signal(name, pids, signal.SIGCONT)


def _signal(name: str, pids: dict[str, int], number: signal.Signals) -> None:
    try:
        os.kill(pids[name], number)
    except ProcessLookupError:
        raise CannotRun(f"the {name} ended while it was measured") from None


def _set(switch: Path, byte: bytes) -> None:
    # In place: the workload has mapped this very file.
    with switch.open("r+b") as file:
        file.write(byte)


def _own_cpu_s(pids: dict[str, int]) -> float:
    return sum(cpu_s(pids[name]) for name in OWN)


# Runs of their own


def _compare_runs(workload: Workload, arguments: argparse.Namespace) -> None:
    order = random.Random(arguments.seed)
    options = _options_for(workload, arguments)
    side = "dlmon --plain" if arguments.plain else "dlmon"
    step_ms: dict[str, list[float]] = {"bare": [], side: []}
    own_pct: list[float] = []
    for _ in range(arguments.rounds):
        for one in order.sample(list(step_ms), 2):
            with tempfile.TemporaryDirectory(prefix="dlmon-bench-") as folder:
                if one == "bare":
                    step_ms[one].append(steady_step_ms(_train_bare(options, Path(folder))))
                else:
                    ended, used_pct = _train_shown(options, Path(folder), arguments)
                    step_ms[one].append(steady_step_ms(ended))
                    own_pct.append(used_pct)
    _print(workload.name, step_ms[side], step_ms["bare"], own_pct, side)


def _options_for(workload: Workload, arguments: argparse.Namespace) -> Options:
    """Return the options of runs that train for about `--seconds`, after a short run to find out.

    That run also warms the caches.
    """
    options = {**_options(workload, arguments), "steps": PROBE_STEPS, "epochs": 1}
    with tempfile.TemporaryDirectory(prefix="dlmon-bench-") as folder:
        ended = _train_bare(options, Path(folder))
    step_s = mean(durations_s(ended)[PROBE_STEPS // 2 :])
    steps = max(2 * WARM_UP_BATCHES, math.ceil((arguments.seconds + WARM_UP_NS / 1e9) / step_s))
    most = -(-workload.samples // workload.batch_size)
    epochs = -(-steps // most)
    return {**options, "steps": -(-steps // epochs), "epochs": epochs}


def _train_bare(options: Options, folder: Path) -> Ended:
    times = folder / "times"
    process = subprocess.Popen(
        [sys.executable, "-P", harness.script("timed_training.py"), str(times)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        start_new_session=True,
        preexec_fn=die_with_parent(os.getpid()),
    )
    _, errors = process.communicate(json.dumps(options).encode() + b"\n", timeout=TIMEOUT_S)
    if process.returncode:
        words = errors.decode("utf-8", "replace").strip().splitlines()
        raise CannotRun(f"the bare run failed: {words[-1] if words else process.returncode}")
    return [(index, end) for index, end in json.loads(times.read_text())]


def _train_shown(
    options: Options, folder: Path, arguments: argparse.Namespace
) -> tuple[Ended, float]:
    """Train under dlmon; return its batches, and dlmon's own CPU in % of a core."""
    command = [harness.dlmon_command(), "run", str(options["workload"]), "--log-dir", str(folder)]
    for name in ("device", "backend", "data", "batch_size", "steps", "epochs", "interval"):
        if options[name] is not None:
            command += [f"--{name.replace('_', '-')}", str(options[name])]
    command += [f"--{name}" for name in ("plain", "pcie") if getattr(arguments, name)]
    with Terminal(command) as terminal:
        follower = _follow(folder, terminal)
        _wait_until_steady(follower, terminal)
        pids = processes_of(terminal.pid, "-m workloads")
        begin, used_s = time.monotonic(), _own_cpu_s(pids)
        records = _read_to_result(follower)
        own_pct = (_own_cpu_s(pids) - used_s) / (time.monotonic() - begin) * 100
        follower.close()
        end_tree(terminal.pid)
    result = records[-1]
    if not isinstance(result, Result) or result.status != "completed":
        raise CannotRun("the run under dlmon was not completed")
    ended = [end for record in records if isinstance(record, Batches) for end in _ends(record)]
    return ended, own_pct


def _follow(folder: Path, terminal: Terminal) -> LogFollower:
    """Return a follower of the log that appears in `folder`."""
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline and terminal.process.poll() is None:
        for path in folder.glob("*/session.jsonl"):
            try:
                return LogFollower(path)
            except LogError as error:
                raise CannotRun(str(error)) from None
        time.sleep(POLL_S)
    raise CannotRun("dlmon started no session")


def _read_to_result(follower: LogFollower) -> list[Record]:
    """Return the records that come from now on, to the result."""
    records: list[Record] = []
    deadline = time.monotonic() + TIMEOUT_S
    while not records or not isinstance(records[-1], Result):
        if time.monotonic() > deadline:
            raise CannotRun(f"the run under dlmon was not over within {TIMEOUT_S:.0f} s")
        time.sleep(POLL_S)
        records += follower.poll()
    return records


def _ends(record: Batches) -> Ended:
    ends = itertools.accumulate(record.dt_us[1:], lambda t, us: t + us * 1000, initial=record.t)
    return list(enumerate(ends, record.first))


def durations_s(ended: Iterable[tuple[int, int]]) -> list[float]:
    """Return the durations of batches, without those that have none before them."""
    return [
        (end - before) / 1e9 for (_, before), (index, end) in itertools.pairwise(ended) if index > 0
    ]


def steady_step_ms(ended: Ended) -> float:
    """Return the mean step of the steady part of a run, in milliseconds."""
    begin = ended[0][1] + WARM_UP_NS
    steady = [(index, end) for index, end in ended[WARM_UP_BATCHES:] if end >= begin]
    if len(steady) < WARM_UP_BATCHES:
        raise CannotRun("the run was too short to become steady; raise --seconds")
    return mean(durations_s(steady)) * 1000


if __name__ == "__main__":
    os.environ.pop("DLMON_RECORDS_FD", None)
    harness.run(main)
