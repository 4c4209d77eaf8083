"""The panel of the comparison: the figure that is compared in large, and the bars below it."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Vertical

from dlmon.comparison.compare import missing_part
from dlmon.figures import units
from dlmon.figures.account import regular_steps_text
from dlmon.figures.comparison import (
    basis_of_epoch,
    compile_text,
    epoch_word,
    metric_of,
    timing_of,
    why_no_time,
)
from dlmon.figures.results import effective_text
from dlmon.figures.tables import measured_in_short
from dlmon.figures.validity import in_doubt
from dlmon.records import Status
from dlmon.session.snapshot import Snapshot
from tui.live.comparison.bars import ComparisonBars
from tui.live.comparison.session_comparison import SessionComparison
from tui.widgets.lines import (
    ACCENT,
    MUTED,
    PLAIN,
    STRONG,
    Lines,
    beside,
    cut,
    digits_of,
    fitting,
    row_width,
    shows,
    wrapped,
)
from tui.widgets.rows import TextRow, TextRun

_APART = 3
_DIGIT_ROWS = 3
# A first batch that compiles nothing is worth a word from so much more than a usual one on.
_A_DELAY_S = 0.1


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
        said = (against, nearest) if chosen else (nearest, against)
        sentences = [_sentence(one, width) for one in said if one]
        if timing is None:
            lines = wrapped(why_no_time(snapshot, status), width - _APART, height)
            rows = beside("–  ", lines or [""], MUTED, ACCENT)
            return [*rows, *sentences]
        an_epoch, facts = _facts(snapshot)
        basis: TextRun = (_basis(snapshot), MUTED)
        if height <= _DIGIT_ROWS:
            figure: TextRun = (units.band(timing), ACCENT)
            others = (*an_epoch, *facts)
            first = _apart((figure, basis))
            if height < _DIGIT_ROWS:
                fits = row_width(first) <= width
                first = fitting((figure, basis, *others), width, _APART) if fits else first
                others = ()
            rows = [first, fitting(others, width, _APART), *sentences]
            return [row for row in rows if row]
        found = units.with_band(timing)
        spread = units.VERY_UNCERTAIN if found.is_very_uncertain else found.spread
        is_about = timing.projected or found.is_very_uncertain
        digits = _digit_rows(found.number.replace(",", ""), is_about)
        room = width - len(digits[0]) - _APART
        # Each has a place of its own, so that none moves when another one comes.
        figures = [
            cut(_apart(((f"{found.unit} {spread}".rstrip(), STRONG), basis)), room),
            fitting((*an_epoch, *facts), room, _APART),
            _sentence(nearest, room),
        ]
        rows = [
            ((text + " " * _APART, ACCENT), *row) for text, row in zip(digits, figures, strict=True)
        ]
        return [*rows, _sentence(against, width)]

    show = shows(rows)


def _sentence(sentence: str, width: int) -> TextRow:
    """Return a sentence, without the interval at its end where that has no room."""
    text, _, interval = sentence.rpartition(" (")
    if not sentence.endswith(")"):
        text, interval = sentence, ""
    runs = [(text, MUTED), (f"({interval}", MUTED)] if interval else [(text, MUTED)]
    return fitting(tuple(runs), width, 1) if sentence else ()


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
        doubts = in_doubt(validity.against if validity is not None else ())
        if (self.border_title, self.border_subtitle) != (shown.title, doubts):
            self.border_title, self.border_subtitle = shown.title, doubts
        chosen = shown.chosen
        against = shown.against_before() if chosen is None else shown.against(chosen)
        nearest = shown.against_nearest()
        self._headline.show(snapshot, nearest, against, status, chosen is not None)
        self._bars.show(shown, shown.alone() if comparison.is_known else "")


def _apart(runs: TextRow) -> TextRow:
    """Put runs beside each other; what is empty takes no room."""
    return tuple(
        (" " * _APART * (n > 0) + text, style) for n, (text, style) in enumerate(runs) if text
    )


def _digit_rows(number: str, is_about: bool) -> list[str]:
    rows = digits_of(number)
    marks = ("  ", "~ ", "  ") if is_about else ("",) * len(rows)
    return [mark + row for mark, row in zip(marks, rows, strict=True)]


def _facts(snapshot: Snapshot) -> tuple[TextRow, TextRow]:
    """Return the time of an epoch, where the figure is that of a whole run, and other facts."""
    timing, per_epoch = timing_of(snapshot), snapshot.seconds_per_epoch
    facts: list[TextRun] = []
    if snapshot.stalls:
        word = epoch_word(snapshot.header)
        facts.append((units.stalls(snapshot.stalls, snapshot.opening_stalls or 0, word), PLAIN))
    first_s = snapshot.compile_s if snapshot.compiles else snapshot.first_batch_s
    if first_s is not None and (snapshot.compiles or first_s >= _A_DELAY_S):
        facts.append((compile_text(first_s, snapshot.compiles), MUTED))
    if snapshot.regular_steps is not None:
        facts.append((f"{regular_steps_text(snapshot.regular_steps)} between", MUTED))
    if snapshot.result is not None and (effective := effective_text(snapshot.result)):
        facts.append((effective, MUTED))
    if timing is not snapshot.run_seconds or per_epoch is None:
        return (), tuple(facts)
    return ((f"{units.band(per_epoch)} per epoch", PLAIN),), tuple(facts)


def _basis(snapshot: Snapshot) -> str:
    """Say whether the figure was measured or projected, and from what."""
    timing, per_epoch = timing_of(snapshot), snapshot.seconds_per_epoch
    if metric_of(snapshot) == "step_ms" and snapshot.step_ms is not None:
        p95 = snapshot.step_ms.p95
        return "mean" if p95 is None else f"mean, p95 {units.milliseconds(p95)}"
    whole_run = timing is snapshot.run_seconds
    if timing is not None and timing.projected:
        missing = missing_part(timing, snapshot.why)
        return f"projected without {missing}" if missing else "projected"
    if timing is not None and whole_run:
        return "measured, without the start"
    if per_epoch is None:
        return "measured"
    # How many epochs there are is seen below.
    basis = basis_of_epoch(per_epoch, snapshot.compile_s, snapshot.compiles).rpartition(", ")[2]
    if per_epoch.first_left_out:
        basis = f"first of {per_epoch.epochs + 1:,} left out"
    parts = (units.usual(per_epoch), measured_in_short(snapshot), basis)
    return "; ".join(part for part in parts if part)
