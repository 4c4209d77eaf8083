"""Measure the cost of watching other hosts over ssh.

The hosts are real sshd processes on this machine, with GPUs of the tests' own driver library, whose
readings change every second and on each of which a process computes. The viewer is the screen of
`dlmon watch HOST...` in a pty of 120×40, at 1 Hz. Measured:

wire: the bytes a second, both ways together, between ssh and sshd of one watched host, encrypted
and compressed, counted in a relay between the two, without the headers of TCP and IP. In the same
windows, the bytes of nvitop over `ssh -t` on that host, if nvitop is installed.

hosts: the CPU time of one viewer of 32 hosts with its ssh processes, in percent of one core, and
the greatest age of a reading on its screen. The hosts are names of four sshd. They compute on this
machine too, and their CPU is printed as context: if they leave the viewer no processor, its
readings are old for that reason.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import shutil
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import harness
import psutil
from cost import Reading, cpu_s, rates, resident_mib
from estimate import Estimate, estimate_median, spread, verdict
from harness import CannotRun
from idle_cost import READINGS, busy_gpus
from terminal import Terminal

sys.path.insert(0, str(harness.ROOT / "tests"))

from fakes.sessions import eventually
from fakes.sshd import Network, Sshd, lacks_sshd

PARTS = ("wire", "hosts")
WIRE_BAR_BYTES_S, NVITOP_BAR = 2048, 0.2
CPU_BAR_PCT, OLDEST_BAR_S = 25.0, 2.0
OF_DRIVER = ("LD_LIBRARY_PATH", "FAKE_NVML_STATE")
SSHDS = 4
START_S, ALL_START_S = 60.0, 300.0
READ_BYTES = 1 << 16


class Relay:
    """Forwards connections to a port of this machine, and counts the bytes both ways.

    Args:
        port: the port to forward to.
    """

    def __init__(self, port: int) -> None:
        self._target_port = port
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.passed_bytes = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            near, _ = self._listener.accept()
            far = socket.create_connection(("127.0.0.1", self._target_port))
            for link in (near, far):
                link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)
            for ends in ((near, far), (far, near)):
                threading.Thread(target=self._forward, args=ends, daemon=True).start()

    def _forward(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(READ_BYTES):
                with self._lock:
                    self.passed_bytes += len(data)
                target.sendall(data)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)


class Viewer(Terminal):
    """The screen of some hosts, with the ages of its readings; a context manager."""

    def __init__(self, network: Network, hosts: Sequence[str]) -> None:
        folder = Path(tempfile.mkdtemp(dir=network.folder))
        self._notes = folder / "notes"
        self._notes.touch()
        command = [sys.executable, harness.script("shown_hosts.py"), str(self._notes), *hosts]
        homes = {"XDG_STATE_HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}
        super().__init__(command, environment={**network.environment(), **homes})

    def wait_until_all_are_shown(self, timeout_s: float) -> None:
        """Wait for the first sample of each host.

        Raises:
            CannotRun: a host has none in time.
        """
        deadline = time.monotonic() + timeout_s
        while not self._notes.stat().st_size:
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise CannotRun(f"not all hosts came to be shown: {self.last_output}")
            time.sleep(0.05)

    def oldest_s(self, begin_s: float, end_s: float) -> float:
        """Return the greatest age of a reading that was shown between two times."""
        lines = self._notes.read_text().splitlines(keepends=True)
        # The last line may be incomplete.
        notes = [json.loads(line) for line in lines if line.endswith("\n")]
        return max(note["oldest_s"] for note in notes if begin_s <= note["at"] < end_s)


def main() -> None:
    arguments = _arguments()
    lacks = lacks_sshd()
    if lacks is not None:
        raise CannotRun(lacks)
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dlmon-bench-")))
        readings = (*READINGS, ("temperature_c", 55, 75), ("sm_mhz", 1_700, 1_980))
        # The process on each GPU is the bench itself, because it must run all the time.
        computes = [f"process {gpu} {os.getpid()} 40000" for gpu in range(arguments.gpus)]
        environment = stack.enter_context(busy_gpus(folder, arguments.gpus, readings, computes))
        driver = {name: environment[name] for name in OF_DRIVER}
        measures = {"wire": _measure_wire, "hosts": _measure_hosts}
        for part in [arguments.only] if arguments.only else PARTS:
            (folder / part).mkdir()
            network = Network(folder / part, sys.executable)
            try:
                measures[part](network, driver, arguments)
            finally:
                network.close()


def _arguments() -> argparse.Namespace:
    parser = harness.parser(__doc__)
    parser.add_argument("--only", choices=PARTS, help="one part")
    parser.add_argument("--gpus", type=int, default=8, help="of each host")
    parser.add_argument("--hosts", type=int, default=32, help="that one viewer watches")
    parser.add_argument("--warm-up", type=float, default=20.0, metavar="SECONDS")
    parser.add_argument(
        "--window", type=float, default=10.0, metavar="SECONDS", help="a multiple of 5 is fair"
    )
    parser.add_argument("--windows", type=int, default=12)
    parser.add_argument("--quick", action="store_true", help="8 hosts, three windows of 5 s")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.hosts = min(arguments.hosts, 8)
        arguments.warm_up, arguments.window, arguments.windows = 5.0, 5.0, 3
    return arguments


def _measure_wire(network: Network, driver: dict[str, str], arguments: argparse.Namespace) -> None:
    box = network.add("box", environment=driver)
    nvitop = shutil.which("nvitop")
    with contextlib.ExitStack() as stack:
        relays = {"dlmon": _named_relay(network, "dlmon", box)}
        viewer = stack.enter_context(Viewer(network, ["dlmon"]))
        if nvitop:
            relays["nvitop"] = _named_relay(network, "nvitop", box)
            command = ["ssh", "-t", "nvitop", f"exec {nvitop} --interval 1"]
            terminal = stack.enter_context(Terminal(command, "GPU", network.environment()))
            terminal.first_seen(START_S)
        viewer.wait_until_all_are_shown(START_S)
        time.sleep(arguments.warm_up)
        readings = [_passed(relays)]
        for _ in range(arguments.windows):
            time.sleep(arguments.window)
            readings.append(_passed(relays))
    sent = rates(readings)
    for name, bytes_s in sent.items():
        print(f"{f'{name}, both ways':<44} {spread(bytes_s, 0)} bytes/s")
    title = f"on the wire, {arguments.gpus} GPUs"
    print(verdict(title, estimate_median(sent["dlmon"]), WIRE_BAR_BYTES_S, "bytes/s", 0))
    if not nvitop:
        print(f"{'nvitop over ssh -t':<44} nvitop is not installed here: left out")
        return
    pairs = zip(sent["dlmon"], sent["nvitop"], strict=True)
    ratio = estimate_median([dlmon / nvitop for dlmon, nvitop in pairs if nvitop])
    print(verdict("dlmon / nvitop over ssh -t", ratio, NVITOP_BAR, "×", 3))


def _named_relay(network: Network, name: str, box: Sshd) -> Relay:
    """Give a host one more name, which leads through a relay."""
    relay = Relay(box.port)
    network.name(name, box, port=relay.port)
    return relay


def _passed(relays: dict[str, Relay]) -> Reading:
    return time.monotonic(), {name: float(relay.passed_bytes) for name, relay in relays.items()}


def _measure_hosts(network: Network, driver: dict[str, str], arguments: argparse.Namespace) -> None:
    boxes = [network.add(f"box-{number}", environment=driver) for number in range(SSHDS)]
    names = [f"host-{number:02}" for number in range(arguments.hosts)]
    for name, box in zip(names, itertools.cycle(boxes)):
        network.name(name, box)
    with Viewer(network, [box.name for box in boxes]) as viewer:
        # Copies dlmon to each sshd, so that the many hosts below find it there.
        viewer.wait_until_all_are_shown(START_S)
    for box in boxes:
        eventually(lambda box=box: not box.connections(), "the first connections to end")
    with Viewer(network, names) as viewer:
        viewer.wait_until_all_are_shown(ALL_START_S)
        time.sleep(arguments.warm_up)
        pids = {
            "the viewer": [viewer.pid],
            "its ssh": _descendants(viewer.pid),
            "the hosts themselves": [p for box in boxes for p in _descendants(box.process.pid)],
        }
        readings = [_ran(pids)]
        for _ in range(arguments.windows):
            time.sleep(arguments.window)
            readings.append(_ran(pids))
        memory_mib = resident_mib(viewer.pid)
        moments = [at for at, _ in readings]
        oldest_s = [viewer.oldest_s(*window) for window in itertools.pairwise(moments)]
    cpu_pct = {name: [100 * rate for rate in cores] for name, cores in rates(readings).items()}
    count = f"{arguments.hosts} hosts"
    for name, windows_pct in cpu_pct.items():
        print(f"{f'CPU of {name}, {count}':<44} {spread(windows_pct)} % of a core")
    print(f"{f'memory of the viewer, {count}':<44} {memory_mib:.0f} MiB (context)")
    both_pct = [a + b for a, b in zip(cpu_pct["the viewer"], cpu_pct["its ssh"], strict=True)]
    print(verdict(f"viewer + ssh, {count}", estimate_median(both_pct), CPU_BAR_PCT, "% of a core"))
    # The bar is for the maximum, which has no interval.
    worst = Estimate(max(oldest_s), max(oldest_s), max(oldest_s), len(oldest_s))
    print(verdict(f"oldest reading of all, {count}", worst, OLDEST_BAR_S, "s"))


def _descendants(pid: int) -> list[int]:
    return [process.pid for process in psutil.Process(pid).children(recursive=True)]


def _ran(pids: dict[str, list[int]]) -> Reading:
    return time.monotonic(), {name: sum(map(cpu_s, group)) for name, group in pids.items()}


if __name__ == "__main__":
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    harness.run(main)
