"""The headline of the comparison: seconds per epoch, or per run, with its band."""

from __future__ import annotations

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.renderables.digits import Digits

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
from dlmon.figures.glyphs import UNICODE, Glyphs
from dlmon.figures.loops import measured_in_short
from dlmon.figures.results import effective_text
from dlmon.records import Status
from dlmon.session.snapshot import Snapshot
from tui.widgets.lines import ACCENT, MUTED, PLAIN, STRONG, Lines, cut, row_width, wrapped
from tui.widgets.rows import TextRow, TextRun

_APART = "   "
_DIGIT_ROWS = 3
# Narrower than that, what stands beside the digits can't be read.
_LEAST_BESIDE = 16
# What stands beside them begins at one place, be it 9.16 s or 10.7 s.
_DIGITS_WIDTH = 10
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
    """The figure that is compared, large where there is room, and what it rests on.

    It takes two rows, and four in a high terminal, where the digits have three.
    """

    DEFAULT_CSS = """
    EpochHeadline { height: 2; }
    .-tall EpochHeadline, .-high EpochHeadline { height: 4; }
    """
    SCOPED_CSS = False

    _snapshot: Snapshot | None = None
    _status = Status.RUNNING
    _sentences: tuple[str, str] = ("", "")
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
        self._snapshot, self._status = snapshot, status
        self._sentences = (nearest, against)
        self._chosen = chosen
        self.redraw()

    def draw(self, width: int, height: int) -> list[TextRow]:
        snapshot = self._snapshot
        if snapshot is None:
            return []
        if timing_of(snapshot) is None:
            rows = self._reason(why_no_time(snapshot, self._status), width, height)
            rows.extend(_packed(self._sentences_in(width), width))
        elif height >= _DIGIT_ROWS and not self.glyphs.is_ascii:
            rows = self._large(snapshot, width, height)
        else:
            rows = self._plain(snapshot, width, height)
        return [cut(row, width, self.ellipsis) for row in rows[:height]]

    def _reason(self, reason: str, width: int, height: int) -> list[TextRow]:
        first, *rest = wrapped(reason, width - 3, height, self.ellipsis) or [""]
        rows: list[TextRow] = [(("–  ", ACCENT), (first, MUTED))]
        return [*rows, *(((f"   {line}", MUTED),) for line in rest)]

    def _plain(self, snapshot: Snapshot, width: int, height: int) -> list[TextRow]:
        """Return the figure and as many facts as have room, then the sentences."""
        timing = timing_of(snapshot)
        assert timing is not None
        figure: TextRun = (units.band(timing, self.glyphs), ACCENT)
        an_epoch, others = _facts(snapshot, self.glyphs)
        facts = _with_basis(figure, snapshot, (*an_epoch, *others), width)
        rows = _packed(facts, width)[: max(1, height - any(map(bool, self._sentences)))]
        rows.extend(_packed(self._sentences_in(width), width))
        return rows[:height]

    def _sentences_in(self, width: int) -> TextRow:
        """Return the sentences, in fewer words where they are too wide."""
        wanted = reversed(self._sentences) if self._chosen else self._sentences
        return tuple(self._fitted(sentence, width) for sentence in wanted if sentence)

    def _large(self, snapshot: Snapshot, width: int, height: int) -> list[TextRow]:
        """Return the digits with facts and sentences beside them, and below what is too long."""
        timing = timing_of(snapshot)
        assert timing is not None
        number, unit_of_time = units.duration_with_band(timing).replace(",", "").split()
        very_uncertain = units.is_very_uncertain(timing)
        is_about = timing.projected or very_uncertain
        digits = [row.ljust(_DIGITS_WIDTH) for row in _digit_rows(number, is_about)]
        room = width - cell_len(digits[0]) - len(_APART)
        if room < _LEAST_BESIDE:
            return self._plain(snapshot, width, height)
        spread = units.VERY_UNCERTAIN if very_uncertain else units.spread(timing)
        per_epoch = snapshot.seconds_per_epoch
        if very_uncertain and per_epoch is timing and units.usual(per_epoch):
            spread = ""
        unit: TextRun = (f"{unit_of_time} {spread}".rstrip(), STRONG)
        an_epoch, others = _facts(snapshot)
        # Another figure begins a row of its own, or it would be taken for this one's band.
        figure = _with_basis(unit, snapshot, (), room)
        facts = _packed((*figure, *(() if an_epoch else others)), room)
        if an_epoch:
            facts.extend(_packed((*an_epoch, *others), room))
        nearest, against = (self._fitted(sentence, width) for sentence in self._sentences)
        # Each has a place of its own, so that none moves when another one comes.
        beside: list[TextRow] = [*facts[: _DIGIT_ROWS - 1], (), ()][: _DIGIT_ROWS - 1]
        below: TextRow = (against,) if against[0] else ()
        third = self._fitted(self._sentences[0], room)
        if (third[0] and cell_len(third[0]) <= room) or against[0]:
            beside.append((third,))
        elif len(facts) >= _DIGIT_ROWS and not nearest[0]:
            beside.append(facts[_DIGIT_ROWS - 1])
        else:
            beside.append(())
            below = (nearest,)
        rows: list[TextRow] = [
            ((text + _APART, ACCENT), *cut(row, room, self.ellipsis))
            for text, row in zip(digits, beside, strict=True)
        ]
        left = (run for row in facts[_DIGIT_ROWS - 1 :] for run in row if row not in beside)
        # What is left of the facts stands behind them.
        below = tuple((text.strip(), style) for text, style in (*below, *left))
        return [*rows, *_packed(below, width)][:height]

    def _fitted(self, sentence: str, width: int) -> TextRun:
        """Return a sentence without its interval where it is too wide."""
        if cell_len(sentence) > width and sentence.endswith(")"):
            sentence = sentence.rpartition(" (")[0]
        return sentence, MUTED


def _digit_rows(number: str, is_about: bool) -> list[str]:
    parts = Digits(number).render(Style(bold=True))
    rows = [part.text for part in parts if isinstance(part, Segment) and part.text != "\n"]
    marks = ("  ", "~ ", "  ") if is_about else ("",) * len(rows)
    return [mark + row for mark, row in zip(marks, rows, strict=True)]


def _facts(snapshot: Snapshot, glyphs: Glyphs = UNICODE) -> tuple[TextRow, TextRow]:
    """Return the time of an epoch, where the figure is that of a whole run, and other facts."""
    timing, per_epoch = timing_of(snapshot), snapshot.seconds_per_epoch
    facts: TextRow = ()
    first_s = snapshot.compile_s if snapshot.compiles else snapshot.first_batch_s
    if first_s is not None and (snapshot.compiles or first_s >= _A_DELAY_S):
        facts = ((compile_text(first_s, snapshot.compiles), MUTED),)
    if snapshot.stalls:
        stalls = units.stalls(
            snapshot.stalls, snapshot.opening_stalls or 0, epoch_word(snapshot.header)
        )
        facts = (*facts, (stalls, PLAIN))
    if snapshot.regular_steps is not None:
        facts = (*facts, (f"{regular_steps_text(snapshot.regular_steps)} between", MUTED))
    effective = effective_text(snapshot.result) if snapshot.result is not None else ""
    if effective:
        facts = (*facts, (effective, MUTED))
    if timing is not snapshot.run_seconds or per_epoch is None:
        return (), facts
    return ((f"{units.band(per_epoch, glyphs)} per epoch", PLAIN),), facts


def _with_basis(figure: TextRun, snapshot: Snapshot, others: TextRow, width: int) -> TextRow:
    """Return the figure, what it rests on and other facts: in fewer words where room is short."""
    in_full, short = _basis(snapshot)
    row: TextRow = (figure, (in_full, MUTED), *others)
    return row if len(_packed(row, width)) == 1 else (figure, (short, MUTED), *others)


def _basis(snapshot: Snapshot) -> tuple[str, str]:
    """Say whether the figure was measured or projected, and from what; in full and shortly."""
    timing, per_epoch = timing_of(snapshot), snapshot.seconds_per_epoch
    if metric_of(snapshot) == "step_ms" and snapshot.step_ms is not None:
        p95 = snapshot.step_ms.p95
        text = "mean" if p95 is None else f"mean, p95 {units.milliseconds(p95)}"
        return text, text
    whole_run = timing is snapshot.run_seconds
    if timing is not None and timing.projected:
        missing = missing_part(timing, snapshot.why)
        projected = "projected" if whole_run else "projected mean epoch"
        if missing:
            return f"{projected} without {missing}", f"without {missing}"
        return projected, "projected"
    if timing is not None and whole_run:
        return "measured, without the start", "measured"
    if per_epoch is None:
        return "measured", "measured"
    in_full = basis_of_epoch(per_epoch, snapshot.compile_s, snapshot.compiles)
    usual, longest = units.usual(per_epoch), measured_in_short(snapshot)
    if usual or longest:
        return "; ".join(one for one in (usual, longest, in_full) if one), usual or longest
    if per_epoch.first_left_out:
        return in_full, f"first of {per_epoch.epochs + 1:,} left out"
    return in_full, in_full.rpartition(", ")[2]


def _packed(runs: TextRow, width: int) -> list[TextRow]:
    """Put as many runs on each row as have room beside each other."""
    rows: list[TextRow] = []
    for run in runs:
        longer: TextRow = (*rows[-1], (_APART + run[0], run[1])) if rows else (run,)
        if rows and row_width(longer) <= width:
            rows[-1] = longer
        else:
            rows.append((run,))
    return rows
