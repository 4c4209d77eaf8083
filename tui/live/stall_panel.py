"""The panel of a stalled run: the source around the line at which it stands, or stood."""

from __future__ import annotations

from dlmon.figures.session.headline import Headline
from dlmon.figures.session.stall import Stall, stall_of
from dlmon.session.limits.evidence import STANDS
from dlmon.session.snapshot import Snapshot
from tui.widgets.lines import BAD, MUTED, PLAIN, GrowingLines, TextRow, fitting, shows, wrapped


class StallPanel(GrowingLines):
    """The source around the line at which a run stands, and what the machine does meanwhile."""

    DEFAULT_CSS = "StallPanel { height: auto; padding: 0 1; display: none; }"
    DEFAULT_CLASSES = "panel -bad"
    MOST_ROWS = 7

    def rows(self, width: int, height: int, stall: Stall) -> list[TextRow]:
        numbered = zip(stall.source_lines, stall.source, strict=True)
        rows: list[TextRow] = [((text, BAD if row[2] else PLAIN),) for text, row in numbered]
        rows += [((text, PLAIN),) for text in wrapped(stall.waits_for, width, 1)]
        meanwhile = tuple((text, MUTED) for text in stall.meanwhile)
        return [*rows, fitting(meanwhile, width)] if meanwhile else rows

    _show = shows(rows)

    def show(self, snapshot: Snapshot, headline: Headline | None) -> None:
        stall = None
        if headline is not None and headline.rule in (*STANDS, "interrupted"):
            stall = stall_of(snapshot.pause or snapshot.last_stall, snapshot)
        self.display = stall is not None
        if stall is not None:
            keys = "S all stacks" if snapshot.pause is not None else ""
            self.set_titles(stall.place, keys, stall.note)
            self._show(stall)
