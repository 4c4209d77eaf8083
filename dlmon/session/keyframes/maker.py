"""Make entries of a session while it is folded."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from dlmon.log.index import Place, line_of
from dlmon.records import (
    Metrics,
    Record,
    encode,
    to_json,
)
from dlmon.session.keyframes.entries import KEPT, LAST_OUTPUT_LINES, Keyframes
from dlmon.session.keyframes.series import counters_of, series_of
from dlmon.session.keyframes.values import gap_values
from dlmon.session.learning import is_of_validation
from dlmon.session.marks import Mark
from dlmon.session.session import Session
from dlmon.statistics.state import state_of

SECOND_NS = 10**9
EVERY_NS = 64 * SECOND_NS
EVERY_BYTES = 32 << 10
_FOLLOWING = frozenset({"_ranked"})


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
        self._batches: dict[tuple[int, int], int] = {}
        # A gap is explained by readings that may come after it.
        self._explained_ns = session.header.t
        self._newest_epoch = session.epoch_starts[-1][0] if session.epoch_starts else -1
        self._newest_use = next(reversed(session.epoch_uses.ended), session.header.t - 1)

    def take(self, record: Record, marks: Iterable[Mark]) -> None:
        if isinstance(record, KEPT) or (isinstance(record, Metrics) and is_of_validation(record)):
            self._kept.append(encode(record))
        self._marks += marks

    @property
    def is_due(self) -> bool:
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
                "gaps": [gap_values(gap) for gap in session.gaps.since(self._explained_ns)],
                "energy": {
                    name: list(counter.newest)
                    for name, counter in counters_of(session).items()
                    if counter.newest is not None
                },
                "loops": self._left_loops(),
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

    def _left_loops(self) -> list[tuple[int, int, dict[str, Any]]]:
        """Return the state of the loops that ran since the last entry, and do no more."""
        found = []
        for number, loops in self._session.loops_of_all.items():
            for index, loop in enumerate(loops.all):
                batches = loop.steady.batches
                if loop is not loops.now and self._batches.get((number, index), 0) != batches:
                    self._batches[number, index] = batches
                    found.append((number, index, state_of(loop.steady, _FOLLOWING)))
        return found

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
        "counts": session.counts,
        "account": session.account.state,
        "readings": session.readings.state,
        "metrics": {
            name: [metric.newest, metric.why, metric.last_ns, metric.readings]
            for name, metric in session.learning.metrics.items()
            if metric.is_read
        },
        "waited_us": session.data_wait.waited_us,
        "epoch": session.epoch_uses.state,
        "loops": [
            [number, loops.number, state_of(loops.now.steady, _FOLLOWING)]
            for number, loops in session.loops_of_all.items()
        ],
        "last_gap": None if session.gaps.last is None else gap_values(session.gaps.last),
        "batch_sizes": session.gaps.batch_sizes,
        "machine": None if latest is None else to_json(latest),
        "gpu_memory_peak_mib": {
            str(index): mib for index, mib in session.machine.gpu_memory_peak_mib.items()
        },
        "energy": {
            name: [None if counter.first is None else list(counter.first), *counter.state]
            for name, counter in counters_of(session).items()
        },
        "output": [
            [line.t, line.stream, line.text] for line in session.last_output(LAST_OUTPUT_LINES)
        ],
    }
