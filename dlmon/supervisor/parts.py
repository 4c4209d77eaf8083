"""Copy the records of a run's other hosts into the log of the session."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from dlmon.log.folder import LogError, parts_in
from dlmon.log.log_follower import LogFollower
from dlmon.records import (
    NUMBERS_PER_PART,
    Batches,
    BatchSummary,
    CodeSamples,
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
    StepParts,
    Trainer,
)
from dlmon.records.changes import Changes, merge
from dlmon.session.limits.run_samples import summed_parts
from dlmon.session.running_time import with_times
from dlmon.supervisor.joined_batches import JoinedBatches

READ_S = 0.5
# The time that part 0 waits for the other parts' results once its own script has ended.
END_S = 10.0
# Clocks of hosts that a time server sets agree better than this.
AGREE_NS = 2_000_000_000
MOST_AT_ONCE = 4 << 20
# With up to this many hosts, every sample is written.
FEW_MACHINES = 16
# With up to this many ranks, batches are written as they come; with more, they are joined, so
# that this many records a second are written, but at least one of every rank in SELDOM_S.
FEW_RANKS = 32
RANKS_A_SECOND = 48
SELDOM_S = 15.0

_Sampled: TypeAlias = CodeSamples | FrameworkMemory | StepParts
_Key: TypeAlias = tuple[int, str, int | None]
_OF_PROCESSES = (
    *(Model, Batches, BatchSummary, Epoch, StepParts, CodeSamples),
    *(FrameworkMemory, OutOfMemory),
)


class Parts:
    """Reads the logs of the other parts as they grow, and writes their records to the session's.

    Times are converted to the session's own clock by the wall clocks of both hosts. If these
    differ, they are aligned at the end of the first common epoch, with a notice.

    Args:
        folder: the folder of the session.
        header: the header of the session's log.
        write: is called with the records.
        trains_here: is called with the pid of another part's training process on this host.
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
        """The part whose samples are written, by host: the first part that sends any."""
        self._epoch_ends: dict[int, int] = {}
        self._joined: defaultdict[int, JoinedBatches] = defaultdict(JoinedBatches)
        """The batches that wait, by the number of their process."""
        self._written: dict[_Key, _Sampled] = {}
        """The last written record by process, kind and GPU."""
        self._unwritten: dict[_Key, _Sampled] = {}
        """The newest record since, in place of those in between; of the parts of steps, the sum."""
        self._ranks = 0
        """The number of ranks, as reported by the processes."""
        self._reading = asyncio.Lock()

    def take_epoch(self, epoch: Epoch) -> None:
        """Note the end of an epoch in the session's own log."""
        self._epoch_ends.setdefault(epoch.epoch, epoch.end)

    async def follow(self) -> None:
        """Read the logs repeatedly until this is cancelled."""
        while True:
            await self.read()
            await asyncio.sleep(READ_S)

    async def read(self) -> int:
        """Take the new records; return their number."""
        # Whoever is cancelled while a thread reads would lose what the thread has read.
        return await asyncio.shield(self._read())

    async def _read(self) -> int:
        async with self._reading:
            # A shared disk may be slow.
            new = await asyncio.to_thread(lambda: list(self._new()))
        for part, record in new:
            if isinstance(record, Trainer) and part.is_here:
                self._trains_here(record.pid)
            if isinstance(record, (Machine, Facts)) and (
                part.is_here or self._sampled_by.setdefault(part.host, part) is not part
            ):
                continue
            if isinstance(record, Machine) and not part.shows(record, len(self._sampled_by)):
                continue
            for converted in part.of_session(record, self._epoch_ends):
                self._take(converted)
        for joined in self._joined.values():
            # If a process stands still, its last batches are written.
            self._write_all(joined.take_old())
        return len(new)

    def _take(self, record: Record) -> None:
        """Write a record after the batches of its process; with many ranks, these wait for more."""
        ranks = max(self._ranks, len(self._joined))
        every_ns = 0.0 if ranks <= FEW_RANKS else 1e9 * min(ranks / RANKS_A_SECOND, SELDOM_S)
        if isinstance(record, Batches):
            joined = self._joined[record.trainer or 0]
            self._write_all(joined.add(record))
            if joined.held_ns >= every_ns:
                self._write_all(joined.take())
            return
        if isinstance(record, (CodeSamples, FrameworkMemory, StepParts)):
            key = (record.trainer or 0, record.TYPE, getattr(record, "device", None))
            written, unwritten = self._written.get(key), self._unwritten.pop(key, None)
            if isinstance(record, StepParts) and isinstance(unwritten, StepParts):
                record = summed_parts([unwritten, record]) or record
            if written is not None and record.t - written.t < every_ns:
                self._unwritten[key] = record
                return
            self._written[key] = record
            self._write(record)
            return
        number: Any = getattr(record, "trainer", None)
        if isinstance(record, Trainer):
            number = record.number
            self._ranks = max(self._ranks, record.world_size or 0)
        if number in self._joined:
            self._write_all(self._joined[number].take())
        for key in [key for key in self._unwritten if key[0] == number]:
            self._write(self._unwritten.pop(key))
        self._write(record)

    def _write_all(self, records: Iterable[Record]) -> None:
        for record in records:
            self._write(record)

    async def finish(self, deadline_s: float = END_S) -> None:
        """Take the remaining records until all parts have a result, or the time is up."""
        until = time.monotonic() + deadline_s
        while time.monotonic() < until:
            await self.read()
            if all(part.has_ended for part in self._parts.values()):
                return
            await asyncio.sleep(READ_S)

    def close(self) -> None:
        """Write the waiting records, and close the logs."""
        for joined in self._joined.values():
            self._write_all(joined.take())
        self._write_all(self._unwritten.values())
        for part in self._parts.values():
            part.follower.close()

    def _new(self) -> Iterator[tuple[_Part, Record]]:
        for number, path in sorted(parts_in(self._folder)):
            if number not in self._parts:
                # Its first line may not be finished yet.
                with contextlib.suppress(LogError):
                    self._parts[number] = _Part(number, LogFollower(path), self._header)
        for part in self._parts.values():
            with contextlib.suppress(OSError):
                for record in part.follower.new_records(MOST_AT_ONCE):
                    yield part, record


class _Part:
    """One of the other parts."""

    def __init__(self, number: int, follower: LogFollower, header: SessionHeader) -> None:
        self.follower, self._number = follower, number
        part = follower.header
        self.host = part.node or part.host
        self.is_here = self.host == (header.node or header.host)
        """True if it runs on the session's own host."""
        self.has_ended = False
        same_boot = part.host == header.host and part.boot_id == header.boot_id
        by_wall_ns = header.t - part.t + round((part.wall - header.wall) * 1e9)
        self._offset_ns = 0 if same_boot else by_wall_ns
        self._is_aligned = same_boot
        self._facts: MachineFacts | None = part.machine
        self._machine: Machine | None = None
        self._changes = Changes()
        self._is_skipped = False

    def shows(self, sample: Machine, machines: int) -> bool:
        """Return whether to write a sample: with very many hosts, only every other one.

        The next sample contains the changes of a skipped one.
        """
        self._machine = merge(self._machine, sample)
        self._is_skipped = machines > FEW_MACHINES and not self._is_skipped
        return not self._is_skipped

    def of_session(self, record: Record, epoch_ends: Mapping[int, int]) -> Iterator[Record]:
        """Yield the records of the session's log for a record of the part's log."""
        if isinstance(record, Trainer):
            number = NUMBERS_PER_PART * self._number + record.number
            host = None if self.is_here else self.host
            yield replace(record, number=number, host=host, t=self._time(record.t))
        elif isinstance(record, _OF_PROCESSES):
            if isinstance(record, Epoch) and record.epoch in epoch_ends:
                yield from self._align(record, epoch_ends[record.epoch])
            number = NUMBERS_PER_PART * self._number + (record.trainer or 0)
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
        moved = with_times(record, self._time)
        if isinstance(record, Epoch) and record.validation is not None:
            moved = replace(moved, validation=with_times(record.validation, self._time))
        return moved

    def _align(self, epoch: Epoch, end_ns: int) -> Iterator[Notice]:
        """Correct the part's clock by the end of a common epoch, once, if it is wrong."""
        if self._is_aligned:
            return
        self._is_aligned = True
        difference_ns = end_ns - self._time(epoch.end)
        if abs(difference_ns) > AGREE_NS:
            self._offset_ns += difference_ns
            way = "behind" if difference_ns > 0 else "ahead"
            text = f"the clock of {self.host} is {abs(difference_ns) / 1e9:,.0f} s {way}"
            yield Notice(
                end_ns, f"{text}: its times are moved by the end of epoch {epoch.epoch + 1:,}"
            )
