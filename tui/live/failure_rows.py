"""Why a run failed and what to try, in as few rows as show both."""

from __future__ import annotations

from typing import NamedTuple

from dlmon.records import FailureKind, Result
from dlmon.session.snapshot import Snapshot
from tui.widgets.lines import MUTED, PLAIN, row_width, wrapped
from tui.widgets.rows import TextRow

FAILED: tuple[str, ...] = ("limit--failed",)
_MOST_ROWS = 4

_HEADING = "Failed  "
_NOTHING_TO_READ = "EOFError: EOF when reading a line"
"""What Python's input() raises at the end of stdin, which is there at once below a screen."""
_READS = "exec --plain, if the script is to read what you type"
_SAYS_WHY = {FailureKind.EXCEPTION, FailureKind.REFUSED, FailureKind.NOT_STARTED}


class _More(NamedTuple):
    """What stands below the reason, and what stands behind it where it has no row of its own."""

    name: str = ""
    text: str = ""
    behind: str = ""


def failure_rows(
    snapshot: Snapshot, result: Result, room: int, height: int, ellipsis: str
) -> list[TextRow]:
    """Return the reason, and what to try or was printed last: behind it where rows are few."""
    rows, more = _reason(result, room, height, ellipsis), _more(snapshot, result)
    if not rows or not more.text:
        return rows
    if len(rows) == _MOST_ROWS and not _is_behind(rows, more, room):
        rows = _reason(result, room, height - 1, ellipsis)
    if len(rows) < height:
        return [*rows, ((more.name.ljust(len(_HEADING)), MUTED), (more.text, PLAIN))]
    if _is_behind(rows, more, room):
        return [*rows[:-1], (*rows[-1], (more.behind, PLAIN))]
    return rows


def rows_needed(snapshot: Snapshot, result: Result, room: int, ellipsis: str) -> int:
    """Return how many rows show all of it; a long reason is cut at the fourth."""
    rows, more = _reason(result, room, _MOST_ROWS, ellipsis), _more(snapshot, result)
    own_row = bool(rows) and not _is_behind(rows, more, room)
    return min(_MOST_ROWS, max(1, len(rows)) + own_row)


def _is_behind(rows: list[TextRow], more: _More, room: int) -> bool:
    return row_width((*rows[-1], (more.behind, PLAIN))) <= room


def _reason(result: Result, room: int, height: int, ellipsis: str) -> list[TextRow]:
    error = (result.error or "").strip() or "no reason was recorded"
    lines = wrapped(error, room - len(_HEADING), height, ellipsis)
    headings = [(_HEADING, FAILED), *[(" " * len(_HEADING), MUTED)] * (len(lines) - 1)]
    return [(heading, (line, PLAIN)) for heading, line in zip(headings, lines, strict=False)]


def _more(snapshot: Snapshot, result: Result) -> _More:
    """Return what to try; of a failure that is but an exit code, what was printed last."""
    if result.failure == FailureKind.OUT_OF_MEMORY:
        batch_size = snapshot.model.batch_size if snapshot.model is not None else None
        advice = "use a smaller batch"
        return _More("Try", advice, f"  Try: {advice}") if (batch_size or 0) > 1 else _More()
    if snapshot.header.is_script and (result.error or "").endswith(_NOTHING_TO_READ):
        return _More("Try", _READS, f"  Try: {_READS}")
    if result.failure in _SAYS_WHY:
        return _More()
    last = next((line.text.strip() for line in reversed(snapshot.output) if line.text.strip()), "")
    # A script's own exception is in the reason already.
    if not last or last in (result.error or ""):
        return _More()
    return _More("Output", last, f"  Output: {last}")
