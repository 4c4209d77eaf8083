"""The panel of the comparison: the time of an epoch in large, and the bars below it."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Vertical

from dlmon.figures.comparison import factor_of_nearest, how_to_match, row_of
from dlmon.figures.comparison_alone import nothing_to_compare
from dlmon.figures.validity import in_doubt
from dlmon.records import Status
from dlmon.session.snapshot import Snapshot
from tui.live.comparison.bar_rows import bar_rows, legend_of
from tui.live.comparison.bars import ComparisonBars
from tui.live.comparison.headline import EpochHeadline
from tui.live.comparison.session_comparison import SessionComparison

_AROUND_A_SUBTITLE = 6
"""The corner, the line and the space on either side of it."""


class ComparisonPanel(Vertical):
    """This run among others, in short."""

    def __init__(self) -> None:
        super().__init__(id="compared", classes="panel")
        self.border_title = "Seconds per epoch"
        self._headline, self._bars = EpochHeadline(), ComparisonBars()

    def compose(self) -> ComposeResult:
        yield self._headline
        yield self._bars

    def show(self, snapshot: Snapshot, comparison: SessionComparison, status: Status) -> None:
        """Show how a session compares as it stands."""
        shown = comparison.in_short(snapshot)
        if self.border_title != shown.title:
            self.border_title = shown.title
        validity, room = snapshot.validity, self.outer_size.width - _AROUND_A_SUBTITLE
        doubts = in_doubt(validity.against if validity is not None else (), room)
        if self.border_subtitle != doubts:
            self.border_subtitle = doubts
        nearest = how_to_match(snapshot, self._headline.size.width)
        nearest = nearest or factor_of_nearest(shown.rows, shown.steady)
        self._headline.show(
            snapshot,
            nearest,
            comparison.against_reference(shown, snapshot),
            status=status,
            chosen=row_of(shown.rows, shown.reference) is not None,
        )
        bars = bar_rows(shown.rows, shown.names, shown.reference, shown.in_headline)
        alone = nothing_to_compare(shown.rows, snapshot, status) if comparison.is_known else ()
        self._bars.show(bars, legend_of(shown.rows, nearest), alone)
