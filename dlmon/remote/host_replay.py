"""Replay the recordings of several hosts on one time axis."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from dlmon.log.folder import LogError, id_of
from dlmon.remote.host import HostSnapshot, HostState, age_of, late_after_s
from dlmon.session.marks import Mark
from dlmon.session.replay import PLAYING_S, ReplaySource
from dlmon.session.source import PAUSE_S, Player

# The samples that are read of one host before the next one's turn.
_SAMPLES_AT_ONCE = 10
_LATEST_WALL = 1e11


class RecordedHost:
    """A host's recording."""

    def __init__(self, name: str, source: ReplaySource) -> None:
        self.name = name
        self.source = source
        source.host = name
        source.stop_clock()
        header = source.session.header
        self._wall_ns = int(header.wall * 1e9) - header.t

    @property
    def start_ns(self) -> int:
        return self.time_of_day(self.source.start_ns)

    @property
    def end_ns(self) -> int:
        return self.time_of_day(self.source.end_ns)

    @property
    def position_ns(self) -> int:
        return self.time_of_day(self.source.position_ns)

    def time_of_day(self, t: int) -> int:
        return t + self._wall_ns

    def own_time(self, wall_ns: int) -> int:
        return wall_ns - self._wall_ns

    def snapshot_at(self, wall_ns: int) -> HostSnapshot:
        machine = self.source.session.machine
        latest = machine.latest
        silent_s = late_after_s(machine.interval_s)
        edge_ns = None
        state, age = HostState.RECORDED, None
        if wall_ns < self.start_ns:
            state, edge_ns, latest = HostState.NOT_STARTED, self.start_ns, None
        elif wall_ns > self.end_ns + silent_s * 1e9 and not self.source.is_growing:
            state, edge_ns = HostState.ENDED, self.end_ns
        elif latest is not None:
            age = age_of((self.own_time(wall_ns) - latest.t) / 1e9, machine.interval_s)
        return HostSnapshot(
            name=self.name,
            state=state,
            problem=self.source.problem,
            facts=self.source.session.facts,
            machine=latest,
            history=machine,
            interval_s=machine.interval_s,
            age=age,
            sample_wall=None if latest is None else self.time_of_day(latest.t) / 1e9,
            edge_wall=None if edge_ns is None else edge_ns / 1e9,
        )


class HostReplay(Player):
    """The recordings of several hosts, all shown at the same moment.

    Times are the time of day in nanoseconds, by the clock of each host at the start of its
    recording.

    Args:
        logs: the recordings of machines, without a workload.
        names: a name for each log; None for the hosts' own names.
        clock: CLOCK_MONOTONIC in nanoseconds.

    Raises:
        LogError: a log can't be read, or is that of a training run.
    """

    def __init__(
        self,
        logs: Sequence[Path],
        names: Sequence[str] | None = None,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        super().__init__(clock)
        self.hosts: list[RecordedHost] = []
        sources: list[ReplaySource] = []
        try:
            for log in logs:
                sources.append(ReplaySource(log, clock))
                _refuse_unfit(sources[-1])
            names = names or [source.session.header.host for source in sources]
            self.hosts = [
                RecordedHost(name, source)
                for name, source in zip(_unique_names(names), sources, strict=True)
            ]
        except BaseException:
            for source in sources:
                source.close()
            raise
        self.position_ns = self.start_ns
        self._lent: RecordedHost | None = None
        self._lent_at_ns = 0

    # ---- position ----

    @property
    def start_ns(self) -> int:
        return min(host.start_ns for host in self.hosts)

    @property
    def end_ns(self) -> int:
        return max(host.end_ns for host in self.hosts)

    @property
    def is_growing(self) -> bool:
        return any(host.source.is_growing for host in self.hosts)

    @property
    def ahead_share(self) -> float | None:
        return _mean([host.source.ahead_share for host in self.hosts])

    def snapshots(self) -> list[HostSnapshot]:
        return [host.snapshot_at(self.position_ns) for host in self.hosts]

    # ---- seeking ----

    def seek(self, t: int, max_s: float | None = None) -> None:
        self.position_ns = min(max(t, self.start_ns), self.end_ns)
        self.go_on()
        share_s = None if max_s is None else max_s / len(self.hosts)
        for host in self.hosts:
            host.source.seek(host.own_time(self.position_ns), share_s)
        self._find_read_share()

    def seek_mark(self, forward: bool, max_s: float | None = None) -> tuple[str, Mark] | None:
        """Show the next or the previous mark of any host; return the host's name and the mark."""
        marks = []
        for host in self.hosts:
            mark = host.source.mark_beside(host.own_time(self.position_ns), forward)
            if mark is not None:
                marks.append((host.time_of_day(mark.t), host.name, mark))
        if not marks:
            return None
        nearest = min if forward else max
        wall_ns, name, mark = nearest(marks, key=lambda entry: entry[0])
        self.seek(wall_ns, max_s)
        return name, mark

    # ---- playing ----

    def poll(self, max_s: float = PLAYING_S) -> None:
        """Play on to the current moment, but read for no more than `max_s`."""
        if self._lent is not None:
            return
        if self.read_share is not None:
            self._read_on(max_s)
            return
        if self.is_playing:
            self._go_to(self._moved_ns(), max_s)
        self.go_on()

    def _read_on(self, max_s: float) -> None:
        until = time.monotonic() + max_s
        for host in self.hosts:
            if host.source.read_share is not None:
                host.source.poll(max_s)
                if time.monotonic() >= until:
                    break
        self._find_read_share()
        self.go_on()

    def _find_read_share(self) -> None:
        self.read_share = _mean([host.source.read_share for host in self.hosts])

    def _go_to(self, wall_ns: int, max_s: float) -> None:
        """Read all hosts on to the same moment; if that takes too long, stop at an earlier one."""
        until = time.monotonic() + max_s
        interval_s = min(host.source.session.machine.interval_s for host in self.hosts)
        step_ns = int(_SAMPLES_AT_ONCE * interval_s * 1e9)
        while True:
            self.position_ns = min(self.position_ns + step_ns, wall_ns)
            for host in self.hosts:
                host.source.move_to(host.own_time(self.position_ns))
            if self.position_ns >= wall_ns or time.monotonic() >= until:
                return

    def read_ahead(self, max_s: float) -> None:
        """Read ahead in the logs, for marks, for up to `max_s`."""
        unread = [host for host in self.hosts if host.source.ahead_share is not None]
        for host in unread or self.hosts:
            host.source.read_ahead(max_s / len(unread or self.hosts))

    async def pause(self) -> None:
        await asyncio.sleep(PAUSE_S)

    # ---- replaying one host alone ----

    def lend(self, host: RecordedHost) -> ReplaySource:
        """Return the recording of a host, to be replayed alone until `take_back`."""
        self._lent, source = host, host.source
        source.speed, source.is_playing = self.speed, self.is_playing
        source.go_on()
        self._lent_at_ns = source.position_ns
        return source

    def take_back(self) -> None:
        """Take over the position and speed of the host that was lent."""
        if self._lent is None:
            return
        host, source = self._lent, self._lent.source
        self._lent = None
        self.speed, self.is_playing = source.speed, source.is_playing
        source.stop_clock()
        self.go_on()
        if source.position_ns != self._lent_at_ns:
            self.seek(host.position_ns, PLAYING_S)

    def close(self) -> None:
        for host in self.hosts:
            host.source.close()


def _mean(shares: Sequence[float | None]) -> float | None:
    """Return the mean, with 1 for each finished share (None); None if all are finished."""
    if all(share is None for share in shares):
        return None
    return sum(1.0 if share is None else share for share in shares) / len(shares)


def _unique_names(names: Sequence[str]) -> list[str]:
    """Return the names, made unique: the second "tower" becomes "tower (2)"."""
    counts: Counter[str] = Counter()
    unique: list[str] = []
    for name in names:
        counts[name] += 1
        while counts[name] > 1 and f"{name} ({counts[name]})" in names:
            counts[name] += 1
        unique.append(name if counts[name] == 1 else f"{name} ({counts[name]})")
    return unique


def _refuse_unfit(source: ReplaySource) -> None:
    header = source.session.header
    if not header.is_machine_recording:
        raise LogError(
            f"{id_of(source.path)} is a training run, and only recordings of machines are "
            "replayed together: replay it by itself"
        )
    # A log from elsewhere may have any time.
    if not 0 <= header.wall < _LATEST_WALL:
        raise LogError(
            f"{id_of(source.path)} does not say when it was recorded: replay it by itself"
        )
