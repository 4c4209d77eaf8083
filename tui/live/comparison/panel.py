"""The panel of the comparison: the figure that is compared in large, and the bars below it."""

from __future__ import annotations

from rich.segment import Segment
from rich.style import Style
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.renderables.digits import Digits

from dlmon.comparison.compare import missing_part
from dlmon.figures import units
from dlmon.figures.account import regular_steps_text
from dlmon.figures.comparison import (
    basis_of_epoch,
    compile_text,
    epoch_word,
    factor_of_nearest,
    how_to_match,
    metric_of,
    row_of,
    timing_of,
    why_no_time,
)
from dlmon.figures.comparison_alone import nothing_to_compare
from dlmon.figures.loops import measured_in_short
from dlmon.figures.results import effective_text
from dlmon.figures.validity import in_doubt
from dlmon.records import Status
from dlmon.session.snapshot import Snapshot
from tui.live.comparison.bars import ComparisonBars, bar_rows, said_of_all
from tui.live.comparison.session_comparison import SessionComparison
from tui.widgets.lines import ACCENT, MUTED, PLAIN, STRONG, Lines, cut, fitting, row_width, wrapped
from tui.widgets.rows import TextRow, TextRun

_APART = 3
_DIGIT_ROWS = 3
# A first batch that compiles nothing is worth a word from so much more than a usual one on.
_A_DELAY_S = 0.1

HELP: tuple[tuple[str, str], ...] = (
    (
        "Seconds per epoch",
        "How long one pass over all training samples takes, validation included; where the "
        "published numbers are for a whole run, the seconds of all its epochs and the final "
        "evaluation. Less is faster.",
    ),
    (
        "Milliseconds per batch",
        "In place of that, where the published numbers are for one batch, and where no weight is "
        "updated (gradients, inference): the mean of all steady batches. 95 % of them took no "
        "longer than the p95.",
    ),
    (
        "Samples per second",
        "In place of that for a script whose loop has no epochs: all steady samples over their "
        "time, or steps where nobody knows what is in one. More is faster.",
    ),
    (
        "FLOP/s",
        "The operations of the network each second, and what share that is of the fastest matrix "
        "multiplication on this device, once dlmon doctor --calibrate has measured that.",
    ),
    (
        "± band",
        "The mean epoch lies within this range of the figure with 95 % confidence; a single one "
        "may be further off. It is computed from how much the epochs differed, or for one epoch or "
        "a projection from how much its parts did. Without ±, the uncertainty is unknown, or with "
        "~ before it so large that the range would reach down to zero: very uncertain.",
    ),
    (
        "projected",
        "No whole epoch, or run, was measured: the figure is that of the mean epoch, computed from "
        "the steps so far. What has not been measured, such as validation, is left out and named; "
        "until it is known there is no factor.",
    ),
    (
        "first left out",
        "The first epoch includes the compilation, or what else its first batch takes longer for, "
        "so the figure is the mean of those after it.",
    ),
    (
        "usually 1.60 s, once 9.60 s",
        "An epoch took over 1.5 times the median, so the mean is none of the usual ones.",
    ),
    (
        "longest of 3 loops",
        "The script trains in several loops that are unlike: another network, batch size or number "
        "of samples. The figures are those of the one whose steps took most time; the summary "
        "and a report have all of them.",
    ),
    (
        "compile",
        "What the first batch took more than a usual one: in it the network is prepared for the "
        "device.",
    ),
    (
        "first batch +1.40 s",
        "The same of PyTorch, which as a rule compiles nothing: loaders start, memory is taken, "
        "the GPU is set up. Whether a script uses torch.compile is not known.",
    ),
    (
        "1 stall",
        "A batch that took over ten times the median; stalls count in the throughput. A pause as "
        "long before an epoch's first batch is a stall too, but not part of the throughput.",
    ),
    (
        "3.4 s every 250 steps between",
        "Batches that took over ten times the median, and come every so many steps, as those with "
        "an evaluation, a checkpoint or new games in them: so long the loop did something else. "
        "They are no stalls and cast no doubt; the throughput holds them.",
    ),
    (
        "in doubt",
        "What speaks against comparing by the figure. Too short: fewer than 5 s of steady batches. "
        "Not steady: the second half of the run was faster or slower than the first, by 2 % at "
        "least. Stalls: over 2 % of the time of the batches. Throttled: slowed by heat or stopped "
        "by a CPU limit in over 5 % of the readings. GPU shared: another program had memory of it. "
        "CPU shared: other programs took a fifth of the CPUs or more. Busy at the start, on "
        "battery: the machine was, before the run began. CPUs taken by the host: over 2 % of "
        "those of a virtual machine. Samples inferred: a script's data don't say how many samples "
        "there are, so their number may be a little off.",
    ),
    (
        "% faster, × as fast",
        "This run against the published number that is nearest to it, and against the run before "
        "it on this machine, or what you choose with c and Enter, if what was trained is the same. "
        "The 95 % interval stands behind it where there is room: it allows for how runs of "
        "the same settings here differed, or says that there was 1 run each, which can't show how "
        "much runs differ from time to time. Where it holds both, faster and slower, there is no "
        "clear difference. A published figure is a single one and counts as exact; where our own "
        "has no band yet, how sure it is isn't known.",
    ),
    (
        "published with batch size 64",
        "No published number was taken with the options of this run; with these, some were.",
    ),
)


class EpochHeadline(Lines):
    """The figure that is compared, large where there is room, and what it rests on."""

    DEFAULT_CSS = """
    EpochHeadline { height: 2; }
    .-tall EpochHeadline, .-high EpochHeadline { height: 4; }
    """
    SCOPED_CSS = False

    _snapshot: Snapshot | None = None
    _status = Status.RUNNING
    _sentences: tuple[str, ...] = ("", "")
    _chosen = False

    def show(
        self,
        snapshot: Snapshot,
        nearest: str,
        against: str = "",
        status: Status = Status.RUNNING,
        chosen: bool = False,
    ) -> None:
        """Show a session's figures, compared with a published number and with an earlier run.

        Args:
            snapshot: of the session.
            nearest: the factor to the published number that is nearest.
            against: that to an earlier run, or to what was chosen.
            status: how the session stands.
            chosen: whether a person chose that, so that it comes first where one has room.
        """
        self._snapshot, self._status, self._chosen = snapshot, status, chosen
        self._sentences = (nearest, against)
        self.redraw()

    def draw(self, width: int, height: int) -> list[TextRow]:
        snapshot = self._snapshot
        if snapshot is None:
            return []
        timing = timing_of(snapshot)
        nearest, against = (self._sentence(one, width) for one in self._sentences)
        sentences = [
            row for row in ((against, nearest) if self._chosen else (nearest, against)) if row
        ]
        rows: list[TextRow]
        if timing is None:
            lines = wrapped(why_no_time(snapshot, self._status), width - _APART, height)
            heads: list[TextRun] = [("–  ", ACCENT), *[(" " * _APART, MUTED)] * len(lines)]
            rows = [(head, (line, MUTED)) for head, line in zip(heads, lines or [""], strict=False)]
            return [cut(row, width, self.ellipsis) for row in (*rows, *sentences)][:height]
        an_epoch, facts = _facts(snapshot)
        basis: TextRun = (_basis(snapshot), MUTED)
        if height <= _DIGIT_ROWS or self.glyphs.is_ascii:
            figure: TextRun = (units.band(timing, self.glyphs), ACCENT)
            others = (*an_epoch, *facts)
            first = _apart((figure, basis))
            if height < _DIGIT_ROWS:
                fits = row_width(first) <= width
                first = fitting((figure, basis, *others), width, _APART) if fits else first
                others = ()
            rows = [first, fitting(others, width, _APART), *sentences]
            return [cut(row, width, self.ellipsis) for row in rows if row][:height]
        number, unit = units.duration_with_band(timing).replace(",", "").split()
        uncertain = units.is_very_uncertain(timing)
        spread = units.VERY_UNCERTAIN if uncertain else units.spread(timing)
        digits = _digit_rows(number, timing.projected or uncertain)
        room = width - len(digits[0]) - _APART
        # Each has a place of its own, so that none moves when another one comes.
        beside = [
            cut(_apart(((f"{unit} {spread}".rstrip(), STRONG), basis)), room, self.ellipsis),
            fitting((*an_epoch, *facts), room, _APART),
            self._sentence(self._sentences[0], room),
        ]
        rows = [
            ((text + " " * _APART, ACCENT), *row) for text, row in zip(digits, beside, strict=True)
        ]
        return [cut(row, width, self.ellipsis) for row in (*rows, against)]

    def _sentence(self, sentence: str, width: int) -> TextRow:
        """Return a sentence, without the interval at its end where that has no room."""
        text, _, interval = sentence.rpartition(" (")
        if not sentence.endswith(")"):
            text, interval = sentence, ""
        runs = [(text, MUTED), (f"({interval}", MUTED)] if interval else [(text, MUTED)]
        return fitting(tuple(runs), width, 1, self.ellipsis) if sentence else ()


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
        nearest = how_to_match(snapshot) or factor_of_nearest(shown.rows, shown.steady)
        against = comparison.against_reference(shown, snapshot)
        chosen = row_of(shown.rows, shown.reference) is not None
        self._headline.show(snapshot, nearest, against, status, chosen)
        alone = nothing_to_compare(shown.rows, snapshot, status) if comparison.is_known else ""
        bars = bar_rows(shown.rows, shown.names, shown.reference)
        self._bars.show(bars, said_of_all(shown.rows), alone)


def _apart(runs: TextRow) -> TextRow:
    """Put runs beside each other; what is empty takes no room."""
    return tuple(
        (" " * _APART * (n > 0) + text, style) for n, (text, style) in enumerate(runs) if text
    )


def _digit_rows(number: str, is_about: bool) -> list[str]:
    parts = Digits(number).render(Style(bold=True))
    rows = [part.text for part in parts if isinstance(part, Segment) and part.text != "\n"]
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
        if missing:
            return f"projected without {missing}"
        return "projected" if whole_run else "projected mean epoch"
    if timing is not None and whole_run:
        return "measured, without the start"
    if per_epoch is None:
        return "measured"
    basis = basis_of_epoch(per_epoch, snapshot.compile_s, snapshot.compiles)
    if per_epoch.first_left_out:
        basis = f"first of {per_epoch.epochs + 1:,} left out"
    parts = (units.usual(per_epoch), measured_in_short(snapshot), basis)
    return "; ".join(part for part in parts if part)
