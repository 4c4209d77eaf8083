"""Follow the sessions that run, and serve their figures and those of the machine."""

from __future__ import annotations

import asyncio
import math
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from prometheus_client import Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.openmetrics.exposition import ALLOWUTF8
from prometheus_client.registry import Collector

from dlmon import __version__
from dlmon.exporter.metrics import (
    Sample,
    samples_of_machine,
    samples_of_session,
    samples_of_training,
)
from dlmon.exporter.server import Server
from dlmon.log.directory import read_entry
from dlmon.log.folder import LogError
from dlmon.log.label import read_label
from dlmon.records import Status
from dlmon.session.follower import SessionFollower
from dlmon.session.running_sessions import RunningSessions, running_logs
from dlmon.session.source import SLICE_S, MachineSource
from dlmon.system.this_host import host_name

MOST_SERIES = 2000
"""The most series of one session in an answer: its log may hold any number of names."""
LONGEST_LABEL = 200
"""The most characters of a label; the records were cleaned as they were read."""
POLL_S = 1.0
OLD_S = 30.0
"""A reading of a machine that is older is left out: it is unknown now."""
_encode: Callable[..., bytes] = openmetrics.generate_latest
_UNITS = ("seconds", "bytes", "ratio", "celsius", "watts", "joules", "hertz")
_SUFFIXES = {"gauge": "", "counter": "_total", "info": "_info"}
_ENDINGS = (Status.COMPLETED, Status.FAILED, Status.STOPPED, Status.INTERRUPTED)
_ENDED = "The sessions that have ended since this began to serve."
_DROPPED = f"The series left out of answers, beyond {MOST_SERIES:,} of a session."


async def serve(
    listening: socket.socket,
    directory: Path,
    machine: MachineSource | None = None,
    until_idle_s: float = math.inf,
) -> None:
    """Answer scrapers on a socket until no session has run for a time.

    Args:
        listening: the socket.
        directory: the log directory.
        machine: this machine; None to take its readings from the logs of its sessions.
        until_idle_s: that time in seconds.
    """
    exporter = Exporter(directory, machine)
    server = await asyncio.start_server(Server(exporter.answer).serve, sock=listening)
    if machine is not None:
        machine.start()
    try:
        await exporter.follow(until_idle_s)
    finally:
        server.close()
        if machine is not None:
            machine.stop()


class Exporter(Collector):
    """The running sessions of a log directory, and this machine if it is sampled here."""

    def __init__(self, directory: Path, machine: MachineSource | None = None) -> None:
        self._directory, self._machine = directory, machine
        self._logs, self._over = list[Path](), set[Path]()
        self.sessions = RunningSessions()
        """The sessions that run, as far as their logs are read."""
        self._ended = Counter[str](dict.fromkeys(_ENDINGS, 0))
        self._dropped = Counter[str]()

    async def follow(self, until_idle_s: float = math.inf) -> None:
        """Read on in the logs of running sessions until none has run for `until_idle_s`."""
        idle_since = time.monotonic()
        while time.monotonic() - idle_since < until_idle_s:
            logs = await asyncio.to_thread(running_logs, self._directory, self._over)
            self.count_ends(set(self._logs) - set(logs))
            self._logs = logs
            self.sessions.follow(logs)
            if logs:
                idle_since = time.monotonic()
            await asyncio.sleep(POLL_S if self.sessions.are_read else SLICE_S)

    def count_ends(self, logs: Iterable[Path]) -> None:
        """Count these sessions as ended; one whose log is gone was interrupted."""
        for log in logs:
            try:
                status = read_entry(log).status
            except (LogError, OSError):
                status = Status.INTERRUPTED
            self._ended[status] += 1

    def answer(self, accepted: str) -> tuple[bytes, str]:
        """Return all metrics in a format that the scraper accepts, and its content type."""
        # Our names need no escaping, and the other ways look at each of their characters.
        if "application/openmetrics-text" in accepted:
            return _encode(self, ALLOWUTF8), openmetrics.CONTENT_TYPE_LATEST
        return generate_latest(self, ALLOWUTF8), CONTENT_TYPE_PLAIN_0_0_4

    def collect(self) -> Iterator[Metric]:
        """Yield each metric with its samples."""
        answer, hosts, machine = _Answer(), set[str](), self._machine
        answer.add([Sample("build", "dlmon's version.", 1.0, {"version": __version__}, "info")])
        if machine is not None and machine.history.latest and (machine.age_s or 0.0) < OLD_S:
            hosts.add(host_name())
            answer.add(samples_of_machine(host_name(), machine.facts, machine.history.latest))
        for follower in self.sessions.followers:
            if follower.read_share is None:
                dropped = answer.add(_samples_of(follower, hosts), MOST_SERIES)
                self._dropped[follower.session.header.id] += dropped
        for session, number in self._dropped.items():
            labels = {"session": session}
            answer.add([Sample("dropped_series", _DROPPED, number, labels, "counter")])
        for status, number in self._ended.items():
            labels = {"status": status}
            answer.add([Sample("sessions_ended", _ENDED, number, labels, "counter")])
        yield from answer.metrics.values()


def _samples_of(follower: SessionFollower, hosts: set[str]) -> Iterator[Sample]:
    """Yield the samples of a session and of its machines, those that are not in `hosts` yet."""
    session, snapshot, now_ns = follower.session, follower.snapshot(), follower.now()
    name, host = read_label(follower.path).name or "", session.header.host
    labels = {"session": session.header.id, "name": name, "host": host}
    yield from samples_of_session(session, snapshot, now_ns, labels)
    machines = [(host, session.facts, session.machine.latest)]
    machines += [(name, node.facts, node.history.latest) for name, node in session.nodes.items()]
    for host, facts, latest in machines:
        if host not in hosts and latest is not None and now_ns - latest.t < OLD_S * 1e9:
            hosts.add(host)
            yield from samples_of_machine(host, facts, latest)
    yield from samples_of_training(session, snapshot, labels)


class _Answer:
    """The metrics of one answer, each series once."""

    def __init__(self) -> None:
        self.metrics: dict[str, Metric] = {}
        self._added: set[tuple[str, tuple[str, ...]]] = set()

    def add(self, samples: Iterable[Sample], most: float = math.inf) -> int:
        """Add the known samples, at most this many; return how many were left out."""
        room, left_out = len(self._added) + most, 0
        given: Mapping[str, str] | None = None
        for sample in samples:
            if sample.value is None:
                continue
            # Most samples have the labels of the one before.
            if sample.labels is not given:
                given = sample.labels
                labels = {name: text[:LONGEST_LABEL] for name, text in given.items()}
                texts = tuple(labels.values())
            series = sample.name, texts
            # Names that are cut may be alike, and a scraper refuses a series that comes twice.
            if len(self._added) >= room or series in self._added:
                left_out += 1
                continue
            self._added.add(series)
            metric = self.metrics.get(sample.name) or self._begin(sample)
            metric.add_sample(f"{metric.name}{_SUFFIXES[sample.kind]}", labels, sample.value)
        return left_out

    def _begin(self, sample: Sample) -> Metric:
        unit = sample.name.rpartition("_")[2]
        unit = unit if unit in _UNITS else ""
        metric = Metric(f"dlmon_{sample.name}", sample.meaning, sample.kind, unit)
        self.metrics[sample.name] = metric
        return metric
