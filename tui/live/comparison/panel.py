"""The panel of the comparison: the figure that is compared in large, and the bars below it."""

from __future__ import annotations

from collections.abc import MutableMapping

from textual.app import ComposeResult
from textual.containers import Vertical

from dlmon.comparison.compare import ComparisonRow, Reference, missing_part
from dlmon.comparison.same_script import script_of
from dlmon.figures import units
from dlmon.figures.account import regular_steps_text
from dlmon.figures.comparison import (
    EARLIER_SESSIONS,
    MOST_EARLIER,
    basis_of_epoch,
    compile_text,
    earlier_sessions,
    effective_text,
    epoch_word,
    has_figure,
    metric_of,
    timing_of,
    why_no_time,
)
from dlmon.figures.run_comparison import Comparison, comparison_of
from dlmon.figures.tables import measured_in_short
from dlmon.figures.verdicts import in_doubt
from dlmon.log.directory import SessionEntry
from dlmon.records import Status
from dlmon.session.snapshot import Snapshot
from dlmon.session.source import SessionSource
from tui.live.comparison.bars import ComparisonBars
from tui.widgets.lines import (
    ACCENT,
    MUTED,
    STRONG,
    Lines,
    beside,
    digits_of,
    fitting,
    shows,
    wrapped,
)
from tui.widgets.rows import TextRow, TextRun

_APART = 3
_LARGE = 4
"""In so many rows the figure has large digits, and three rows beside them."""
# A first batch that compiles nothing is worth a word from so much more than a usual one on.
_A_DELAY_S = 0.1


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


class EpochHeadline(Lines):
    """The figure that is compared, large where there is room, and what it rests on."""

    DEFAULT_CSS = """
    EpochHeadline { height: 2; }
    .-tall EpochHeadline, .-high EpochHeadline { height: 4; }
    """
    SCOPED_CSS = False

    def rows(
        self,
        width: int,
        height: int,
        snapshot: Snapshot,
        nearest: str,
        against: str = "",
        status: Status = Status.RUNNING,
        chosen: bool = False,
    ) -> list[TextRow]:
        """Return a session's figures, compared with a published number and with an earlier run.

        Args:
            width: of the panel.
            height: of the panel.
            snapshot: of the session.
            nearest: the factor to the published number that is nearest.
            against: that to an earlier run, or to what was chosen.
            status: how the session stands.
            chosen: whether a person chose that, so that it comes first where one has room.
        """
        timing = timing_of(snapshot)
        said = [_sentence(one, width) for one in (nearest, against) if one]
        if timing is None:
            lines = wrapped(why_no_time(snapshot, status), width - _APART, height)
            return [*beside("–  ", lines or [""], MUTED, ACCENT), *said]
        basis: TextRun = (_basis(snapshot), MUTED)
        if height < _LARGE:
            row = fitting(((units.band(timing), ACCENT), basis, *_facts(snapshot)), width, _APART)
            return [row, *(reversed(said) if chosen else said)]
        found = units.with_band(timing)
        spread = units.VERY_UNCERTAIN if found.is_very_uncertain else found.spread
        is_about = timing.projected or found.is_very_uncertain
        digits = digits_of(found.number.replace(",", ""))
        marks = ("  ", "~ ", "  ") if is_about else ("",) * len(digits)
        room = width - len(marks[0]) - len(digits[0]) - _APART
        # Each has a place of its own, so that none moves when another one comes.
        figures = [
            fitting(((f"{found.unit} {spread}".rstrip(), STRONG), basis), room, _APART),
            fitting(_facts(snapshot), room, _APART),
            _sentence(nearest, room),
        ]
        rows = [
            ((mark + text + " " * _APART, ACCENT), *row)
            for mark, text, row in zip(marks, digits, figures, strict=True)
        ]
        return [*rows, _sentence(against, width)]

    show = shows(rows)


def _sentence(sentence: str, width: int) -> TextRow:
    """Return a sentence, without the interval at its end where that has no room."""
    text, bracket, interval = sentence.rpartition(" (")
    if not sentence.endswith(")"):
        text, bracket, interval = sentence, "", ""
    runs = ((text, MUTED), (f"{bracket}{interval}".lstrip(), MUTED))
    return fitting(runs[: 2 if interval else 1], width, 1)


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
        validity = snapshot.validity
        chosen = shown.chosen
        against = shown.against_before() if chosen is None else shown.against(chosen)
        nearest = shown.against_nearest()
        self._headline.show(snapshot, nearest, against, status, chosen is not None)
        self._bars.show(shown, shown.alone() if comparison.is_known else "")
        doubts = in_doubt(validity.against if validity is not None else ())
        below = doubts or self._bars.scale
        if (self.border_title, self.border_subtitle) != (shown.title, below):
            self.border_title, self.border_subtitle = shown.title, below


def _facts(snapshot: Snapshot) -> TextRow:
    """Return the time of an epoch where the figure is that of a whole run, and other facts."""
    timing, per_epoch = timing_of(snapshot), snapshot.seconds_per_epoch
    facts = []
    if timing is snapshot.run_seconds and per_epoch is not None:
        facts.append(f"{units.band(per_epoch)} per epoch")
    if snapshot.stalls:
        word = epoch_word(snapshot.header)
        facts.append(units.stalls(snapshot.stalls, snapshot.opening_stalls or 0, word))
    first_s = snapshot.compile_s if snapshot.compiles else snapshot.first_batch_s
    if first_s is not None and (snapshot.compiles or first_s >= _A_DELAY_S):
        facts.append(compile_text(first_s, snapshot.compiles))
    if snapshot.regular_steps is not None:
        facts.append(f"{regular_steps_text(snapshot.regular_steps)} between")
    if snapshot.result is not None:
        facts.append(effective_text(snapshot.result))
    return tuple((fact, MUTED) for fact in facts if fact)


def _basis(snapshot: Snapshot) -> str:
    """Say whether the figure was measured or projected, and from what."""
    timing, per_epoch = timing_of(snapshot), snapshot.seconds_per_epoch
    if metric_of(snapshot) == "step_ms" and snapshot.step_ms is not None:
        p95 = snapshot.step_ms.p95
        return "mean" if p95 is None else f"mean, p95 {units.milliseconds(p95)}"
    if timing is not None and timing.projected:
        missing = missing_part(timing, snapshot.why)
        return f"projected without {missing}" if missing else "projected"
    if per_epoch is None or timing is snapshot.run_seconds:
        return "measured" if timing is not snapshot.run_seconds else "measured, without the start"
    # How many epochs there are is seen below.
    basis = basis_of_epoch(per_epoch, snapshot.compile_s, snapshot.compiles).rpartition(", ")[2]
    if per_epoch.first_left_out:
        basis = f"first of {per_epoch.epochs + 1:,} left out"
    parts = (units.usual(per_epoch), measured_in_short(snapshot), basis)
    return "; ".join(part for part in parts if part)
