"""What it costs to watch other machines over ssh, and how soon they are seen.

The hosts are real sshd processes on this machine, with GPUs of the tests' own driver
library: their readings change every second, and a process computes on each. The viewer
is the screen of `dlmon watch HOST...` in a pty of 120×40, at 1 Hz. Measured:

wire: the bytes a second, both ways together, between ssh and sshd of one watched host:
encrypted and compressed, counted in a relay between the two, without the headers of TCP
and IP. In the same windows those of nvitop over `ssh -t` on that host, where nvitop is
installed; beside it, as context, over `ssh -C -t`, which compresses as dlmon does.

hosts: the CPU time (the scheduler's own count, /proc/PID/schedstat) of one viewer of 32
hosts with its ssh processes, in percent of one core, and the oldest reading that it shows
since that was taken. The hosts are names of four sshd. They compute on this machine too,
and what they take is printed as context: where it leaves the viewer no processor, its
readings are old for that.

start: the time from the start of the command until the facts and the first sample of one
host are shown: of one to which nothing of dlmon was ever sent, and of one that has it
all. In each round both are watched once, in random order, after a round that doesn't
count.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import random
import shutil
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import harness
import psutil
from cost import ran_ns, resident_mib
from estimate import Estimate, estimate_median, spread, verdict
from harness import CannotRun
from idle_cost import READINGS, busy_gpus
from terminal import Terminal

sys.path.insert(0, str(harness.ROOT / "tests"))

from fakes.sessions import eventually
from fakes.sshd import Network, Sshd, lacks_sshd

PARTS = ("wire", "hosts", "start")
WIRE_BAR_BYTES_S, NVITOP_BAR = 2048, 0.2
CPU_BAR_PCT, OLDEST_BAR_S = 25.0, 2.0
FRESH_BAR_S, CACHED_BAR_S = 2.0, 1.0
OF_DRIVER = ("LD_LIBRARY_PATH", "FAKE_NVML_STATE")
SSHDS = 4
START_S, ALL_START_S = 60.0, 300.0
READ_BYTES = 1 << 16
STAGES = {"begun": "its ssh", "up": "connected", "facts": "its facts", "sample": "its first sample"}


class Relay:
    """Hands on what is sent to a port of this machine, and counts its bytes both ways.

    Args:
        port: where to.
    """

    def __init__(self, port: int) -> None:
        self._to = port
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.up_bytes = self.down_bytes = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Take no more connections; those that there are end by themselves."""
        # Else who waits for one would not notice.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection(("127.0.0.1", self._to))
                for link in (near, far):
                    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)
                for ends in ((near, far, True), (far, near, False)):
                    threading.Thread(target=self._hand_on, args=ends, daemon=True).start()

    def _hand_on(self, source: socket.socket, target: socket.socket, is_up: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(READ_BYTES):
                with self._lock:
                    if is_up:
                        self.up_bytes += len(data)
                    else:
                        self.down_bytes += len(data)
                target.sendall(data)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)


class Viewer:
    """The screen of some hosts, and what has come to it when.

    Use it as a context manager: leaving ends it.
    """

    def __init__(self, network: Network, hosts: Sequence[str]) -> None:
        self._hosts = hosts
        self._folder = Path(tempfile.mkdtemp(dir=network.folder))
        self._notes = self._folder / "notes"
        self._notes.touch()
        command = [sys.executable, harness.script("shown_hosts.py"), str(self._notes), *hosts]
        own = {"XDG_STATE_HOME": str(self._folder), "XDG_CONFIG_HOME": str(self._folder)}
        self._terminal = Terminal(command, environment={**network.environment(), **own})

    def __enter__(self) -> Viewer:
        return self

    def __exit__(self, *_: object) -> None:
        self._terminal.__exit__(None, None, None)
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def pid(self) -> int:
        return self._terminal.pid

    def wait_until_all_are_shown(self, timeout_s: float) -> None:
        """Wait for the first sample of each host.

        Raises:
            CannotRun: one of them has none by then.
        """
        deadline = time.monotonic() + timeout_s
        while len(shown := {note["host"] for note in self._came("sample")}) < len(self._hosts):
            if self._terminal.process.poll() is not None:
                raise CannotRun(f"the viewer ended: {self._terminal.last_output}")
            if time.monotonic() > deadline:
                problems = [note["problem"] for note in self.notes() if "problem" in note]
                raise CannotRun(
                    f"{len(shown)} of {len(self._hosts)} hosts are shown after {timeout_s:.0f} s"
                    + "".join(f"; {problem}" for problem in problems[-1:])
                )
            time.sleep(0.05)

    def came_after_s(self, what: str) -> float:
        """Return the seconds from the start of the command until something came."""
        at: float = self._came(what)[0]["at"]
        return at - self._terminal.started_at

    def oldest_s(self, begin_s: float, end_s: float) -> float:
        """Return the age of the oldest reading that was shown between two moments."""
        return max(
            note["oldest_s"]
            for note in self.notes()
            if "oldest_s" in note and begin_s <= note["at"] < end_s
        )

    def notes(self) -> list[dict[str, Any]]:
        """Return all that has come; the last line may not be whole yet."""
        lines = self._notes.read_text().splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def _came(self, what: str) -> list[dict[str, Any]]:
        return [note for note in self.notes() if note.get("what") == what]


def main() -> None:
    arguments = _arguments()
    lacks = lacks_sshd()
    if lacks is not None:
        raise CannotRun(lacks)
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dlmon-bench-")))
        more = (("temperature_c", 55, 75), ("sm_mhz", 1_700, 1_980))
        readings = (*READINGS, *more)
        # One that runs as long as the bench: itself.
        computes = [f"process {gpu} {os.getpid()} 40000" for gpu in range(arguments.gpus)]
        environment = stack.enter_context(busy_gpus(folder, arguments.gpus, readings, computes))
        driver = {name: environment[name] for name in OF_DRIVER}
        measures = {"wire": _measure_wire, "hosts": _measure_hosts, "start": _measure_start}
        for part in [arguments.only] if arguments.only else PARTS:
            (folder / part).mkdir()
            network = Network(folder / part, sys.executable)
            try:
                measures[part](network, driver, arguments)
            finally:
                network.close()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=PARTS, help="one part")
    parser.add_argument("--gpus", type=int, default=8, help="of each host")
    parser.add_argument("--hosts", type=int, default=32, help="that one viewer watches")
    parser.add_argument("--warm-up", type=float, default=20.0, metavar="SECONDS")
    parser.add_argument(
        "--window", type=float, default=10.0, metavar="SECONDS", help="a multiple of 5 is fair"
    )
    parser.add_argument("--windows", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=11, help="of the start")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--quick", action="store_true", help="8 hosts, three windows of 5 s, two rounds"
    )
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.hosts, arguments.rounds = min(arguments.hosts, 8), 2
        arguments.warm_up, arguments.window, arguments.windows = 5.0, 5.0, 3
    return arguments


# ---- the bytes on the wire ----


def _measure_wire(network: Network, driver: dict[str, str], arguments: argparse.Namespace) -> None:
    box = network.add("box", environment=driver)
    nvitop = shutil.which("nvitop")
    sent: dict[str, Sequence[str]] = {"nvitop over ssh -t": ("-t",)}
    sent["nvitop over ssh -C -t"] = ("-C", "-t")
    with contextlib.ExitStack() as stack:
        relays = {"dlmon": stack.enter_context(_named_relay(network, "dlmon", box))}
        viewer = stack.enter_context(Viewer(network, ["dlmon"]))
        others = {}
        for number, (name, options) in enumerate(sent.items() if nvitop else ()):
            alias = f"nvitop-{number}"
            relays[name] = stack.enter_context(_named_relay(network, alias, box))
            command = ["ssh", *options, alias, f"exec {nvitop} --interval 1"]
            terminal = Terminal(command, "GPU", network.environment())
            others[name] = stack.enter_context(terminal)
        viewer.wait_until_all_are_shown(START_S)
        for terminal in others.values():
            terminal.first_seen(START_S)
        time.sleep(arguments.warm_up)
        for name, terminal in others.items():
            if terminal.process.poll() is not None:
                raise CannotRun(f"{name} ended by itself: {terminal.last_output}")
        readings = [_counted(relays)]
        for _ in range(arguments.windows):
            time.sleep(arguments.window)
            readings.append(_counted(relays))
    for name in relays:
        for way, title in enumerate(("from the host", "to the host")):
            rates = _rates(readings, lambda counts, name=name, way=way: counts[name][way])
            print(f"{f'{name}, {title}':<44} {spread(rates, 0)} bytes/s")
    together = {
        name: _rates(readings, lambda counts, name=name: sum(counts[name])) for name in relays
    }
    what = f"on the wire, {arguments.gpus} GPUs"
    print(verdict(what, estimate_median(together["dlmon"]), WIRE_BAR_BYTES_S, "bytes/s", 0))
    if not nvitop:
        print(f"{'nvitop over ssh -t':<44} nvitop is not installed here: left out")
        return
    for number, name in enumerate(sent):
        pairs = zip(together["dlmon"], together[name], strict=True)
        ratio = estimate_median([own / other for own, other in pairs if other])
        if number:
            print(f"{f'dlmon / {name}':<44} {ratio.value:.3f} ×  (context)")
        else:
            print(verdict(f"dlmon / {name}", ratio, NVITOP_BAR, "×", 3))


@contextlib.contextmanager
def _named_relay(network: Network, name: str, box: Sshd) -> Iterator[Relay]:
    """Have a host found by a name through a relay of its own."""
    relay = Relay(box.port)
    network.name(name, box, port=relay.port)
    try:
        yield relay
    finally:
        relay.close()


def _counted(relays: dict[str, Relay]) -> tuple[float, dict[str, tuple[int, int]]]:
    counts = {name: (relay.down_bytes, relay.up_bytes) for name, relay in relays.items()}
    return time.monotonic(), counts


def _rates(readings: Sequence[tuple[float, Any]], count: Any) -> list[float]:
    return [
        (count(after) - count(before)) / (t_after - t_before)
        for (t_before, before), (t_after, after) in itertools.pairwise(readings)
    ]


# ---- many hosts ----


def _measure_hosts(network: Network, driver: dict[str, str], arguments: argparse.Namespace) -> None:
    boxes = [network.add(f"box-{number}", environment=driver) for number in range(SSHDS)]
    names = [f"host-{number:02}" for number in range(arguments.hosts)]
    for name, box in zip(names, itertools.cycle(boxes)):
        network.name(name, box)
    with Viewer(network, [box.name for box in boxes]) as viewer:
        # So that not all of them are sent all of dlmon at once.
        viewer.wait_until_all_are_shown(START_S)
    for box in boxes:
        eventually(lambda box=box: not box.connections(), "the first connections to end")
    with Viewer(network, names) as viewer:
        begun_at = time.monotonic()
        viewer.wait_until_all_are_shown(ALL_START_S)
        all_after_s = time.monotonic() - begun_at
        time.sleep(arguments.warm_up)
        pids = {
            "viewer": [viewer.pid],
            "ssh": _descendants(viewer.pid),
            "hosts": [pid for box in boxes for pid in _descendants(box.process.pid)],
        }
        readings = [_ran(pids)]
        for _ in range(arguments.windows):
            time.sleep(arguments.window)
            readings.append(_ran(pids))
        memory_mib = resident_mib(viewer.pid)
        moments = [at for at, _ in readings]
        oldest_s = [viewer.oldest_s(*window) for window in itertools.pairwise(moments)]
    shares = {
        name: [100 * rate for rate in _rates(readings, lambda ran, name=name: ran[name])]
        for name in pids
    }
    count = f"{arguments.hosts} hosts"
    print(f"{f'until all {count} were shown':<44} {all_after_s:.1f} s (context)")
    for name, title in (("viewer", "the viewer"), ("ssh", f"its {len(pids['ssh'])} ssh")):
        print(f"{f'CPU of {title}, {count}':<44} {spread(shares[name])} % of a core")
    print(
        f"{f'CPU of the {count} themselves, together':<44} {spread(shares['hosts'])} % of a core "
        f"({len(pids['hosts'])} processes; context)"
    )
    print(f"{f'memory of the viewer, {count}':<44} {memory_mib:.0f} MiB (context)")
    print(f"{f'oldest reading of a window, {count}':<44} {spread(oldest_s)} s")
    own = [a + b for a, b in zip(shares["viewer"], shares["ssh"], strict=True)]
    print(verdict(f"viewer + ssh, {count}", estimate_median(own), CPU_BAR_PCT, "% of a core"))
    # The bar is for the oldest of all, so there is no interval.
    worst = Estimate(max(oldest_s), max(oldest_s), max(oldest_s), len(oldest_s))
    print(verdict(f"oldest reading of all, {count}", worst, OLDEST_BAR_S, "s"))


def _descendants(pid: int) -> list[int]:
    return [process.pid for process in psutil.Process(pid).children(recursive=True)]


def _ran(pids: dict[str, list[int]]) -> tuple[float, dict[str, float]]:
    ran_s = {name: sum(map(ran_ns, each)) / 1e9 for name, each in pids.items()}
    return time.monotonic(), ran_s


# ---- the start ----


def _measure_start(network: Network, driver: dict[str, str], arguments: argparse.Namespace) -> None:
    boxes = {name: network.add(name, environment=driver) for name in ("fresh", "cached")}
    seconds = {name: {stage: list[float]() for stage in STAGES} for name in boxes}
    order = random.Random(arguments.seed)
    for number in range(arguments.rounds + 1):
        for name in order.sample(list(boxes), len(boxes)):
            shutil.rmtree(boxes["fresh"].cache, ignore_errors=True)
            with Viewer(network, [name]) as viewer:
                viewer.wait_until_all_are_shown(START_S)
                for stage, took_s in seconds[name].items():
                    if number:
                        took_s.append(viewer.came_after_s(stage))
            eventually(lambda name=name: not boxes[name].connections(), "a connection to end")
    for name, stages in seconds.items():
        for stage, took_s in stages.items():
            print(f"{f'{name} host: from the start to {STAGES[stage]}':<44} {spread(took_s)} s")
    for name, bar_s in (("fresh", FRESH_BAR_S), ("cached", CACHED_BAR_S)):
        for stage in ("facts", "sample"):
            what = f"{STAGES[stage].removeprefix('its ')} of a {name} host"
            print(verdict(what, estimate_median(seconds[name][stage]), bar_s, "s"))


if __name__ == "__main__":
    os.environ.pop("DLMON_RECORDS_FD", None)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    harness.run(main)
