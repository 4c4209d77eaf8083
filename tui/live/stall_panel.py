"""The panel of a stalled run: the source around the line at which it stands, or stood."""

from __future__ import annotations

from dlmon.figures.session.headline import Headline
from dlmon.figures.session.stall import Stall, stall_of
from dlmon.session.limits.evidence import STANDS
from dlmon.session.snapshot import Snapshot
from tui.live.output_pane import split_line
from tui.widgets.lines import BAD, MUTED, PLAIN, GrowingLines, TextRow, fitting, shows, wrapped

_HANGING = " " * 8


class StallPanel(GrowingLines):
    """The source around the line at which a run stands, and what the machine does meanwhile."""

    DEFAULT_CSS = "StallPanel { display: none; }"
    DEFAULT_CLASSES = "panel -bad"
    MOST_ROWS = 8

    def rows(self, width: int, height: int, stall: Stall) -> list[TextRow]:
        numbered = zip(stall.source_lines, stall.source, strict=True)
        rows: list[TextRow] = []
        for text, (_, _, is_here) in numbered:
            # The line that matters is wrapped, the others are cut.
            parts = split_line(text, width if len(text) <= width else max(1, width - len(_HANGING)))
            for part in parts if is_here else [text]:
                indent = _HANGING if part is not parts[0] and is_here else ""
                rows.append(((f"{indent}{part}", BAD if is_here else PLAIN),))
        rows += [((text, PLAIN),) for text in wrapped(stall.waits_for, width, 1)]
        first, *more = stall.meanwhile or ("",)
        meanwhile = tuple((text, MUTED) for text in (f"mean {first}", *more))
        return [*rows, fitting(meanwhile, width)] if first else rows

    _show = shows(rows)

    def show(self, snapshot: Snapshot, headline: Headline | None) -> None:
        stall = None
        if headline is not None and headline.rule in (*STANDS, "interrupted"):
            stall = stall_of(snapshot.pause or snapshot.last_stall, snapshot)
        self.display = stall is not None
        if stall is not None:
            keys = "S all stacks" if snapshot.pause is not None else ""
            self.set_titles(stall.file, keys, stall.note)
            self._show(stall)
