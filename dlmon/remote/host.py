"""A host that is watched: its connection, its readings, what runs there, and how old that is."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import field, fields

from dlmon.records import (
    Facts,
    Gpu,
    GpuFacts,
    Machine,
    MachineFacts,
    Notice,
    RecordError,
    read_object,
    read_record,
)
from dlmon.records.machine import MAX_ON_GPUS
from dlmon.records.record import record
from dlmon.records.words import Word
from dlmon.remote.connection import Answer, Connection, Standing
from dlmon.session.machine_history import MachineHistory
from dlmon.session.source import MachineSource

MISSED_SAMPLES = 2
OLD_S = 30.0
CLOCK_DIFFERS_S = 2.0
FREE_BELOW_PCT = 5.0
LOAD_OVER_S = 60
# What a host says of its sessions is foreign: no screen has room for more.
MOST_SESSIONS = 64

_UNREAD = tuple(spec.name for spec in fields(Gpu) if spec.name not in ("index", "why"))


class HostState(Word):
    """How the connection to a host stands."""

    CONNECTING = "connecting"
    """It was not tried to the end yet."""
    CONNECTED = "connected"
    LOST = "lost"
    """There was a connection; it is tried again."""
    UNREACHED = "unreached"
    """There never was one; it is tried again."""
    NEEDS_PERSON = "needs_person"
    """Somebody has to do something first."""
    LIVE = "live"
    """It is a machine of a run that goes on, and has its readings in the log of that."""
    RECORDED = "recorded"
    """It is shown as it was recorded, as are those of the next two states."""
    NOT_STARTED = "not_started"
    ENDED = "ended"
    """So is a node whose job is over."""


class Age(Word):
    """How old the newest sample is."""

    FRESH = "fresh"
    LATE = "late"
    """`MISSED_SAMPLES` should have followed it, and did not."""
    OLD = "old"
    """It is older than `OLD_S`."""


def late_after_s(interval_s: float) -> float:
    """Return how old the newest sample may be before one is late."""
    # Half an interval is lateness: of the network, and of who asks.
    return (MISSED_SAMPLES + 0.5) * max(1.0, interval_s)


def age_of(age_s: float, interval_s: float) -> Age:
    """Return how old a sample of so many seconds is, where one comes every `interval_s`."""
    late_s = late_after_s(interval_s)
    if age_s > max(OLD_S, late_s):
        return Age.OLD
    return Age.LATE if age_s > late_s else Age.FRESH


@record(frozen=True)
class RunningSession:
    """A session of dlmon that runs on a host, as far as the host says.

    Attributes:
        session: its id.
        workload: what it trains.
        name: what a person calls it.
        phase: what it does.
        epoch: the epoch that it is in, from 1; None where it has no epochs.
        epochs: how many it will have.
        samples_per_second: its throughput now.
        gpus: NVML's numbers of the GPUs that train.
        mode: whether it trains, or what else it does.
        counts_steps: whether its throughput is of steps, as how many samples they have isn't known.
        tokens_per_second: its throughput in tokens now; None where it has none.
        overdue_s: how long ago its last step ended, where the next one is overdue.
    """

    session: str
    workload: str | None = None
    name: str | None = None
    phase: str | None = None
    epoch: int | None = None
    epochs: int | None = None
    samples_per_second: float | None = None
    gpus: tuple[int, ...] = ()
    mode: str | None = None
    counts_steps: bool = False
    tokens_per_second: float | None = None
    overdue_s: float | None = None


@record(frozen=True)
class HostSnapshot:
    """All that is known of a host at one moment.

    Attributes:
        name: the host as a person named it.
        state: how the connection stands.
        problem: why there is none, in a sentence that names the host.
        lost_wall: when it was lost, or was first found missing, on our clock.
        retry_in_s: time until it is tried again; None while it is tried, or is there.
        facts: what the machine is.
        machine: its newest sample, merged; None before the first.
        history: its readings over time.
        interval_s: the time between two samples.
        age: how old the newest sample is; None before the first.
        sample_wall: when that sample arrived, on our clock.
        clock_ahead_s: how far its clock is ahead of ours, where that is over `CLOCK_DIFFERS_S`.
        sessions: what runs there; None where it has not said, which `sessions_problem` explains.
        sessions_problem: why it can't say.
        notice: what its sensors said last.
        edge_wall: when its recording begins, or ended, where the moment that is shown is no part
            of it.
    """

    name: str
    state: HostState = HostState.CONNECTING
    problem: str | None = None
    lost_wall: float | None = None
    retry_in_s: float | None = None
    facts: MachineFacts = field(default_factory=MachineFacts)
    machine: Machine | None = None
    history: MachineHistory = field(default_factory=MachineHistory)
    interval_s: float = 1.0
    age: Age | None = None
    sample_wall: float | None = None
    clock_ahead_s: float | None = None
    sessions: tuple[RunningSession, ...] | None = None
    sessions_problem: str | None = None
    notice: str = ""
    edge_wall: float | None = None

    @property
    def is_there(self) -> bool:
        """Whether samples of it come, or came at the moment that is shown."""
        return self.state in (HostState.CONNECTED, HostState.LIVE, HostState.RECORDED)

    @property
    def is_recorded(self) -> bool:
        """Whether it is shown as it was recorded; who trained there is not recorded."""
        return self.state in (HostState.RECORDED, HostState.NOT_STARTED, HostState.ENDED)

    @property
    def is_current(self) -> bool:
        """Whether its figures are those of now: only then may they be claimed."""
        return self.is_there and self.age == Age.FRESH

    @property
    def gpus(self) -> tuple[Gpu, ...]:
        """The GPUs, with those that are known but no longer reported."""
        machine = self.machine
        if machine is not None and machine.gpus is not None:
            return machine.gpus
        lost = machine.why.get("gpus") if machine is not None else None
        why = dict.fromkeys(_UNREAD, lost) if lost else {}
        return tuple(Gpu(facts.index, why=why) for facts in self.facts.gpus or ())

    @property
    def no_gpus(self) -> str | None:
        """Why there is no GPU; empty where none was found, None where there is one."""
        if self.gpus:
            return None
        machine = self.machine
        return self.facts.why.get("gpus") or (machine.why.get("gpus") if machine else None) or ""

    @property
    def free_gpus(self) -> frozenset[int] | None:
        """The GPUs that nobody uses; None where the figures are not those of now."""
        if not self.is_current or self.machine is None:
            return None
        return frozenset(gpu.index for gpu in self.gpus if is_free(gpu, self.machine, self.facts))

    @property
    def load_pct(self) -> float | None:
        """The mean utilisation of the GPUs over the last minute; of the CPU where there is none."""
        if self.machine is None:
            return None
        history = self.history
        gpus = {gpu.index for gpu in self.gpus}
        of_gpus = [each for index, each in history.gpu_utilization_pct.items() if index in gpus]
        length_ns = LOAD_OVER_S * 1_000_000_000
        start_ns = self.machine.t - length_ns
        means = [
            series.columns(start_ns, length_ns, 1)[0] for series in of_gpus or [history.cpu_pct]
        ]
        known = [mean for mean in means if mean is not None]
        return sum(known) / len(known) if known else None

    def facts_of(self, gpu: Gpu) -> GpuFacts | None:
        return next((facts for facts in self.facts.gpus or () if facts.index == gpu.index), None)


def is_free(gpu: Gpu, machine: Machine, facts: MachineFacts) -> bool:
    """Return whether a GPU is known to be used by nobody.

    No process is on it, and utilisation and memory in use are below `FREE_BELOW_PCT`. What
    can't be read of these is no evidence, and the GPU is not called free. A desktop is a process.
    """
    total_mib = next(
        (each.memory_mib for each in facts.gpus or () if each.index == gpu.index), None
    )
    if gpu.utilization_pct is None or gpu.memory_used_mib is None or not total_mib or gpu.mig:
        return False
    memory_pct = 100 * gpu.memory_used_mib / total_mib
    if max(gpu.utilization_pct, memory_pct) >= FREE_BELOW_PCT:
        return False
    rows = machine.processes
    if rows is None or "processes" in machine.why:
        return False
    on_gpus = [row for row in rows if row.gpus]
    # Beyond so many, those that hold the least are left out of the table.
    if any(gpu.index in row.gpus for row in on_gpus) or len(on_gpus) >= MAX_ON_GPUS:
        return False
    # Where the driver lists none, that may be because it can't.
    return bool(on_gpus) or not any("gpus" in row.why for row in rows)


class WatchedHost(MachineSource):
    """A host that is sampled, and asked for its sessions, until its connection is closed.

    Args:
        name: the host, as ssh knows it.
        interval_s: time between samples.
        pcie: have what crosses the GPUs' PCIe links measured.
        link: the connection to it.
        clock: CLOCK_MONOTONIC in nanoseconds, of this machine.
        wall: the time of day in seconds.
        on_sample: is called after each sample.
    """

    def __init__(
        self,
        name: str,
        interval_s: float = 1.0,
        pcie: bool = False,
        *,
        link: Connection | None = None,
        clock: Callable[[], int] = time.monotonic_ns,
        wall: Callable[[], float] = time.time,
        on_sample: Callable[[], None] = lambda: None,
    ) -> None:
        self.name = self.host = self.host_name = name
        self.link = link or Connection(name, clock=clock)
        self.interval_s = interval_s
        self.history = MachineHistory(interval_s)
        self.facts = MachineFacts()
        self._pcie, self._clock, self._wall, self._on_sample = pcie, clock, wall, on_sample
        self._boot_id: str | None = None
        self._arrived_ns: int | None = None
        self._sessions: tuple[RunningSession, ...] | None = None
        self._sessions_problem: str | None = None

    def start(self) -> None:
        """Connect, and have it sampled; call it on the loop."""
        if not self.is_on:
            super().start()
            self.link.start()
            self.link.add(Standing("watch", self._fields, self._take))
            self.link.add(Standing("running", dict, self._take_sessions))

    def stop(self) -> None:
        """Leave it on, also where a screen of it is left: it ends with the connection."""

    async def close(self) -> None:
        """End the connection, and with it all that was asked on it."""
        await self.link.close()

    def retry_now(self) -> None:
        """Try again at once, where there is no connection."""
        if not self.link.is_up:
            self.link.retry_now()

    @property
    def age_s(self) -> float | None:
        """How old the newest sample is, since it arrived here; None before the first."""
        return None if self._arrived_ns is None else (self._clock() - self._arrived_ns) / 1e9

    def now(self) -> int:
        """Return the time on the other machine's clock, in nanoseconds."""
        if self.link.times is not None:
            return self._clock() + self.link.times.monotonic_ns
        latest = self.history.latest
        return 0 if latest is None else latest.t

    @property
    def state(self) -> HostState:
        link = self.link
        if link.is_up:
            return HostState.CONNECTED
        if link.problem is None:
            return HostState.CONNECTING
        if link.has_ended:
            return HostState.ENDED
        if link.needs_person:
            return HostState.NEEDS_PERSON
        return HostState.LOST if link.connections else HostState.UNREACHED

    def snapshot(self) -> HostSnapshot:
        link, state = self.link, self.state
        ahead_s = None if link.times is None else link.times.wall_s
        # After a start of the host, its history begins again.
        age_s = None if self.history.latest is None else self.age_s
        now_ns, now_wall = self._clock(), self._wall()
        lost_wall = retry_in_s = None
        if state != HostState.CONNECTED:
            if link.lost_at_ns is not None:
                lost_wall = now_wall - (now_ns - link.lost_at_ns) / 1e9
            if link.retry_at_ns is not None:
                retry_in_s = max(0.0, (link.retry_at_ns - now_ns) / 1e9)
        return HostSnapshot(
            name=self.name,
            state=state,
            problem=None if state == HostState.CONNECTED else link.problem,
            lost_wall=lost_wall,
            retry_in_s=retry_in_s,
            facts=self.facts,
            machine=self.history.latest,
            history=self.history,
            interval_s=self.interval_s,
            age=None if age_s is None else age_of(age_s, self.interval_s),
            sample_wall=None if age_s is None else now_wall - age_s,
            clock_ahead_s=ahead_s if ahead_s and abs(ahead_s) > CLOCK_DIFFERS_S else None,
            sessions=self._sessions,
            sessions_problem=self._sessions_problem,
            notice=self.status,
            edge_wall=lost_wall if state == HostState.ENDED else None,
        )

    def _fields(self) -> dict[str, object]:
        boot_id = self.link.boot_id
        if boot_id != self._boot_id:
            # Its clock started again with it.
            self._boot_id, self.history = boot_id, MachineHistory(self.interval_s)
            self.start_ns = 0
        return {"interval_s": self.interval_s, "pcie": self._pcie}

    def _take(self, answer: Answer) -> None:
        if "error" in answer:
            self._take_notice(str(answer["error"]))
            return
        try:
            record = read_record(answer.get("record"))
        except RecordError:
            return
        if isinstance(record, Facts):
            self.facts, self.host_name = record.machine, record.host
            self.start_ns = self.start_ns or record.t
        elif isinstance(record, Machine):
            latest = self.history.latest
            if latest is not None and record.t <= latest.t:
                return
            self.start_ns = self.start_ns or record.t
            self.history.fold(record)
            self._arrived_ns = self._clock()
            self._on_sample()
        elif isinstance(record, Notice):
            self._take_notice(record.text)

    def _take_sessions(self, answer: Answer) -> None:
        if "error" in answer:
            self._sessions, self._sessions_problem = None, str(answer["error"])
        elif isinstance(answer.get("sessions"), list):
            listed = answer["sessions"][:MOST_SESSIONS]
            self._sessions, self._sessions_problem = (), None
            for each in listed:
                with contextlib.suppress(RecordError):
                    session = read_object(RunningSession, each)
                    self._sessions += (session,) if session.session else ()
