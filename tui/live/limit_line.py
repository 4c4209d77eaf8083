"""What limits the run, the figures that show it, and what to try."""

from __future__ import annotations

from textual.geometry import Size

from dlmon.records import FailureKind, Status
from dlmon.session.limits.seen import MIN_SAMPLES, LimitKind
from dlmon.session.reasons import NOTHING_SEEN, STEADY_TAKES, TOO_SHORT, WATCHED, WATCHED_TOO
from dlmon.session.snapshot import Snapshot
from tui.widgets.lines import ACCENT, BAD, MUTED, PLAIN, Lines, beside, fitting, shows, wrapped
from tui.widgets.rows import TextRow

WAITING = "waiting for the first batch"
_SAYS_WHY = {FailureKind.EXCEPTION, FailureKind.REFUSED, FailureKind.NOT_STARTED}
_NAMED = 2
"""So many figures stand beside the headline; what more there are is for the second row."""
_MARK_CELLS = 2
_MOST_ROWS = 4

_UNCLEAR = "bold $text-muted 60%"
_STYLES = {
    LimitKind.LOSS: BAD,
    LimitKind.DATA: ACCENT,
    LimitKind.DISK: ACCENT,
    LimitKind.GPU: "bold $text-success",
    LimitKind.CPU: "bold $text-primary",
    LimitKind.MEMORY: "bold $text-secondary",
    LimitKind.OTHERS: "bold $text-warning",
    LimitKind.WAITING: "bold $text-warning",
    LimitKind.UNCLEAR: _UNCLEAR,
}


class LimitLine(Lines):
    """What limits the run and what to try, in two rows; in one where there is but one.

    Its height is the style sheet's, so that nothing below it ever moves; it grows but once, for
    why a run failed, or trained nothing.
    """

    DEFAULT_CSS = "LimitLine { height: 2; padding: 0 1; &.-whole { height: auto; } }"

    def rows(
        self, width: int, height: int, snapshot: Snapshot, running: bool = True
    ) -> list[TextRow]:
        """Return what limits a session, or what that waits for."""
        limit, room = snapshot.limit, width - _MARK_CELLS
        over = not running or snapshot.result is not None
        heading = "What limited it  " if over else "What limits it  "
        style = _STYLES[LimitKind.UNCLEAR if limit is None else limit.kind]
        failure, untrained = _failure(snapshot), _why_nothing_trained(snapshot)
        if failure is not None:
            style, heading, (name, more) = BAD, "Failed  ", _try_or_output(snapshot)
            texts = wrapped(failure, room - len(heading), max(1, height - bool(more)))
            rows = beside(heading, texts, PLAIN, BAD)
            rows += [((name.ljust(len(heading)), MUTED), (more, PLAIN))] if more else []
        elif untrained is not None:
            rows = beside(heading, wrapped(untrained, room - len(heading), height), MUTED)
        elif limit is None or (_sees_nothing(snapshot) and over):
            rows = beside(heading, _waiting(snapshot, over), MUTED)
        else:
            headline = limit.headline or (limit.text, "Not clear")[style == _UNCLEAR]
            figures, more = ", ".join(limit.figures[:_NAMED]), ", ".join(limit.figures[_NAMED:])
            advice = limit.advice or ("" if more or style == _UNCLEAR else "no suggestion")
            if height < 2:
                tries = f"Try: {limit.advice.partition(': ')[0]}" if limit.advice else ""
                first = limit.figures[0] if limit.figures and tries else figures
                runs = ((headline, style), (first, PLAIN), (tries, PLAIN))
                rows = [fitting(tuple(run for run in runs if run[0]), room)]
            else:
                name = "Try" if advice else ""
                rows = [
                    ((heading, MUTED), (headline, style), (f"  {figures}", PLAIN)),
                    ((name.ljust(len(heading)), MUTED), (advice or more, PLAIN)),
                ]
        return [(("┃ ", style), *row) for row in rows[:height]]

    _show = shows(rows)

    def show(self, snapshot: Snapshot, running: bool = True) -> None:
        """Show what limits a session, or what that waits for."""
        is_whole = _failure(snapshot) is not None or bool(_why_nothing_trained(snapshot))
        self.set_class(is_whole, "-whole")
        self._show(snapshot, running)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return len(self.draw(width, _MOST_ROWS))


def _sees_nothing(snapshot: Snapshot) -> bool:
    return snapshot.header.is_script and snapshot.model is None


def _failure(snapshot: Snapshot) -> str | None:
    """Return why a run failed; None where it didn't."""
    result = snapshot.result
    if result is None or result.status != Status.FAILED:
        return None
    return (result.error or "").strip() or "no reason was recorded"


def _why_nothing_trained(snapshot: Snapshot) -> str | None:
    """Return why no training was seen in a script that is over; None where there was some."""
    if snapshot.result is None or not _sees_nothing(snapshot):
        return None
    return snapshot.result.why.get("samples_per_second")


def _try_or_output(snapshot: Snapshot) -> tuple[str, str]:
    """Return what to try; of a failure that is but an exit code, what was printed last."""
    result, model = snapshot.result, snapshot.model
    if result is None or result.failure in _SAYS_WHY:
        return "", ""
    if result.failure == FailureKind.OUT_OF_MEMORY:
        batch_size = model.batch_size if model is not None else None
        return "Try", "use a smaller batch" if (batch_size or 0) > 1 else ""
    last = next((line.text.strip() for line in reversed(snapshot.output) if line.text.strip()), "")
    # A script's own exception is in the reason already.
    return "Output", "" if last in (result.error or "") else last


def _waiting(snapshot: Snapshot, over: bool) -> tuple[str, ...]:
    """Say what the answer waits for, or why there is none."""
    if _sees_nothing(snapshot):
        return NOTHING_SEEN if over else WAITING, f"{WATCHED}, {WATCHED_TOO}"
    if snapshot.samples_per_second is not None:
        few = "too few readings of the machine in steady training"
        return few, f"at least {MIN_SAMPLES} are needed"
    if not over:
        return "shown once training is steady", STEADY_TAKES
    if snapshot.batches:
        return TOO_SHORT, STEADY_TAKES
    return ("the run ended before its first step",)
