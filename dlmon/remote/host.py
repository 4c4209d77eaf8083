"""A watched host: its connection, its readings and their age, and the sessions that run there."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import field

from dlmon.records import (
    Facts,
    Gpu,
    Machine,
    MachineFacts,
    Notice,
    RateNow,
    RecordError,
    read_object,
    read_record,
)
from dlmon.records.changes import newest_facts
from dlmon.records.machine import MAX_ON_GPUS
from dlmon.records.record import record
from dlmon.records.words import Word
from dlmon.remote.connection import Answer, Connection, StandingRequest
from dlmon.session.machine_history import MachineHistory, facts_of_gpu, gpus_of
from dlmon.session.source import MachineSource

MISSED_SAMPLES = 2
OLD_S = 30.0
CLOCK_DIFFERS_S = 2.0
FREE_BELOW_PCT = 5.0
# Programs without a GPU use the system's memory too.
FREE_BELOW_PCT_OF_SYSTEM = 50.0
# Any program that computes holds more than this.
FREE_BELOW_MIB_UNSEEN = 64
IDLE_FOR_NS = 10_000_000_000
LOAD_OVER_S = 60
# The host isn't trusted, and no screen has room for more.
MOST_SESSIONS = 64


class HostState(Word):
    """The state of a host: of its connection, of its session, or of its recording."""

    CONNECTING = "connecting"
    """The first attempt is under way."""
    CONNECTED = "connected"
    LOST = "lost"
    """The connection was lost, and is retried."""
    UNREACHED = "unreached"
    """There was no connection yet; it is retried."""
    NEEDS_PERSON = "needs_person"
    """The user has to do something before a retry."""
    LIVE = "live"
    """A machine of a running session, with readings from the log of that session."""
    RECORDED = "recorded"
    """A recording at a moment that it covers."""
    NOT_STARTED = "not_started"
    """A recording at a moment before its start."""
    ENDED = "ended"
    """A recording at a moment after its end, or a node whose job is over."""


class Age(Word):
    """The age of the newest sample."""

    FRESH = "fresh"
    LATE = "late"
    """The next `MISSED_SAMPLES` samples are overdue."""
    OLD = "old"
    """The sample is older than `OLD_S`."""


def late_after_s(interval_s: float) -> float:
    """Return the age from which the newest sample is late."""
    # Half an interval of slack, for the network and our own polling.
    return (MISSED_SAMPLES + 0.5) * max(1.0, interval_s)


def age_of(age_s: float, interval_s: float) -> Age:
    """Classify the age of the newest sample of a host with this sampling interval."""
    late_s = late_after_s(interval_s)
    if age_s > max(OLD_S, late_s):
        return Age.OLD
    return Age.LATE if age_s > late_s else Age.FRESH


@record(frozen=True)
class RunningSession:
    """A running session of a host; None for what the host doesn't say.

    Attributes:
        session: its id.
        workload: the name of its workload or script.
        name: the name that the user gave it.
        phase: its phase.
        epoch: its current epoch, from 1; None if it has no epochs.
        epochs: the number of epochs that it will have.
        rates: its throughput now, in samples or steps first, then in tokens.
        gpus: the NVML indices of the GPUs that train.
        mode: its mode, such as training or inference.
        overdue_s: the time since its last step, if the next one is overdue.
    """

    session: str
    workload: str | None = None
    name: str | None = None
    phase: str | None = None
    epoch: int | None = None
    epochs: int | None = None
    rates: tuple[RateNow, ...] = ()
    gpus: tuple[int, ...] = ()
    mode: str | None = None
    overdue_s: float | None = None


@record(frozen=True)
class HostSnapshot:
    """The state of a host at one moment.

    Attributes:
        name: the name that the user gave for the host.
        state: its state.
        problem: why there is no connection, as a sentence that names the host.
        lost_wall: the time when the connection was lost or the first attempt failed.
        retry_in_s: the time until the next attempt; None during one, or if connected.
        facts: facts about the machine.
        machine: its newest sample, merged; None before the first.
        history: its readings over time.
        interval_s: the sampling interval.
        age: the age of the newest sample; None before the first.
        sample_wall: the arrival of the newest sample, on our clock.
        clock_ahead_s: how far its clock is ahead of ours, if by more than `CLOCK_DIFFERS_S`.
        sessions: the sessions that run there; None if unknown.
        sessions_problem: why they are unknown.
        notice: the newest notice of its sensors.
        edge_wall: the start or end of its recording, if that doesn't cover the moment shown.
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
        """True if it has samples at the moment shown."""
        return self.state in (HostState.CONNECTED, HostState.LIVE, HostState.RECORDED)

    @property
    def is_recorded(self) -> bool:
        """True if it is a recording, which does not include its sessions."""
        return self.state in (HostState.RECORDED, HostState.NOT_STARTED, HostState.ENDED)

    @property
    def is_current(self) -> bool:
        """True if its newest sample is fresh."""
        return self.is_there and self.age == Age.FRESH

    @property
    def gpus(self) -> tuple[Gpu, ...]:
        return gpus_of(self.machine, self.facts)

    @property
    def free_gpus(self) -> frozenset[int] | None:
        """The indices of the GPUs that nobody uses, not even a session that idles for now.

        None unless the newest sample is fresh and the processes are known.
        """
        if not self.is_current or self.machine is None or self.machine.processes is None:
            return None
        trained_on = {index for session in self.sessions or () for index in session.gpus}
        return frozenset(
            gpu.index
            for gpu in self.gpus
            if gpu.index not in trained_on
            and is_free(gpu, self.machine, self.facts)
            and self._is_idle(gpu.index)
        )

    def _is_idle(self, index: int) -> bool:
        """Return whether a GPU has been idle for `IDLE_FOR_NS`, as far as it was watched."""
        series = self.history.gpu_utilization_pct.get(index)
        if series is None or self.machine is None:
            return True
        t = self.machine.t
        _, most_pct = series.extremes(t - IDLE_FOR_NS, t) or (0.0, 0.0)
        return most_pct < FREE_BELOW_PCT

    @property
    def load_pct(self) -> float | None:
        """The mean utilization of the GPUs over the last minute; of the CPU if there are none."""
        if self.machine is None:
            return None
        history = self.history
        by_gpu = history.gpu_utilization_pct
        series = [by_gpu[gpu.index] for gpu in self.gpus if gpu.index in by_gpu]
        length_ns = LOAD_OVER_S * 1_000_000_000
        start_ns = self.machine.t - length_ns
        columns = [s.columns(start_ns, length_ns, 1)[0] for s in series or [history.cpu_pct]]
        means = [mean for mean in columns if mean is not None]
        return sum(means) / len(means) if means else None


def is_free(gpu: Gpu, machine: Machine, facts: MachineFacts) -> bool:
    """Return whether nobody uses a GPU: no process, and little load and memory in use.

    A GPU with an unknown reading is not free. A desktop counts as a process. Where the processes of
    others can't be seen, less memory in use makes it busy.
    """
    known = facts_of_gpu(facts, gpu.index)
    if gpu.utilization_pct is None or gpu.memory_used_mib is None or not known.memory_mib:
        return False
    if gpu.mig or gpu.utilization_pct >= FREE_BELOW_PCT:
        return False
    free_below_mib = known.memory_mib * FREE_BELOW_PCT / 100
    if known.memory_kind == "system":
        free_below_mib = known.memory_mib * FREE_BELOW_PCT_OF_SYSTEM / 100
    elif why_users_unseen(machine, facts):
        free_below_mib = min(free_below_mib, FREE_BELOW_MIB_UNSEEN)
    if gpu.memory_used_mib >= free_below_mib:
        return False
    rows = machine.processes
    if rows is None or "processes" in machine.why:
        return False
    on_gpus = [row for row in rows if row.gpus]
    # A full table leaves out the processes with the least memory.
    return not any(gpu.index in row.gpus for row in on_gpus) and len(on_gpus) < MAX_ON_GPUS


def why_users_unseen(machine: Machine | None, facts: MachineFacts) -> str:
    """Say why GPUs may have users who can't be seen; empty if all processes are seen."""
    if facts.sees_every_process is False:
        return facts.why.get("sees_every_process", "")
    rows = (machine.processes if machine is not None else None) or ()
    return next((row.why["gpus"] for row in rows if "gpus" in row.why), "")


class WatchedHost(MachineSource):
    """A host that sends samples and its running sessions until the connection is closed.

    Args:
        name: the name of the host for ssh.
        interval_s: the sampling interval.
        pcie: also measure the traffic of the GPUs' PCIe links.
        connection: the connection to the host.
        clock: this machine's CLOCK_MONOTONIC in nanoseconds.
        wall: the time of day in seconds.
        on_sample: is called after each sample.
    """

    def __init__(
        self,
        name: str,
        interval_s: float = 1.0,
        pcie: bool = False,
        *,
        connection: Connection | None = None,
        clock: Callable[[], int] = time.monotonic_ns,
        wall: Callable[[], float] = time.time,
        on_sample: Callable[[], None] = lambda: None,
    ) -> None:
        self.name = self.host = name
        self.connection = connection or Connection(name, clock=clock)
        self.interval_s = interval_s
        self.history = MachineHistory(interval_s)
        self.facts = MachineFacts()
        self._pcie, self._clock, self._wall, self._on_sample = pcie, clock, wall, on_sample
        self._boot_id: str | None = None
        self._arrived_ns: int | None = None
        self._sessions: tuple[RunningSession, ...] | None = None
        self._sessions_problem: str | None = None

    def start(self) -> None:
        """Connect and ask for samples; call this from the event loop."""
        if not self.is_on:
            super().start()
            self.connection.start()
            self.connection.add(StandingRequest("watch", self._fields, self._take))
            self.connection.add(StandingRequest("running", dict, self._take_sessions))

    def stop(self) -> None:
        """Do nothing: the samples go on, after a screen is left too, until `close`."""

    async def close(self) -> None:
        await self.connection.close()

    def retry_now(self) -> None:
        """Connect at once if there is no connection."""
        if not self.connection.is_up:
            self.connection.retry_now()

    @property
    def age_s(self) -> float | None:
        """The time since the newest sample arrived here; None before the first."""
        return None if self._arrived_ns is None else (self._clock() - self._arrived_ns) / 1e9

    def now(self) -> int:
        """Return the time of the host's clock, in nanoseconds."""
        if self.connection.clock_difference is not None:
            return self._clock() + self.connection.clock_difference.monotonic_ns
        latest = self.history.latest
        return 0 if latest is None else latest.t

    @property
    def state(self) -> HostState:
        connection = self.connection
        if connection.is_up:
            return HostState.CONNECTED
        if connection.problem is None:
            return HostState.CONNECTING
        if connection.has_ended:
            return HostState.ENDED
        if connection.needs_person:
            return HostState.NEEDS_PERSON
        return HostState.LOST if connection.connect_count else HostState.UNREACHED

    def snapshot(self) -> HostSnapshot:
        connection, state = self.connection, self.state
        difference = connection.clock_difference
        ahead_s = None if difference is None else difference.wall_s
        # After a reboot of the host, its history is empty.
        age_s = None if self.history.latest is None else self.age_s
        now_ns, now_wall = self._clock(), self._wall()
        lost_ns, retry_ns = connection.lost_at_ns, connection.retry_at_ns
        lost_wall = None if lost_ns is None else now_wall - (now_ns - lost_ns) / 1e9
        return HostSnapshot(
            name=self.name,
            state=state,
            problem=connection.problem,
            lost_wall=lost_wall,
            retry_in_s=None if retry_ns is None else max(0.0, (retry_ns - now_ns) / 1e9),
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
        boot_id = self.connection.boot_id
        if boot_id != self._boot_id:
            # The host has rebooted: its clock started anew.
            self._boot_id, self.history = boot_id, MachineHistory(self.interval_s)
            self.facts, self.start_ns = MachineFacts(), 0
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
            self.facts = newest_facts(self.facts, record.machine)
            self.start_ns = self.start_ns or record.t
        elif isinstance(record, Machine):
            latest = self.history.latest
            if latest is not None and record.t <= latest.t:
                return
            self.start_ns = self.start_ns or record.t
            self.history.add(record)
            self._arrived_ns = self._clock()
            self._on_sample()
        elif isinstance(record, Notice):
            self._take_notice(record.text)

    def _take_sessions(self, answer: Answer) -> None:
        if "error" in answer:
            self._sessions, self._sessions_problem = None, str(answer["error"])
        elif isinstance(answer.get("sessions"), list):
            self._sessions, self._sessions_problem = (), None
            for fields_of_session in answer["sessions"][:MOST_SESSIONS]:
                with contextlib.suppress(RecordError):
                    session = read_object(RunningSession, fields_of_session)
                    self._sessions += (session,) if session.session else ()
