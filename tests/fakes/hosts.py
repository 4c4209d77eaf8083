"""Watched hosts without a connection: a link that answers what a test says, and what hosts say."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

from dlmon.records import (
    Cpu,
    Facts,
    Gpu,
    GpuFacts,
    Machine,
    MachineFacts,
    Memory,
    Process,
    encode,
)
from dlmon.remote.connection import ClockDifference
from dlmon.remote.host import WatchedHost
from dlmon.remote.ssh import JobEnded, SshError

from .screens import Clock

BEGIN_WALL = 1_795_381_445.0  # 2026-11-22 21:04:05 UTC
GIB = 1024


class FakeLink:
    """A connection that is there, or not, as its test says."""

    def __init__(self, host: str, clock: Clock) -> None:
        self.host = host
        self.is_up = False
        self.boot_id = None
        self.clock_difference = None
        self.lost_at_ns = self.retry_at_ns = None
        self.connect_count = 0
        self.is_started = self.is_closed = False
        self.retries = 0
        self.answers = {}
        self.asked = []
        self.sent = []
        self.standing = []
        self._clock = clock
        self._failure = None

    @property
    def problem(self):
        return None if self._failure is None else str(self._failure)

    @property
    def needs_person(self):
        return self._failure is not None and not self._failure.may_pass

    @property
    def has_ended(self):
        return isinstance(self._failure, JobEnded)

    def start(self):
        self.is_started = True

    async def close(self):
        self.is_closed = True

    async def ask(self, ask, **fields):
        """Yield what a test has put into `answers`; without it there is no connection."""
        if self._failure is not None:
            raise self._failure
        self.asked.append((ask, fields.get("log_dir")))
        for answer in self.answers.get(ask, ()):
            yield answer

    def send(self, ask, take, **fields):
        self.sent.append((ask, fields.get("session")))

    async def wait_until_up(self):
        """Wait until it is there, or until that fails."""
        while not self.is_up:
            if self._failure is not None:
                raise self._failure
            await asyncio.sleep(0.001)

    def retry_now(self):
        self.retries += 1

    def add(self, standing):
        self.standing.append(standing)

    def remove(self, standing):
        if standing in self.standing:
            self.standing.remove(standing)

    def connect(self, boot_id="boot-1"):
        """Be there."""
        self.is_up, self._failure = True, None
        self.lost_at_ns = self.retry_at_ns = None
        self.connect_count += 1
        self.boot_id = boot_id
        for standing in self.standing:
            standing.fields()

    def fail(self, sentence, *, may_pass=True, retry_s=None, kind=SshError):
        """Be gone, or not to be reached, for a reason."""
        if self._failure is None:
            self.lost_at_ns = self._clock()
        self.is_up, self._failure = False, kind(sentence, may_pass)
        self.retry_at_ns = None if retry_s is None else self._clock() + int(retry_s * 1e9)

    def differ(self, wall_s):
        """Have a clock that is so far ahead of ours."""
        self.clock_difference = ClockDifference(monotonic_ns=0, wall_s=wall_s, round_trip_s=0.01)

    def say(self, ask, **answer):
        """Answer a request that stands."""
        for standing in self.standing:
            if standing.ask == ask:
                standing.take(answer)

    def report(self, *records):
        """Send records of the machine, as they come from there."""
        for record in records:
            self.say("watch", record=json.loads(encode(record)))


class FakeHost(WatchedHost):
    """A host that a test speaks for.

    Its clock is that of its test, and its own CLOCK_MONOTONIC is the same.
    """

    def __init__(self, name, clock, interval_s=1.0, pcie=False, **more):
        begin_ns = clock()
        super().__init__(
            name,
            interval_s,
            pcie,
            connection=FakeLink(name, clock),
            clock=clock,
            wall=lambda: BEGIN_WALL + (clock() - begin_ns) / 1e9,
            **more,
        )

    def connect(self):
        self.connection.connect()

    def run(self, *sessions):
        """Have these sessions run there."""
        self.connection.say("running", sessions=list(sessions))


def facts(t=1, gpus=2, name="NVIDIA H100 80GB HBM3", memory_gib=80, **more):
    """Return what a machine with so many GPUs is."""
    found = tuple(GpuFacts(index, name, memory_mib=memory_gib * GIB) for index in range(gpus))
    machine = MachineFacts(
        cpu_model="AMD EPYC 9354 32-Core Processor",
        cores=32,
        memory_mib=512 * GIB,
        gpus=found,
        gpus_state=None,
        driver="550.54.15" if gpus else None,
        why={} if gpus else {"gpus": "no NVIDIA driver: libnvidia-ml.so.1 was not found"},
    )
    return Facts(t, BEGIN_WALL, "a-machine", replace(machine, **more))


def sample(t, gpus=2, busy=(0,), processes=None, cpu_pct=12.0, **more):
    """Return a sample of a machine with so many GPUs, some of which are busy."""
    read = tuple(
        Gpu(
            index,
            utilization_pct=97 - index if index in busy else 0,
            memory_used_mib=71 * GIB if index in busy else 3,
            power_w=512.0 if index in busy else 71.0,
            temperature_c=64 if index in busy else 34,
        )
        for index in range(gpus)
    )
    if processes is None:
        processes = tuple(
            Process(4_000 + index, "ada", f"python3 /home/ada/train.py --seed {index}", 100.0, 9)
            for index in busy
            if index < gpus
        )
        processes = tuple(
            replace(row, gpus=(index,)) for row, index in zip(processes, busy, strict=False)
        )
    fields = {
        "cpu": Cpu(pct=cpu_pct, cores=(12,) * 32, load_1m=3.2),
        "memory": Memory(used_mib=31 * GIB),
        "gpus": read if gpus else None,
        "processes": processes,
        "why": {} if gpus else {"gpus": "no NVIDIA driver: libnvidia-ml.so.1 was not found"},
    }
    return Machine(t, BEGIN_WALL, **{**fields, **more})


def session(number=1, **more):
    """Return a session as a host lists it."""
    listed = {
        "session": f"20261122-21040{number}-cifar10-cnn-00{number}",
        "workload": "cifar10-cnn",
        "name": None,
        "phase": "training",
        "epoch": 3,
        "epochs": 10,
        "rates": [{"per_second": 5_540.0, "unit": "samples/s"}],
        "gpus": [0],
    }
    return {**listed, **more}


def live(host, clock, gpus=2, seconds=40, **more):
    """Connect a host, and let it send samples of so many seconds up to now."""
    now_ns = clock()
    host.connect()
    host.connection.report(facts(gpus=gpus))
    for second in range(seconds, -1, -1):
        host.connection.report(sample(now_ns - second * 1_000_000_000, gpus, **more))
    return host
