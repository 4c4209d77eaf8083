"""The entries of an index, and how a session is taken up at one of them.

An entry holds the records that are few (epochs, phases, notices) as they are, all that a snapshot
needs exactly, and the series in cells of a few seconds: what is older than a screen shows finely
keeps its mean, and the least and the most of each minute.
"""

from __future__ import annotations

import json
import math
import sys
import zlib
from bisect import bisect_right
from collections import defaultdict, deque
from collections.abc import Iterator
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple

from dlmon.log.index import Place
from dlmon.records import (
    Alert,
    Epoch,
    Evaluation,
    Facts,
    Machine,
    Metrics,
    Model,
    NamedPause,
    Notice,
    Output,
    Phase,
    ProcessStack,
    Profile,
    Record,
    SessionHeader,
    Stack,
    Trainer,
    decode,
)
from dlmon.records.sanitize import clean
from dlmon.session.energy import EnergyCounter, EnergyPoint
from dlmon.session.epoch_use import EpochUse
from dlmon.session.gaps import Gap
from dlmon.session.keyframes.series import RATES, put_series
from dlmon.session.keyframes.values import (
    MALFORMED,
    MOST_SERIES,
    NoKeyframe,
    check_numbers,
    most_of,
    read_account,
    read_gap,
    read_mark,
    read_open_epoch,
    read_output,
    read_point,
    read_readings,
    read_rest,
    read_use_values,
    real,
    whole,
)
from dlmon.session.learning import Learning
from dlmon.session.limits.looks import looked_back_s
from dlmon.session.marks import Mark
from dlmon.session.session import MAX_PHASE_SPANS, Session
from dlmon.statistics.series import (
    CELLS_OF_QUARTER,
    FINE_BUCKETS,
    CoarseSeries,
    Earlier,
    Series,
)
from dlmon.statistics.state import with_state
from dlmon.statistics.steady_state import SteadyState

SECOND_NS = 10**9
LAST_OUTPUT_LINES = 20
KEPT = (
    *(Alert, Epoch, Evaluation, Facts, Model, NamedPause),
    *(Notice, Phase, ProcessStack, Profile, Stack, Trainer),
)
"""The records that are few: an entry has them as they are."""
EARLIER_OUTPUT = "(earlier output is in the log)"
# A seek is not to keep a key waiting.
RECORDS_AT_ONCE = 200
# What is drawn finely lies within so long, but for the whole of a session of about an hour.
RECENT_NS = 720 * SECOND_NS


_Cells = defaultdict[str, list[tuple[int, float]]]
"""The cells of each series, each with its number."""

Restored = tuple[Session, Place] | None
"""A session, and the place in its log from which it is to be read on."""


class _Entry(NamedTuple):
    """An entry; its state is read on demand."""

    t: int
    place: Place
    records: int
    """So many of the records that are kept came before it."""
    epoch_starts: list[tuple[int, int]]
    epoch_uses: dict[int, EpochUse]
    gaps: list[Gap]
    energy: dict[str, EnergyPoint]
    loops: list[tuple[int, int, dict[str, Any]]]
    """Of loops that ran since the entry before, and do no more: their process, number and state."""
    cuts: dict[str, int]
    """Of each series, the cell behind the last."""
    packed_state: bytes
    """Compressed: a day has over a thousand, and few of them are ever read."""

    @property
    def state(self) -> dict[str, Any]:
        state: dict[str, Any] = json.loads(zlib.decompress(self.packed_state))
        return state


class Keyframes:
    """All entries of a log, so that its fold can begin at any of them.

    Args:
        header: of the session.
    """

    def __init__(self, header: SessionHeader) -> None:
        self._header = header
        self._records: list[Record] = []
        self._entries: list[_Entry] = []
        self._at: dict[str, Any] | None = None
        self._coarse: dict[str, CoarseSeries] = {}
        # What limits a run is seen in its last samples.
        interval_s = Session(header).machine.interval_s
        self._margin_ns = int(looked_back_s(interval_s) * SECOND_NS)
        self.cuts: dict[str, int] = {}
        """Of each series, the cell behind the last that is known."""
        self.marks: list[Mark] = []

    def add(self, line: bytes) -> None:
        """Take the next line of an index.

        Raises:
            NoKeyframe: it is none that we write.
        """
        try:
            if self._at is not None:
                self._entries.append(self._entry(self._at, line))
                self._at = None
            elif line.startswith(b'{"type":"at"'):
                self._at = json.loads(line)
            else:
                record = decode(line)
                if not isinstance(record, (*KEPT, Metrics)):
                    raise NoKeyframe("a record that is not kept")
                self._records.append(record)
        except MALFORMED as error:
            raise NoKeyframe(str(error)) from None

    def end(self) -> None:
        """Forget a last entry that is torn: what it kept comes again with the next one."""
        self._at = None
        del self._records[self._entries[-1].records if self._entries else 0 :]

    def _entry(self, at: dict[str, Any], state: bytes) -> _Entry:
        offset, checked, digest = at["place"]
        place, t = Place(whole(offset), whole(checked), str(digest)), whole(at["t"])
        before = self._entries[-1] if self._entries else None
        if before is not None and (t <= before.t or place.offset <= before.place.offset):
            raise NoKeyframe("entries out of order")
        if not state.startswith(b'{"type":"state"'):
            raise NoKeyframe("an entry without its state")
        energy = {sys.intern(name): read_point(*point) for name, point in at["energy"].items()}
        for name, (first, count, low, high, means) in at["series"].items():
            self._add_part(sys.intern(name), first, count, low, high, means)
        self.marks += [read_mark(*mark) for mark in at["marks"]]
        starts = [(whole(epoch), whole(start)) for epoch, start in at["epoch_starts"]]
        gaps = [read_gap(*values) for values in at["gaps"]]
        uses = {
            whole(begin): EpochUse(whole(readings), read_use_values(values))
            for begin, readings, values in at["epoch_uses"]
        }
        records, cuts = len(self._records), dict(self.cuts)
        packed = zlib.compress(state, level=1)
        loops = [(whole(each), whole(n), dict(steady)) for each, n, steady in at["loops"]]
        return _Entry(t, place, records, starts, uses, gaps, energy, loops, cuts, packed)

    def _add_part(
        self, name: str, first: int, count: int, low: Any, high: Any, means: list[Any]
    ) -> None:
        check_numbers([low, high], most_of(name))
        check_numbers(means, most_of(name))
        first, count = whole(first), whole(count)
        if not 0 < count <= FINE_BUCKETS or len(means) != -(-count // CELLS_OF_QUARTER):
            raise NoKeyframe("a part of another length")
        if first < self.cuts.get(name, first) or len(self.cuts) > MOST_SERIES:
            raise NoKeyframe("parts out of order")
        self.cuts[name] = first + count
        if name not in self._coarse:
            self._coarse[name] = CoarseSeries()
        self._coarse[name].add(first, means, low, high)

    @property
    def last_place(self) -> Place | None:
        return self._entries[-1].place if self._entries else None

    def restored_before(self, t: int) -> Iterator[Restored]:
        """Yield None many times, for it takes a while, and then the session at an entry.

        That is the last one from which a moment can be shown in full; None where it is the start.

        Raises:
            NoKeyframe: what the entry holds can't be.
        """
        number = self._number_before(t)
        return iter((None,)) if number is None else self._restored(number)

    def place_before(self, t: int) -> Place | None:
        number = self._number_before(t)
        return None if number is None else self._entries[number].place

    def last_session(self) -> Restored:
        """Return the session at the last entry; None where there is none.

        Raises:
            NoKeyframe: what the entry holds can't be.
        """
        return last_of(self._restored(len(self._entries) - 1)) if self._entries else None

    def _number_before(self, t: int) -> int | None:
        latest = t - self._margin_ns
        number = bisect_right(self._entries, latest, key=attrgetter("t")) - 1
        return number if number >= 0 else None

    def _restored(self, number: int) -> Iterator[Restored]:
        """Yield None after each piece of work, and then the session at an entry."""
        session = Session(self._header)
        try:
            yield from self._restore(session, number)
            # Whatever numbers it holds, they can be shown.
            session.snapshot()
        except MALFORMED as error:
            raise NoKeyframe(str(error)) from None
        yield session, self._entries[number].place

    def _restore(self, session: Session, number: int) -> Iterator[None]:
        """Bring a session to where it was at an entry, and yield after each piece of work."""
        entries = self._entries[: number + 1]
        entry = entries[-1]
        state = entry.state
        session.learning = Learning(partial(Series.of_span, self._header.t, entry.t))
        for at, record in enumerate(self._records[: entry.records]):
            session.fold(record)
            if at % RECORDS_AT_ONCE == 0:
                yield
        output = [read_output(*line) for line in state["output"]]
        if len(output) >= LAST_OUTPUT_LINES:
            output.insert(0, Output(output[0].t, "dlmon", EARLIER_OUTPUT))
        starts = [start for each in entries for start in each.epoch_starts]
        session.epoch_starts = deque(starts, maxlen=MAX_PHASE_SPANS)
        session.epoch_uses.ended = {
            b: use for each in entries for b, use in each.epoch_uses.items()
        }
        session.epoch_uses.state = read_open_epoch(*state["epoch"])
        session.take_state(tuple(map(whole, state["counts"])), output)
        for each, n, steady in (*(loop for one in entries for loop in one.loops), *state["loops"]):
            loops = session.loops if each == 0 else session.trainers.loops[whole(each)]
            loops.all[whole(n)].steady = with_state(SteadyState(), steady)
        session.account.state = read_account(*state["account"])
        session.readings.state = read_readings(*state["readings"])
        _take_metrics(session, state.get("metrics", {}))
        waited_us = state["waited_us"]
        session.data_wait.waited_us = None if waited_us is None else whole(waited_us)
        session.gaps.take_state(
            # What an entry says of a gap that an earlier one has as well is newer.
            {gap.start: gap for each in entries for gap in each.gaps}.values(),
            None if state["last_gap"] is None else read_gap(*state["last_gap"]),
            map(whole, state["batch_sizes"]),
        )
        if state["machine"] is not None:
            latest = decode(json.dumps({"type": Machine.TYPE, **state["machine"]}))
            if not isinstance(latest, Machine):
                raise NoKeyframe("no readings")
            session.machine.latest = latest
        for index, mib in state["gpu_memory_peak_mib"].items():
            session.machine.gpu_memory_peak_mib[int(index)] = whole(mib)
        _take_energy(session, state["energy"], entries)
        yield
        yield from self._restore_series(session, entries, state)

    def _restore_series(
        self, session: Session, entries: list[_Entry], state: dict[str, Any]
    ) -> Iterator[None]:
        """Give a session its series, and yield after each piece of work."""
        entry = entries[-1]
        oldest, recent = (
            bisect_right(entries, entry.t - span_ns, key=attrgetter("t"))
            for span_ns in (FINE_BUCKETS * SECOND_NS, RECENT_NS)
        )
        cells: _Cells = defaultdict(list)
        for each in entries[recent:]:
            _collect_cells(each, cells)
            yield
        earlier = _EarlierCells(entries[oldest:recent])
        firsts = entries[oldest - 1].cuts if oldest else {}
        for name in {**entry.cuts, **state["rest"]}:
            rest = state["rest"].get(name)
            series = self._coarse.get(name, CoarseSeries()).series_until(
                entry.cuts.get(name, 0),
                cells[name],
                None if rest is None else read_rest(name, *rest),
                SECOND_NS if name in RATES else session.machine.bucket_ns,
                Earlier(firsts.get(name, 0), partial(earlier.take, name)),
            )
            put_series(session, name, series)
            yield


def _take_metrics(session: Session, metrics: dict[str, Any]) -> None:
    for name, (newest, why, last_ns, *readings) in metrics.items():
        metric = session.learning.metric(clean(name, 200))
        if metric is not None:
            metric.newest = None if newest is None else real(newest, math.inf)
            metric.why, metric.last_ns = clean(str(why)), whole(last_ns)
            # An earlier version did not count them.
            metric.readings = whole(*readings) if readings else 0
            metric.is_read = True


def _take_energy(session: Session, counters: dict[str, Any], entries: list[_Entry]) -> None:
    energy = session.machine.energy
    for name, (first, segments, readings, why) in counters.items():
        points = [] if first is None else [read_point(*first)]
        points += [each.energy[name] for each in entries if name in each.energy]
        why = clean(str(why))
        counter = EnergyCounter.of_points(points, whole(segments), whole(readings), why)
        if name == "cpu":
            energy.cpu = counter
        else:
            energy.gpus[int(name)] = counter


class _EarlierCells:
    """The cells of entries before those that a seek reads; read when one of them is drawn.

    Args:
        entries: in the order of time.
    """

    def __init__(self, entries: list[_Entry]) -> None:
        self._entries = entries
        self._cells: _Cells | None = None

    def take(self, name: str) -> list[tuple[int, float]]:
        """Return those of a series; none where an entry holds what can't be."""
        if self._cells is None:
            self._cells = defaultdict(list)
            try:
                for entry in self._entries:
                    _collect_cells(entry, self._cells)
            except MALFORMED:
                self._cells = defaultdict(list)
        return self._cells.pop(name, [])


def _collect_cells(entry: _Entry, cells: _Cells) -> None:
    """Collect the cells of an entry, by their series."""
    for name, (first, means) in entry.state["series"].items():
        if len(means) > FINE_BUCKETS:
            raise NoKeyframe("too many cells")
        check_numbers(means, most_of(name))
        numbered = enumerate(means, whole(first))
        cells[name] += [pair for pair in numbered if pair[1] is not None]


def last_of(restored: Iterator[Restored]) -> Restored:
    """Return what an iterator of `Keyframes` comes to."""
    found = None
    for found in restored:  # noqa: B007 - the last is what counts
        pass
    return found
