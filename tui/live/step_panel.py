"""The panel of the parts of a step or of its times, and before the first one of the start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from rich.cells import cell_len

from dlmon.figures import units
from dlmon.figures.session.ranks import step_split
from dlmon.figures.session.start import doing_rows, start_rows, usual_start
from dlmon.figures.session.step_times import step_times_of
from dlmon.session.limits.find import WINDOW_S
from dlmon.session.snapshot import Snapshot
from dlmon.statistics.steady_state import SteadyState
from tui.drawing.plot import thick_bar
from tui.drawing.step_parts import PART_STYLES
from tui.widgets.lines import BAR, PLAIN, STRONG, Lines, TextRow, fit

_GAP = "  "

_Row = tuple[str, float, str, str, str]
"""A name, the fraction of its bar of 0 to 1, a figure, a text, and the style of the bar."""


class StepPanel(Lines):
    """A bar for each part of a step or of the start, or for each range of step times."""

    DEFAULT_CLASSES = "panel"

    count = 0
    """The rows that it needs: never fewer later, but none before the steps are known."""
    _shown: Sequence[_Row] = ()

    def show(
        self,
        snapshot: Snapshot,
        steady: SteadyState,
        before: Mapping[str, float] = MappingProxyType({}),
    ) -> None:
        """Show the parts of a step; if they are unknown, the times of the `steady` steps.

        Before the first step, show the start with the times of the run `before`.
        """
        split, times = step_split(snapshot, snapshot.judged_parts), None
        if split is None and snapshot.step_ms is not None:
            times = step_times_of(steady.ranked())
        if split is not None:
            self._shown = [
                (
                    split.name_of(name),
                    share,
                    units.milliseconds(ms),
                    units.whole_share(share),
                    PART_STYLES[name],
                )
                for name, ms, share in split.rows
            ]
            lasted = f"of the last {WINDOW_S:.0f} s" if snapshot.elapsed_s > WINDOW_S else "so far"
            of = "" if snapshot.result is not None else f"mean {lasted}"
            of += f"{_GAP * bool(of)}W all ranks" if len(snapshot.trainers) > 1 else ""
            self.set_titles(split.title, of, units.milliseconds(split.step_ms))
        elif times is not None:
            most = max(share for _, share in times.rows)
            self._shown = [
                (name, s / most, "", units.whole_share(s), BAR) for name, s in times.rows
            ]
            more = (f"95 % {times.slow}", f"longest {times.longest}")
            self.set_titles("Step times", right=f"median {times.median}", more=more)
        else:
            # A replay may go back to before the first steady step.
            rows = (*start_rows(snapshot, before), *doing_rows(snapshot))
            self._shown = [(row.name, row.fraction, row.now, row.note, BAR) for row in rows]
            self.count = len(rows)
            title = "Starting" if rows else "A step"
            self.set_titles(title, right=usual_start(before) if rows else "")
        self.count = max(self.count, len(self._shown))
        self.redraw()

    def draw(self, width: int, height: int) -> list[TextRow]:
        rows = [
            (name, share, f"{figure}{_GAP if figure else ''}", text, style)
            for name, share, figure, text, style in self._shown[:height]
        ]
        names, figures, shares = (
            max((cell_len(str(row[column])) for row in rows), default=0) for column in (0, 2, 3)
        )
        room = max(0, width - names - figures - shares - 2 * len(_GAP))
        largest = max((share for _, share, *_ in rows), default=0.0)
        return [
            (
                (fit(name, names) + _GAP, STRONG if share == largest else PLAIN),
                (thick_bar(share, room), style),
                (
                    f"{_GAP}{figure:>{figures}}{text:>{shares}}",
                    STRONG if share == largest else PLAIN,
                ),
            )
            for name, share, figure, text, style in rows
        ]
