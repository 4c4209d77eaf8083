"""What a session is compared with: published figures, earlier runs, and what somebody chose."""

from __future__ import annotations

from collections.abc import MutableMapping

from dlmon.comparison.compare import ComparisonRow, Reference
from dlmon.comparison.same_script import script_of
from dlmon.figures.comparison import (
    EARLIER_SESSIONS,
    MOST_EARLIER,
    earlier_sessions,
    has_figure,
    metric_of,
)
from dlmon.figures.run_comparison import Comparison, comparison_of
from dlmon.log.directory import SessionEntry
from dlmon.session.snapshot import Snapshot
from dlmon.session.source import SessionSource


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
            self._references[self._work] = row.reference

    @property
    def _work(self) -> str:
        """What runs: of a script its path too, as many are called alike."""
        header = self._source.session.header
        script = script_of(header)
        return header.workload if script is None else f"{script.place}: {script.name}"

    def in_short(self, snapshot: Snapshot) -> Comparison:
        """Return it with the newest earlier sessions alone, and the one that was chosen."""
        chosen = self.reference and self.reference[0]
        metric, workload = metric_of(snapshot), snapshot.header.workload
        known = [
            entry
            for entry in self._all_earlier
            if entry.result is not None and has_figure(entry.result, workload, metric)
        ]
        first = len(known) - EARLIER_SESSIONS
        newest = [each for n, each in enumerate(known) if n >= first or each.header.id == chosen]
        return comparison_of(snapshot, newest, self.reference, self._source.running)

    def in_full(self) -> Comparison:
        """Return it as it stands now, with all earlier sessions."""
        snapshot = self._source.snapshot()
        return comparison_of(snapshot, self._all_earlier, self.reference, self._source.running)
