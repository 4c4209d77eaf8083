"""Where the processes of a session were while no batch came, and what they were asked."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from dlmon.records import ProcessStack, Stack

# A pause of ten seconds has five records, of which the last counts.
MOST = 4000


class Stacks:
    """Collects the stacks of pauses, and those of all processes at once."""

    def __init__(self) -> None:
        self._of_pauses: deque[Stack] = deque(maxlen=MOST)
        self._going_on: dict[int, Stack] = {}
        self._of_processes: dict[int, ProcessStack] = {}

    def fold(self, record: Stack | ProcessStack) -> None:
        """Take a record; the last one of a pause counts, and of questions the last one."""
        if isinstance(record, ProcessStack):
            if any(each.request != record.request for each in self._of_processes.values()):
                self._of_processes = {}
            self._of_processes[record.pid] = record
            return
        number = record.trainer or 0
        if record.goes_on:
            self._going_on[number] = record
            return
        self._going_on.pop(number, None)
        of_process = (s for s in reversed(self._of_pauses) if s.trainer == record.trainer)
        before = next(of_process, None)
        if before is not None and before.begin == record.begin:
            self._of_pauses.remove(before)
        self._of_pauses.append(record)

    def went_on(self, number: int, t: int) -> None:
        """Note that a batch of a process ended: a pause that was seen before is over.

        What was seen last of it counts until its last record comes, for which a process that ends
        at once may have no time.
        """
        last = self._going_on.get(number)
        if last is not None and last.t < t:
            self.ended(number)

    def ended(self, number: int) -> Stack | None:
        """Note that a process has ended; return the pause in which it did, as it was seen last."""
        last = self._going_on.pop(number, None)
        if last is not None:
            self._of_pauses.append(last)
        return last

    @property
    def going_on(self) -> Stack | None:
        """The pause that goes on of the process that is shown in full."""
        return self._going_on.get(0)

    @property
    def of_pauses(self) -> tuple[Stack, ...]:
        """Those of pauses, in the order in which they ended; at last those that go on."""
        return (*self._of_pauses, *self._going_on.values())

    @property
    def of_processes(self) -> tuple[ProcessStack, ...]:
        """What each process was doing when they were asked last: by rank, then by process id."""
        return in_order(self._of_processes.values())


def stacks_in(start: int, end: int, stacks: tuple[Stack, ...]) -> list[Stack]:
    """Return those that were seen for the greater part of a time, of its first process first."""
    within = [s for s in stacks if min(s.t, end) - max(s.begin, start) > (s.t - s.begin) / 2]
    return sorted(within, key=lambda stack: (stack.trainer or 0, stack.begin - stack.t))


def in_order(stacks: Iterable[ProcessStack]) -> tuple[ProcessStack, ...]:
    """Return stacks of processes by rank, then by process id; those that load data at last."""

    def place_of(stack: ProcessStack) -> tuple[bool, int, int]:
        return stack.worker is not None, stack.rank or 0, stack.pid

    return tuple(sorted(stacks, key=place_of))
