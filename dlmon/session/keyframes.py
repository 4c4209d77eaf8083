"""Where a log's fold can begin: what a session had come to at times, made and taken up again.

An entry holds the records that are few (epochs, phases, notices) as they are, all that a snapshot
needs exactly, and the series in cells of a few seconds: what is older than a screen shows finely
keeps its mean, and the least and the most of each minute.
"""

from __future__ import annotations

import json
import math
import sys
import time
import zlib
from bisect import bisect_right
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from dataclasses import astuple
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from dlmon.log.follower import LogFollower
from dlmon.log.index import Place, line_of, read_index
from dlmon.records import (
    AccountPart,
    Epoch,
    Evaluation,
    Facts,
    Machine,
    Metrics,
    Model,
    Notice,
    Output,
    Phase,
    Record,
    SessionHeader,
    Trainer,
    decode,
    encode,
    to_json,
)
from dlmon.records.sanitize import clean
from dlmon.session.account import AccountState
from dlmon.session.energy import EnergyCounter, EnergyPoint
from dlmon.session.epoch_use import LOSS_READ, EpochUse, OpenEpoch, Reading, ReadLoss
from dlmon.session.gaps import Gap, GapKind, Meanwhile
from dlmon.session.learning import Learning, is_of_validation
from dlmon.session.limits.find import window_s
from dlmon.session.marks import Mark, MarkKind, time_of
from dlmon.session.session import MAX_PHASE_SPANS, Session
from dlmon.session.training_readings import OnGpu, ReadingsState
from dlmon.statistics.series import (
    CELL_NS,
    CELLS_OF_QUARTER,
    FINE_BUCKETS,
    CoarseSeries,
    Earlier,
    Series,
)
from dlmon.statistics.state import state_of, with_state
from dlmon.statistics.steady_state import SteadyState

SECOND_NS = 10**9
EVERY_NS = 64 * SECOND_NS
EVERY_BYTES = 32 << 10
LAST_OUTPUT_LINES = 20
EARLIER_OUTPUT = "(earlier output is in the log)"
MOST_SERIES = 4096
# A seek is not to keep a key waiting.
RECORDS_AT_ONCE = 200
# What is drawn finely lies within so long, but for the whole of a session of about an hour.
RECENT_NS = 720 * SECOND_NS
MOST = 1e18
# A loss that grows without bound may be any number; a sum of it over time has to be one too.
MOST_OF_METRIC = 1e280
_FOLLOWING = frozenset({"_ranked"})
_KEPT = (Epoch, Evaluation, Facts, Model, Notice, Phase, Trainer)
_METRIC = "metric"
_GPU_SERIES = ("gpu_utilization_pct", "gpu_memory_mib", "gpu_power_w", "gpu_temperature_c")
_SERIES = ("cpu_pct", "run_cpu_pct", "cpu_power_w", "memory_mib")


_Cells = defaultdict[str, list[tuple[int, float]]]
"""The cells of each series, each with its number."""

Restored = tuple[Session, Place] | None
"""A session, and the place in its log from which it is to be read on."""


class NoKeyframe(ValueError):
    """What an index says can't be; the message says what."""


# What a forged line runs into.
_MALFORMED = (
    *(ValueError, TypeError, KeyError, IndexError, AttributeError, ArithmeticError),
    *(RecursionError, AssertionError),
)


def series_of(session: Session) -> dict[str, Series]:
    """Return the series of a session by their names."""
    machine = session.machine
    named = {"throughput": session.throughput}
    named |= {name: getattr(machine, name) for name in _SERIES}
    metrics = session.learning.metrics
    named |= {f"{_METRIC}.{name}": m.series for name, m in metrics.items() if m.is_read}
    for name in _GPU_SERIES:
        of_gpus: dict[int, Series] = getattr(machine, name)
        named |= {f"{name}.{index}": series for index, series in of_gpus.items()}
    return named


def _counters_of(session: Session) -> dict[str, EnergyCounter]:
    energy = session.machine.energy
    return {"cpu": energy.cpu, **{str(index): gpu for index, gpu in energy.gpus.items()}}


def _put_series(session: Session, name: str, series: Series) -> None:
    """Give a session the series of a name that `series_of` knows."""
    of_gpus, dot, index = name.partition(".")
    if name == "throughput":
        session.throughput = series
    elif name in _SERIES:
        setattr(session.machine, name, series)
    elif dot and of_gpus == _METRIC:
        metric = session.learning.metric(index)
        if metric is None:
            raise NoKeyframe("too many metrics")
        metric.series = series
    elif dot and of_gpus in _GPU_SERIES:
        getattr(session.machine, of_gpus)[int(index)] = series
    else:
        raise NoKeyframe("a series of another name")


class KeyframeMaker:
    """Makes entries of a session while it is folded.

    Args:
        session: at its start, or at the last entry of `made`.
        made: the entries that there are.
        every_ns: an entry comes after so long at least,
        every_bytes: and after so much of the log, else it would be larger than what it saves.
    """

    def __init__(
        self,
        session: Session,
        made: Keyframes | None = None,
        every_ns: int = EVERY_NS,
        every_bytes: int = EVERY_BYTES,
    ) -> None:
        self._session = session
        self._every_ns, self._every_bytes = every_ns, every_bytes
        self._kept: list[bytes] = []
        self._marks: list[Mark] = []
        place = made.last_place if made is not None else None
        self._at_ns, self._offset = session.last_t, place.offset if place is not None else 0
        self._cuts = dict(made.cuts) if made is not None else {}
        # A gap is explained by readings that may come after it.
        self._explained_ns = session.header.t
        self._newest_epoch = session.epoch_starts[-1][0] if session.epoch_starts else -1
        self._newest_use = next(reversed(session.epoch_uses.ended), session.header.t - 1)

    def take(self, record: Record, marks: Iterable[Mark]) -> None:
        """Take a record that the session has folded, with its marks."""
        if isinstance(record, _KEPT) or (isinstance(record, Metrics) and is_of_validation(record)):
            self._kept.append(encode(record))
        self._marks += marks

    @property
    def is_due(self) -> bool:
        """Whether it is time for an entry."""
        return self._session.last_t - self._at_ns >= self._every_ns

    def make(self, place: Place) -> list[bytes]:
        """Return the lines of an entry; none where too little was written since the last."""
        session = self._session
        self._at_ns = session.last_t
        if place.offset - self._offset < self._every_bytes:
            return []
        at = line_of(
            {
                "type": "at",
                "t": session.last_t,
                "place": list(place),
                "marks": [[m.t, m.kind.value, m.number, m.text] for m in self._marks],
                "epoch_starts": self._new_epoch_starts(),
                "epoch_uses": self._new_epoch_uses(),
                "gaps": [_gap_values(gap) for gap in session.gaps.since(self._explained_ns)],
                "energy": {
                    name: list(counter.newest)
                    for name, counter in _counters_of(session).items()
                    if counter.newest is not None
                },
                **(parts := self._parts()).coarse,
            }
        )
        lines = [*self._kept, at, line_of({"type": "state", **_state(session), **parts.fine})]
        self._kept, self._marks = [], []
        self._offset = place.offset
        self._explained_ns = session.last_t - int(2 * session.machine.interval_s * SECOND_NS)
        return lines

    def _new_epoch_starts(self) -> list[tuple[int, int]]:
        starts = [start for start in self._session.epoch_starts if start[0] > self._newest_epoch]
        if starts:
            self._newest_epoch = starts[-1][0]
        return starts

    def _new_epoch_uses(self) -> list[tuple[int, int, dict[str, Any]]]:
        uses = [
            (begin, use.readings, dict(use.values))
            for begin, use in self._session.epoch_uses.ended.items()
            if begin > self._newest_use
        ]
        if uses:
            self._newest_use = uses[-1][0]
        return uses

    def _parts(self) -> _Parts:
        coarse: dict[str, Any] = {}
        fine: dict[str, Any] = {}
        rest: dict[str, Any] = {}
        for name, series in series_of(self._session).items():
            part = series.part_since(self._cuts.get(name))
            if part is not None:
                self._cuts[name] = part.end
                means = list(map(_short, part.coarse()))
                extremes = (_short(part.low), _short(part.high))
                coarse[name] = [part.first, len(part.cells), *extremes, means]
                fine[name] = [part.first, list(map(_short, part.cells))]
            left = series.rest_since(self._cuts.get(name, 0))
            if left is not None:
                rest[name] = left
        return _Parts({"series": coarse}, {"series": fine, "rest": rest})


class _Parts(NamedTuple):
    coarse: dict[str, Any]
    fine: dict[str, Any]


def _short(value: float | None) -> float | None:
    """Round to what can be drawn."""
    if value is None:
        return None
    rounded = float(f"{value:.5g}")
    return int(rounded) if rounded.is_integer() else rounded


def _state(session: Session) -> dict[str, Any]:
    latest = session.machine.latest
    return {
        "steady": state_of(session.steady, _FOLLOWING),
        "counts": session.counts,
        "account": session.account.state,
        "readings": session.readings.state,
        "metrics": {
            name: [metric.newest, metric.why, metric.last_ns, metric.readings]
            for name, metric in session.learning.metrics.items()
            if metric.is_read
        },
        "waited_us": session.data_wait.waited_us,
        "counts_steps": session.counts_steps,
        "epoch": session.epoch_uses.state,
        "trainers": {
            str(number): state_of(steady, _FOLLOWING)
            for number, steady in session.trainers.steady.items()
        },
        "last_gap": None if session.gaps.last is None else _gap_values(session.gaps.last),
        "batch_sizes": session.gaps.batch_sizes,
        "machine": None if latest is None else to_json(latest),
        "gpu_memory_peak_mib": {
            str(index): mib for index, mib in session.machine.gpu_memory_peak_mib.items()
        },
        "energy": {
            name: [None if counter.first is None else list(counter.first), *counter.state]
            for name, counter in _counters_of(session).items()
        },
        "output": [
            [line.t, line.stream, line.text] for line in session.last_output(LAST_OUTPUT_LINES)
        ],
    }


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
    cuts: dict[str, int]
    """Of each series, the cell behind the last."""
    packed_state: bytes
    """Compressed: a day has over a thousand, and few of them are ever read."""

    @property
    def state(self) -> dict[str, Any]:
        """All else of the session."""
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
        self._margin_ns = int(window_s(interval_s) * SECOND_NS)
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
                if not isinstance(record, (*_KEPT, Metrics)):
                    raise NoKeyframe("a record that is not kept")
                self._records.append(record)
        except _MALFORMED as error:
            raise NoKeyframe(str(error)) from None

    def end(self) -> None:
        """Forget a last entry that is torn: what it kept comes again with the next one."""
        self._at = None
        del self._records[self._entries[-1].records if self._entries else 0 :]

    def _entry(self, at: dict[str, Any], state: bytes) -> _Entry:
        offset, checked, digest = at["place"]
        place, t = Place(_whole(offset), _whole(checked), str(digest)), _whole(at["t"])
        before = self._entries[-1] if self._entries else None
        if before is not None and (t <= before.t or place.offset <= before.place.offset):
            raise NoKeyframe("entries out of order")
        if not state.startswith(b'{"type":"state"'):
            raise NoKeyframe("an entry without its state")
        energy = {sys.intern(name): _point(*point) for name, point in at["energy"].items()}
        for name, (first, count, low, high, means) in at["series"].items():
            self._add_part(sys.intern(name), first, count, low, high, means)
        self.marks += [_mark(*mark) for mark in at["marks"]]
        starts = [(_whole(epoch), _whole(start)) for epoch, start in at["epoch_starts"]]
        gaps = [_gap(*values) for values in at["gaps"]]
        uses = {_whole(begin): EpochUse(_whole(n), _values(v)) for begin, n, v in at["epoch_uses"]}
        records, cuts = len(self._records), dict(self.cuts)
        packed = zlib.compress(state, level=1)
        return _Entry(t, place, records, starts, uses, gaps, energy, cuts, packed)

    def _add_part(
        self, name: str, first: int, count: int, low: Any, high: Any, means: list[Any]
    ) -> None:
        _check_numbers([low, high], _most_of(name))
        _check_numbers(means, _most_of(name))
        first, count = _whole(first), _whole(count)
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
        """Where the last entry leaves the log."""
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
        """Return where that entry leaves the log."""
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
        except _MALFORMED as error:
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
        output = [_output(*line) for line in state["output"]]
        if len(output) >= LAST_OUTPUT_LINES:
            output.insert(0, Output(output[0].t, "dlmon", EARLIER_OUTPUT))
        starts = [start for each in entries for start in each.epoch_starts]
        session.epoch_starts = deque(starts, maxlen=MAX_PHASE_SPANS)
        session.epoch_uses.ended = {
            b: use for each in entries for b, use in each.epoch_uses.items()
        }
        session.epoch_uses.state = _open_epoch(*state["epoch"])
        session.take_state(
            with_state(SteadyState(), state["steady"]),
            tuple(map(_whole, state["counts"])),
            output,
        )
        session.account.state = _account(*state["account"])
        session.readings.state = _readings(*state["readings"])
        for name, (newest, why, last_ns, *readings) in state.get("metrics", {}).items():
            metric = session.learning.metric(clean(name, 200))
            if metric is not None:
                metric.newest = None if newest is None else _real(newest, math.inf)
                metric.why, metric.last_ns = clean(str(why)), _whole(last_ns)
                # An earlier version did not count them.
                metric.readings = _whole(*readings) if readings else 0
                metric.is_read = True
        waited_us = state["waited_us"]
        session.data_wait.waited_us = None if waited_us is None else _whole(waited_us)
        session.counts_steps = state["counts_steps"] is True
        for number, steady in state["trainers"].items():
            session.trainers.steady[_whole(int(number))] = with_state(SteadyState(), steady)
        session.gaps.take_state(
            # What an entry says of a gap that an earlier one has as well is newer.
            {gap.start: gap for each in entries for gap in each.gaps}.values(),
            None if state["last_gap"] is None else _gap(*state["last_gap"]),
            map(_whole, state["batch_sizes"]),
        )
        if state["machine"] is not None:
            latest = decode(json.dumps({"type": Machine.TYPE, **state["machine"]}))
            if not isinstance(latest, Machine):
                raise NoKeyframe("no readings")
            session.machine.latest = latest
        for index, mib in state["gpu_memory_peak_mib"].items():
            session.machine.gpu_memory_peak_mib[int(index)] = _whole(mib)
        energy = session.machine.energy
        for name, (first, segments, readings, why) in state["energy"].items():
            points = [] if first is None else [_point(*first)]
            points += [each.energy[name] for each in entries if name in each.energy]
            why = clean(str(why))
            counter = EnergyCounter.of_points(points, _whole(segments), _whole(readings), why)
            if name == "cpu":
                energy.cpu = counter
            else:
                energy.gpus[int(name)] = counter
        yield
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
                None if rest is None else _rest(name, *rest),
                SECOND_NS if name == "throughput" else session.machine.bucket_ns,
                Earlier(firsts.get(name, 0), partial(earlier.take, name)),
            )
            _put_series(session, name, series)
            yield


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
            except _MALFORMED:
                self._cells = defaultdict(list)
        return self._cells.pop(name, [])


def _collect_cells(entry: _Entry, cells: _Cells) -> None:
    """Collect the cells of an entry, by their series."""
    for name, (first, means) in entry.state["series"].items():
        if len(means) > FINE_BUCKETS:
            raise NoKeyframe("too many cells")
        _check_numbers(means, _most_of(name))
        numbered = enumerate(means, _whole(first))
        cells[name] += [pair for pair in numbered if pair[1] is not None]


def last_of(restored: Iterator[Restored]) -> Restored:
    """Return what an iterator of `Keyframes` comes to."""
    found = None
    for found in restored:  # noqa: B007 - the last is what counts
        pass
    return found


def _mark(t: Any, kind: Any, number: Any, text: Any) -> Mark:
    # A text of a file is cleaned as every other.
    known = None if number is None else _real(number)
    return Mark(_whole(t), MarkKind(kind), known, clean(str(text)))


def _gap_values(gap: Gap) -> list[Any]:
    values = [gap.start, gap.end, gap.kind.value, gap.epoch, gap.step, gap.steps, gap.before]
    return [*values, None if gap.meanwhile is None else list(astuple(gap.meanwhile))]


def _gap(
    start: Any, end: Any, kind: Any, epoch: Any, step: Any, steps: Any, before: Any, means: Any
) -> Gap:
    meanwhile = None
    if means is not None:
        meanwhile = Meanwhile(*(None if mean is None else _real(mean) for mean in means))
    where = (None if epoch is None else _whole(epoch), None if step is None else _whole(step))
    before = clean(str(before))
    return Gap(_whole(start), _whole(end), GapKind(kind), *where, _whole(steps), before, meanwhile)


def _account(until: Any, part: Any, closing: Any, epoch: Any, spent: Any) -> AccountState:
    spent_ns = tuple(map(_whole, spent))
    if len(spent_ns) != len(AccountPart) or min(spent_ns) < 0:
        raise NoKeyframe("an account of other parts")
    known = None if epoch is None else _whole(epoch)
    return AccountState(_whole(until), AccountPart(part), closing is True, known, spent_ns)


def _readings(sums: Any, counts: Any, most: Any, slowed: Any, on_gpu: Any) -> ReadingsState:
    if len(sums) + len(counts) + len(most) + len(slowed) > MOST_SERIES:
        raise NoKeyframe("too many readings")
    others = None
    if on_gpu is not None:
        memory_mib, pid, name = on_gpu
        others = OnGpu(_real(memory_mib), _whole(pid), clean(str(name)))
    return ReadingsState(
        {str(name): _real(value) for name, value in sums.items()},
        {str(name): _whole(count) for name, count in counts.items()},
        {str(name): _real(value) for name, value in most.items()},
        {clean(str(cause)): _whole(count) for cause, count in slowed.items()},
        others,
    )


def _values(values: Any) -> dict[str, float]:
    if len(values) > MOST_SERIES:
        raise NoKeyframe("too many readings")
    return {
        sys.intern(str(name)): _real(value, math.inf if name == LOSS_READ else MOST)
        for name, value in values.items()
    }


def _open_epoch(
    sums: Any,
    counts: Any,
    readings: Any,
    batches: Any,
    limit_us: Any,
    pending: Any,
    losses: Any,
    losses_before: Any,
) -> OpenEpoch:
    whole = {name: _whole(count) for name, count in counts.items()}
    limit = None if limit_us is None else _real(limit_us)
    newest = [Reading(_whole(start), _whole(end), _values(v)) for start, end, v in pending]
    read = [
        ReadLoss(_whole(t), None if value is None else _real(value, math.inf), clean(str(why)))
        for t, value, why in losses
    ]
    before = {str(name): _real(value, math.inf) for name, value in losses_before.items()}
    return OpenEpoch(
        _values(sums), whole, _whole(readings), _values(batches), limit, newest, read, before
    )


def _output(t: Any, stream: Any, text: Any) -> Output:
    line = decode(encode(Output(_whole(t), str(stream), str(text))))
    assert isinstance(line, Output)
    return line


def _rest(series: str, start: Any, end: Any, value: Any) -> tuple[int, int, float]:
    # What lies behind a series' last whole cell is no longer than a cell.
    if not 0 <= _whole(end) - _whole(start) <= CELL_NS:
        raise NoKeyframe("a rest of another length")
    return start, end, _real(value, _most_of(series))


def _point(t: Any, joules: Any, segment: Any) -> EnergyPoint:
    return EnergyPoint(_whole(t), _real(joules), _whole(segment))


def _whole(value: Any) -> int:
    if type(value) is not int or not -(2**63) < value < 2**63:
        raise NoKeyframe("a whole number was expected")
    return value


def _most_of(series: str) -> float:
    return MOST_OF_METRIC if series.startswith(f"{_METRIC}.") else MOST


def _check_numbers(values: list[Any], most: float) -> None:
    """Raise NoKeyframe unless all that are known are numbers below a limit; one may be None."""
    known = [value for value in values if value is not None]
    if not {*map(type, known)} <= {int, float}:
        raise NoKeyframe("numbers were expected")
    # NaN is not less than anything.
    if not all(-most < value < most for value in known):
        raise NoKeyframe("a number that is not finite")


def _real(value: Any, most: float = MOST) -> float:
    if type(value) not in (int, float) or not (math.isfinite(value) and -most < value < most):
        raise NoKeyframe("a number was expected")
    number: float = value
    return number


class IndexReader:
    """Reads the entries that lie beside a log, by and by."""

    def __init__(self, log: Path, follower: LogFollower) -> None:
        self._follower = follower
        self._lines = read_index(log, follower.header.id)
        self.keyframes = Keyframes(follower.header)
        self.is_read = False

    def read(self, until: float = math.inf) -> None:
        """Read on until a time of the clock; what is no index of this log comes to nothing.

        Raises:
            OSError: the log can't be read any more.
        """
        try:
            for line in () if self.is_read else self._lines:
                self.keyframes.add(line)
                if time.monotonic() >= until:
                    return
            self.keyframes.end()
        except NoKeyframe:
            self.keyframes = Keyframes(self._follower.header)
        self.is_read = True
        place = self.keyframes.last_place
        if place is not None and not self._follower.knows(place):
            self.keyframes = Keyframes(self._follower.header)

    def restored_near_end(self) -> Iterator[Restored]:
        """Yield None many times, and then the session as it was shortly before the end of its log.

        The last is None without an index.

        Raises:
            OSError: the log can't be read any more.
        """
        last = (time_of(record) for record in self._follower.last_records())
        end_ns = max((t for t in last if t is not None), default=self._follower.header.t)
        try:
            yield from self.keyframes.restored_before(end_ns)
        except NoKeyframe:
            yield None
