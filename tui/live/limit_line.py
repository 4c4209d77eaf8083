"""What limits the run, the figures that show it, and what to try."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.geometry import Size

from dlmon.records import FailureKind, Status
from dlmon.session.limits.evidence import MIN_SAMPLES, Limit, LimitKind
from dlmon.session.session import (
    NOTHING_SEEN,
    STEADY_TAKES,
    TOO_SHORT,
    WATCHED,
    WATCHED_TOO,
)
from dlmon.session.snapshot import Snapshot
from tui.widgets.lines import MUTED, PLAIN, Lines, beside, fitting, shows, wrapped
from tui.widgets.rows import TextRow, TextRun

FAILED: tuple[str, ...] = ("limit--failed",)
WAITING = "waiting for the first batch"
_NOTHING_TO_READ = "EOFError: EOF when reading a line"
"""What Python's input() raises at the end of stdin, which is there at once below a screen."""
_READS = "exec --plain, if the script is to read what you type"
_SAYS_WHY = {FailureKind.EXCEPTION, FailureKind.REFUSED, FailureKind.NOT_STARTED}
_NAMED = 2
"""So many figures stand beside the headline; what more there are is for the second row."""
_MARK_CELLS = 2
_MOST_ROWS = 4

KIND_STYLES: dict[LimitKind, tuple[str, ...]] = {
    kind: (f"limit--{name}",)
    for kind, name in (
        (LimitKind.LOSS, "loss"),
        (LimitKind.DATA, "data"),
        (LimitKind.GPU, "gpu"),
        (LimitKind.CPU, "cpu"),
        (LimitKind.MEMORY, "memory"),
        (LimitKind.DISK, "disk"),
        (LimitKind.OTHERS, "others"),
        (LimitKind.WAITING, "waiting"),
        (LimitKind.UNCLEAR, "unclear"),
    )
}


class LimitLine(Lines):
    """What limits the run and what to try, in two rows; in one where there is but one.

    Its height is the style sheet's, so that nothing below it ever moves; it grows but once, for
    why a run failed, or trained nothing.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        *(name for (name,) in KIND_STYLES.values()),
        *FAILED,
    }

    DEFAULT_CSS = """
    LimitLine {
        height: 2;
        padding: 0 1;
        &.-whole { height: auto; }
        & > .limit--data, & > .limit--disk { color: $text-accent; text-style: bold; }
        & > .limit--gpu { color: $text-success; text-style: bold; }
        & > .limit--cpu { color: $text-primary; text-style: bold; }
        & > .limit--memory { color: $text-secondary; text-style: bold; }
        & > .limit--others, & > .limit--waiting { color: $text-warning; text-style: bold; }
        & > .limit--unclear { color: $text-muted; text-style: bold; }
        & > .limit--failed, & > .limit--loss { color: $text-error; text-style: bold; }
    }
    """

    def rows(
        self, width: int, height: int, snapshot: Snapshot, running: bool = True
    ) -> list[TextRow]:
        """Return what limits a session, or what that waits for."""
        limit, room = snapshot.limit, width - _MARK_CELLS
        over = not running or snapshot.result is not None
        heading = "What limited it  " if over else "What limits it  "
        style = KIND_STYLES[LimitKind.UNCLEAR if limit is None else limit.kind]
        sees_nothing = snapshot.header.is_script and snapshot.model is None
        why = _why_nothing_trained(snapshot)
        if _has_failed(snapshot):
            style = FAILED
            rows = _failure(snapshot, room, height)
        elif why is not None and sees_nothing:
            rows = beside(heading, wrapped(why, room - len(heading), height), MUTED)
        elif sees_nothing and (over or limit is None):
            says = NOTHING_SEEN if over else WAITING
            rows = [((heading, MUTED), (says, MUTED)), _watched(heading, room)]
        elif limit is None:
            rows = beside(heading, _waiting(snapshot, over), MUTED)
        elif height < 2:
            advice = limit.advice.partition(": ")[0]
            tries = [(f"Try: {advice}", PLAIN)] if advice else []
            figures = limit.figures[: 1 if tries else _NAMED]
            rows = [fitting((_headline(limit), *_figures(figures), *tries), room)]
        else:
            rows = _in_two_rows(limit, heading)
            if sees_nothing:
                # Who waits for a script to train has to know what can be seen of it.
                rows[1:] = [_watched(heading, room)]
        return [(("┃ ", style), *row) for row in rows[:height]]

    _show = shows(rows)

    def show(self, snapshot: Snapshot, running: bool = True) -> None:
        """Show what limits a session, or what that waits for."""
        self.set_class(_has_failed(snapshot) or bool(_why_nothing_trained(snapshot)), "-whole")
        self._show(snapshot, running)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return len(self.draw(width, _MOST_ROWS))


def _failure(snapshot: Snapshot, room: int, height: int) -> list[TextRow]:
    """Return why a run failed, and below it what to try, or what was printed last."""
    result, heading = snapshot.result, "Failed  "
    error = ((result and result.error) or "").strip() or "no reason was recorded"
    more = _try_or_output(snapshot)
    texts = wrapped(error, room - len(heading), max(1, height - (more is not None)))
    rows = beside(heading, texts, PLAIN, FAILED)
    if more is not None:
        rows.append(((more[0].ljust(len(heading)), MUTED), (more[1], PLAIN)))
    return rows


def _watched(heading: str, room: int) -> TextRow:
    """Say what can be seen of a script that trains."""
    watched = (" " * len(heading) + WATCHED, MUTED)
    return fitting((watched, (f", {WATCHED_TOO}", MUTED)), room, 0)


def _has_failed(snapshot: Snapshot) -> bool:
    return snapshot.result is not None and snapshot.result.status == Status.FAILED


def _why_nothing_trained(snapshot: Snapshot) -> str | None:
    """Return why no training was seen in a script that is over; None where there was some."""
    if snapshot.result is None or not snapshot.header.is_script or snapshot.model is not None:
        return None
    return snapshot.result.why.get("samples_per_second")


def _try_or_output(snapshot: Snapshot) -> tuple[str, str] | None:
    """Return what to try; of a failure that is but an exit code, what was printed last."""
    result = snapshot.result
    if result is None:
        return None
    if result.failure == FailureKind.OUT_OF_MEMORY:
        batch_size = snapshot.model.batch_size if snapshot.model is not None else None
        return ("Try", "use a smaller batch") if (batch_size or 0) > 1 else None
    error = result.error or ""
    if snapshot.header.is_script and error.endswith(_NOTHING_TO_READ):
        return "Try", _READS
    if result.failure in _SAYS_WHY:
        return None
    last = next((line.text.strip() for line in reversed(snapshot.output) if line.text.strip()), "")
    # A script's own exception is in the reason already.
    return ("Output", last) if last and last not in error else None


def _in_two_rows(limit: Limit, heading: str) -> list[TextRow]:
    """Return the headline with its figures, and what to try; else what more was measured."""
    first: TextRow = ((heading, MUTED), _headline(limit), *_figures(limit.figures[:_NAMED], "  "))
    try_, blank = ("Try".ljust(len(heading)), MUTED), (" " * len(heading), MUTED)
    if limit.advice:
        return [first, (try_, (limit.advice, PLAIN))]
    if len(limit.figures) > _NAMED:
        return [first, (blank, *_figures(limit.figures[_NAMED:]))]
    if limit.kind is LimitKind.UNCLEAR:
        return [first]
    return [first, (try_, ("no suggestion", MUTED))]


def _headline(limit: Limit) -> TextRun:
    text = limit.headline or ("Not clear" if limit.kind is LimitKind.UNCLEAR else limit.text)
    return text, KIND_STYLES[limit.kind]


def _figures(figures: Sequence[str], apart: str = "") -> TextRow:
    return ((apart + ", ".join(figures), PLAIN),) if figures else ()


def _waiting(snapshot: Snapshot, over: bool) -> tuple[str, ...]:
    """Say what the answer waits for, or why there is none."""
    if snapshot.samples_per_second is not None:
        few = "too few readings of the machine in steady training"
        return few, f"at least {MIN_SAMPLES} are needed"
    if not over:
        return "shown once training is steady", STEADY_TAKES
    if snapshot.batches:
        return TOO_SHORT, STEADY_TAKES
    return ("the run ended before its first step",)
