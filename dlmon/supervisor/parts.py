"""Bring what the other machines of a run recorded into the log of the session."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from dlmon.log.folder import LogError
from dlmon.log.log_follower import LogFollower
from dlmon.log.parts import parts_in
from dlmon.records import (
    NUMBERS_OF_A_PART,
    Batches,
    BatchSummary,
    Epoch,
    Facts,
    FrameworkMemory,
    Machine,
    MachineFacts,
    Model,
    Node,
    Notice,
    OutOfMemory,
    Record,
    Result,
    SessionHeader,
    Status,
    Trainer,
)
from dlmon.records.changes import Changes, merge
from dlmon.supervisor.joined_batches import JoinedBatches

READ_S = 0.5
# So long part 0 waits for the last of the others once its own script has ended, while they write.
END_S = 10.0
# Clocks of machines that are set by a server agree better than this.
AGREE_NS = 2_000_000_000
MOST_AT_ONCE = 4 << 20
FEW_MACHINES = 16
FEW_RANKS = 32
"""The batches of no more processes are written as they come."""
RANKS_A_SECOND = 48
"""Of more, each is written so seldom that so many are written in a second."""
SELDOM_S = 15.0


class Parts:
    """Reads the logs of the other parts as they grow, and writes what they hold as of one session.

    Times become those of the session's own clock by the wall clocks of both machines; where these
    differ, by the ends of the first epoch that both have, and a notice says by how much.

    Args:
        folder: that of the session.
        header: that of the session's own log.
        write: takes the records.
        trains_here: takes the pid of a process of another part that trains on this machine.
    """

    def __init__(
        self,
        folder: Path,
        header: SessionHeader,
        write: Callable[[Record], None],
        trains_here: Callable[[int], None] = lambda pid: None,
    ) -> None:
        self._folder, self._header, self._write = folder, header, write
        self._trains_here = trains_here
        self._parts: dict[int, _Part] = {}
        self._sampled_by: dict[str, _Part] = {}
        """One machine may have several parts: it is shown by the first that has samples."""
        self._epoch_ends: dict[int, int] = {}
        self._joined: defaultdict[int, JoinedBatches] = defaultdict(JoinedBatches)
        """What is held of each process, by its number."""
        self._memory: dict[tuple[int, int], FrameworkMemory] = {}
        """What was written last of each process and GPU."""
        self._unwritten: dict[tuple[int, int], FrameworkMemory] = {}
        """What came since; it stands for what came before it."""
        self._ranks = 0
        """How many processes train, as far as one of them has said it."""

    def take_epoch(self, epoch: Epoch) -> None:
        """Note when an epoch of the session's own log ended."""
        self._epoch_ends.setdefault(epoch.epoch, epoch.end)

    async def follow(self) -> None:
        """Read them again and again until this is cancelled."""
        while True:
            await self.read()
            await asyncio.sleep(READ_S)

    async def read(self) -> int:
        """Take what is new; return how many records that were."""
        # A disk that is shared may take its time.
        found = await asyncio.to_thread(lambda: list(self._new()))
        for part, record in found:
            if isinstance(record, Trainer) and part.is_here:
                self._trains_here(record.pid)
            if isinstance(record, (Machine, Facts)) and (
                part.is_here or self._sampled_by.setdefault(part.host, part) is not part
            ):
                continue
            if isinstance(record, Machine) and not part.shows(record, len(self._sampled_by)):
                continue
            for written in part.of_session(record, self._epoch_ends):
                self._take(written)
        for joined in self._joined.values():
            # Of a process that stands still nothing is kept back.
            self._write_all(joined.take_old())
        return len(found)

    def _take(self, record: Record) -> None:
        """Write a record, behind the batches of its process; of many, these wait for more."""
        ranks = max(self._ranks, len(self._joined))
        every_ns = 0.0 if ranks <= FEW_RANKS else 1e9 * min(ranks / RANKS_A_SECOND, SELDOM_S)
        if isinstance(record, Batches):
            joined = self._joined[record.trainer or 0]
            self._write_all(joined.add(record))
            if joined.held_ns >= every_ns:
                self._write_all(joined.take())
            return
        if isinstance(record, FrameworkMemory):
            place = (record.trainer or 0, record.device)
            before = self._memory.get(place)
            if before is not None and record.t - before.t < every_ns:
                self._unwritten[place] = record
                return
            self._memory[place] = record
            self._unwritten.pop(place, None)
            self._write(record)
            return
        number: Any = getattr(record, "trainer", None)
        if isinstance(record, Trainer):
            number = record.number
            self._ranks = max(self._ranks, record.world_size or 0)
        if number in self._joined:
            self._write_all(self._joined[number].take())
        for place in [place for place in self._unwritten if place[0] == number]:
            self._write(self._unwritten.pop(place))
        self._write(record)

    def _write_all(self, records: Iterable[Record]) -> None:
        for record in records:
            self._write(record)

    async def finish(self, deadline_s: float = END_S) -> None:
        """Take the rest, as long as more comes, until all have a result."""
        until = time.monotonic() + deadline_s
        while time.monotonic() < until:
            await self.read()
            if all(part.has_ended for part in self._parts.values()):
                return
            await asyncio.sleep(READ_S)

    def close(self) -> None:
        """Write what is held, and let go of the logs."""
        for held in self._joined.values():
            self._write_all(held.take())
        self._write_all(self._unwritten.values())
        for part in self._parts.values():
            part.follower.close()

    def _new(self) -> Iterator[tuple[_Part, Record]]:
        for number, path in sorted(parts_in(self._folder)):
            if number not in self._parts:
                # Its first line may not be whole yet.
                with contextlib.suppress(LogError):
                    self._parts[number] = _Part(number, LogFollower(path), self._header)
        for part in self._parts.values():
            with contextlib.suppress(OSError):
                for record in part.follower.new_records(MOST_AT_ONCE):
                    yield part, record


def node_of(header: SessionHeader) -> str:
    """Return what the machine of a part is called."""
    return header.node or header.host


class _Part:
    """One of the other parts.

    Args:
        number: which.
        follower: of its log.
        header: that of the session's own log.
    """

    def __init__(self, number: int, follower: LogFollower, header: SessionHeader) -> None:
        self.follower, self._number = follower, number
        own = follower.header
        self.host = node_of(own)
        self.is_here = self.host == node_of(header)
        """Whether it is of the machine whose log the session's own is."""
        self.has_ended = False
        same_boot = own.host == header.host and own.boot_id == header.boot_id
        by_wall = header.t - own.t + round((own.wall - header.wall) * 1e9)
        self._offset_ns = 0 if same_boot else by_wall
        self._is_aligned = same_boot
        self._facts: MachineFacts | None = own.machine
        self._machine: Machine | None = None
        self._changes = Changes()
        self._is_left_out = False

    def shows(self, sample: Machine, machines: int) -> bool:
        """Return whether a sample is to be written; of very many machines, every other one is.

        What changed in one that is left out is in the next.
        """
        self._machine = merge(self._machine, sample)
        self._is_left_out = machines > FEW_MACHINES and not self._is_left_out
        return not self._is_left_out

    def of_session(self, record: Record, epoch_ends: Mapping[int, int]) -> Iterator[Record]:
        """Yield what a record of its log is in the log of the session."""
        if isinstance(record, Trainer):
            number = NUMBERS_OF_A_PART * self._number + record.number
            host = None if self.is_here else self.host
            yield replace(record, number=number, host=host, t=self._time(record.t))
        elif isinstance(
            record, (Model, Batches, BatchSummary, Epoch, FrameworkMemory, OutOfMemory)
        ):
            if isinstance(record, Epoch) and record.epoch in epoch_ends:
                yield from self._align(record, epoch_ends[record.epoch])
            number = NUMBERS_OF_A_PART * self._number + (record.trainer or 0)
            yield self._moved(replace(record, trainer=number))
        elif isinstance(record, Machine):
            if self._machine is not None:
                record = self._changes.only_changed(self._machine)
            moved = self._moved(record)
            if self._facts is not None:
                facts, self._facts = self._facts, None
                yield Node(moved.t, self.host, facts=facts)
            yield Node(moved.t, self.host, machine=moved)
        elif isinstance(record, Facts):
            yield Node(self._time(record.t), self.host, facts=record.machine)
        elif isinstance(record, Notice):
            yield Notice(self._time(record.t), f"{self.host}: {record.text}")
        elif isinstance(record, Result):
            self.has_ended = True
            if record.status == Status.FAILED:
                text = f"{self.host}: the script failed: {record.error or 'no reason known'}"
                yield Notice(self._time(record.t or time.monotonic_ns()), text)

    def _time(self, t: int) -> int:
        return t + self._offset_ns

    def _moved(self, record: Any) -> Any:
        """Return a record with its times on the session's clock."""
        names = ("t", "begin", "end", "train_end", "t_last", "first_end", "last_end")
        fields = vars(record)
        moved = {name: self._time(fields[name]) for name in names if fields.get(name) is not None}
        validation = fields.get("validation")
        if validation is not None:
            moved["validation"] = self._moved(validation)
        return replace(record, **moved)

    def _align(self, epoch: Epoch, end_ns: int) -> Iterator[Notice]:
        """Set its clock by the end of an epoch that was one for both, unless it is right."""
        if self._is_aligned:
            return
        self._is_aligned = True
        apart_ns = end_ns - self._time(epoch.end)
        if abs(apart_ns) > AGREE_NS:
            self._offset_ns += apart_ns
            way = "behind" if apart_ns > 0 else "ahead"
            text = f"the clock of {self.host} is {abs(apart_ns) / 1e9:,.0f} s {way}"
            yield Notice(
                end_ns, f"{text}: its times are moved by the end of epoch {epoch.epoch + 1:,}"
            )
