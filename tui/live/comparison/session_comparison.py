"""What a session is compared with: published figures, earlier runs, and what somebody chose."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass

from dlmon.comparison.compare import ComparisonRow
from dlmon.comparison.same_script import script_of
from dlmon.figures import units
from dlmon.figures.comparison import (
    EARLIER_SESSIONS,
    MOST_EARLIER,
    Reference,
    comparison_rows,
    earlier_sessions,
    factor_of_reference,
    factor_of_run_before,
    has_figure,
    metric_of,
    row_of,
    run_names,
    timing_of,
)
from dlmon.log.directory import SessionEntry
from dlmon.records import Result
from dlmon.session.snapshot import Snapshot
from dlmon.session.source import SessionSource

_TITLES = {
    "seconds_per_epoch": "Seconds per epoch",
    "run_seconds": "Seconds for the whole run",
    "step_ms": "Milliseconds per batch",
    "samples_per_second": "Samples per second",
    "steps_per_second": "Steps per second",
}


@dataclass(frozen=True)
class Comparison:
    """A comparison as it stands.

    Attributes:
        title: what is compared.
        rows: as `compare` returns them.
        names: those of earlier sessions, by id.
        results: theirs, and this one's once it is over, by id.
        reference: what was chosen to compare with.
        before: the newest earlier session that this run can be compared with.
        steady: whether this run has a figure to compare.
    """

    title: str
    rows: tuple[ComparisonRow, ...]
    names: Mapping[str, str]
    results: Mapping[str, Result]
    reference: Reference | None = None
    before: Reference | None = None
    steady: bool = False


class SessionComparison:
    """What a session is compared with, as more is known of it.

    Args:
        source: the session.
        references: what each workload is compared with, as it was chosen; others read it too.
    """

    def __init__(self, source: SessionSource, references: MutableMapping[str, Reference]) -> None:
        self._source = source
        self._references = references
        self._all_earlier: list[SessionEntry] = []
        self.is_known = False
        """Whether the earlier sessions were read."""

    def take_entries(self, entries: list[SessionEntry]) -> None:
        """Compare with the sessions that were recorded before."""
        header = self._source.session.header
        self.is_known = True
        self._all_earlier = earlier_sessions(entries, header, MOST_EARLIER)

    @property
    def reference(self) -> Reference | None:
        """What this run is compared with, as it was chosen for its workload."""
        return self._references.get(self._work)

    def refer_to(self, row: ComparisonRow | None) -> None:
        """Compare runs of this workload with a row from now on; None is the run before each."""
        if row is None:
            self._references.pop(self._work, None)
        else:
            self._references[self._work] = Reference.of(row)

    @property
    def _work(self) -> str:
        """What runs: of a script its path too, as many are called alike."""
        header = self._source.session.header
        script = script_of(header)
        return header.workload if script is None else f"{script.place}: {script.name}"

    def in_short(self, snapshot: Snapshot) -> Comparison:
        """Return it with the newest earlier sessions alone, and the one that was chosen."""
        return self._among(self._newest(snapshot), snapshot)

    def in_full(self) -> Comparison:
        """Return it as it stands now, with all earlier sessions."""
        return self._among(self._all_earlier, self._source.snapshot())

    def against_reference(self, in_short: Comparison, snapshot: Snapshot) -> str:
        """Say the factor to what was chosen, else to the run before."""
        rows, names, steady = in_short.rows, in_short.names, in_short.steady
        chosen = row_of(rows, self.reference)
        if chosen is None:
            newest = self._newest(snapshot)
            return factor_of_run_before(rows, newest, names, steady, snapshot.header)
        name = names.get(chosen.session or "", units.device(chosen.label))
        every = comparison_rows(snapshot, self._all_earlier)
        return factor_of_reference(every, chosen, name, steady)

    def has_figure(self, snapshot: Snapshot) -> bool:
        """Return whether this run has a figure to compare, or may still come to one."""
        return self._source.running or timing_of(snapshot) is not None

    def _newest(self, snapshot: Snapshot) -> list[SessionEntry]:
        """Return the newest earlier sessions that can be compared, and the one that was chosen."""
        chosen = self.reference.session if self.reference is not None else None
        metric, workload = metric_of(snapshot), snapshot.header.workload
        known = [
            entry
            for entry in self._all_earlier
            if entry.result is not None and has_figure(entry.result, workload, metric)
        ]
        return [
            entry
            for number, entry in enumerate(known, EARLIER_SESSIONS - len(known))
            if number >= 0 or entry.header.id == chosen
        ]

    def _among(self, earlier: Sequence[SessionEntry], snapshot: Snapshot) -> Comparison:
        results = [entry.result for entry in earlier] + [snapshot.result]
        rows = comparison_rows(snapshot, earlier) if self.has_figure(snapshot) else ()
        alike = {row.session: row for row in rows if row.kind == "earlier" and row.comparable}
        newest_first = (entry.header.id for entry in reversed(earlier))
        before = next((alike[session] for session in newest_first if session in alike), None)
        return Comparison(
            title=_TITLES[metric_of(snapshot)],
            rows=rows,
            names=run_names(snapshot, earlier),
            results={result.session: result for result in results if result is not None},
            reference=self.reference,
            before=None if before is None else Reference.of(before),
            steady=snapshot.samples_per_second is not None,
        )
