"""The panels of the live screen and their sizes, from what a run has.

Charts over time stand in the left column, so that an instant is one line through them; figures and
text stand in the right one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import StrEnum

from textual.containers import Container
from textual.geometry import Offset, Region, Size, Spacing
from textual.layout import ArrangeResult, Layout, WidgetPlacement
from textual.widget import Widget

from dlmon.records.record import record
from tui.machine.machine import MOST_CHARTS
from tui.textual_internals import arrange_again


class Panel(StrEnum):
    """The panels, which are also the ids of their widgets, in the order of the digits."""

    THROUGHPUT = "throughput"
    COMPARISON = "comparison"
    MACHINE = "machine"
    EPOCHS = "epochs"
    LOSS = "loss"
    OUTPUT = "output"
    STEP = "step"
    PROCESSES = "processes"
    METRIC = "metric"


LOWER_PANELS = (Panel.LOSS, Panel.EPOCHS, Panel.OUTPUT)
"""The panels that take turns where not all fit, the most important first."""


@record(frozen=True)
class RunContent:
    """What there is to show of a run.

    Attributes:
        trains: whether it trains, or may still begin to; False for a recording of a machine.
        gpus: the number of GPUs.
        bars: the rows of the comparison, with that of this run; 0 if nothing compares.
        step_rows: the rows about the parts of a step, or its times; 0 if both are unknown.
        has_loss: whether a metric was read.
        has_metric: whether another one was read.
        epochs: the epochs that the table may get; 0 before the first one ended.
        output_lines: the lines that the output may get; 0 before anything was printed.
        is_running: whether more may come.
        has_begun: whether a step has ended, or none will; before that, its start is shown.
        has_figure: whether the run has a figure, or may still get one.
        has_processes: whether processes of the machine were read.
        has_machine: whether the machine was read, or may still be.
        has_failed: whether it failed: beside its panel there are the loss, the machine and the
            output.
        needs_memory: whether memory may be why it failed.
        has_stalled: whether no step ends: its throughput is 0.
        flat: the panels whose charts hardly move.
        hidden: the panels that a person hid.
        first: the lower panel that a person chose.
    """

    trains: bool = True
    gpus: int = 0
    bars: int = 0
    step_rows: int = 0
    has_loss: bool = False
    has_metric: bool = False
    epochs: int = 0
    output_lines: int = 0
    is_running: bool = True
    has_begun: bool = True
    has_figure: bool = True
    has_processes: bool = False
    has_machine: bool = True
    has_failed: bool = False
    needs_memory: bool = False
    has_stalled: bool = False
    flat: frozenset[str] = frozenset()
    hidden: frozenset[str] = frozenset()
    first: Panel | None = None


@record(frozen=True)
class PanelRows:
    """The rows of a panel with its frame: at least, at most, and its share of those in between.

    A panel without a share has the most rows, or is left out.
    """

    least: int
    most: int = 1_000
    share: int = 0


FRAME = 2
BROAD = 160
"""From this width on, the charts over time get more than half of it."""
TALL, SMALL_FIGURE, LARGE_FIGURE = 24, 2, 4
"""From this height on, the figure has large digits; the rows of both."""
# A comparison and the parts of a step both have panels if they leave this room to others.
_LEAST_OTHERS = 16
_LEAST_CHART, _LEAST_WITH_CPU, _LEAST_CPU = 5, 9, 4
# In a lower window a line has fewer rows.
_LOW, _LEAST_LOSS = 16, 6
# A chart that hardly moves needs no more rows or parts of the height; the machine has two of them.
_MOST_FLAT, _MOST_FLAT_MACHINE = (7, 0.25), (16, 0.35)
_LEAST_BARS, _MOST_BARS, _MOST_EPOCHS = 3, 10, 12
_LEAST_PROCESSES, _MOST_PROCESSES = 6, 12
_BROAD_LEFT = 0.6
_FIRST = (Panel.THROUGHPUT, Panel.MACHINE, Panel.COMPARISON)
_CHARTS = (Panel.THROUGHPUT, Panel.MACHINE, Panel.LOSS)


def panel_rows(content: RunContent, height: int) -> dict[Panel, PanelRows]:
    """Return the panels with content, the most important first."""
    # The last row of a large figure compares it.
    figure = FRAME + (LARGE_FIGURE - (not content.bars) if height >= TALL else SMALL_FIGURE)
    # Without room for bars beside the loss, a sentence compares.
    has_bars = height >= TALL or not content.has_loss
    bars = min(content.bars, _MOST_BARS if height >= TALL else _MOST_BARS // 2) * has_bars
    step = FRAME + content.step_rows
    has_cpu = height >= _LEAST_CHART + _LEAST_WITH_CPU
    machine, most_machine = _LEAST_WITH_CPU if content.gpus and has_cpu else _LEAST_CHART, 1_000
    if content.gpus > MOST_CHARTS:
        # Two GPUs have room for their bars in a row.
        gpu_rows = -(-content.gpus // 2)
        machine = max(machine, min(height * 2 // 3, _LEAST_CPU + gpu_rows))
        most_machine = FRAME + gpu_rows + 2 * _LEAST_CPU
    rows = {
        Panel.THROUGHPUT: PanelRows(_LEAST_CHART, share=3),
        Panel.MACHINE: PanelRows(machine, most_machine, share=5 if content.gpus else 3),
        Panel.COMPARISON: PanelRows(figure + min(bars, _LEAST_BARS), figure + bars),
        Panel.STEP: PanelRows(step, step),
        Panel.LOSS: PanelRows(_LEAST_CHART if height < _LOW else _LEAST_LOSS, share=3),
        Panel.EPOCHS: PanelRows(
            _LEAST_CHART, FRAME + 1 + min(content.epochs, _MOST_EPOCHS), share=2
        ),
        Panel.OUTPUT: PanelRows(_LEAST_CHART - 1, FRAME + max(2, content.output_lines), share=2),
        Panel.PROCESSES: PanelRows(_LEAST_PROCESSES, _MOST_PROCESSES, share=2),
        Panel.METRIC: PanelRows(_LEAST_LOSS, share=3),
    }
    most_flat = {Panel.THROUGHPUT: _MOST_FLAT, Panel.MACHINE: _MOST_FLAT_MACHINE}
    for panel in content.flat & most_flat.keys() if content.gpus <= 1 else ():
        most, part = most_flat[Panel(panel)]
        rows[Panel(panel)] = replace(rows[Panel(panel)], most=max(most, int(part * height)))
    has_room = not content.bars or height - figure - bars - step >= _LEAST_OTHERS
    may_print = content.trains and content.is_running and content.has_begun
    # With little room, the machine tells of a failure for want of memory, the output of others.
    has_both = height >= TALL or not content.has_failed
    has_step = bool(content.step_rows) and (has_room or not content.has_begun)
    has_figures = content.has_begun and not content.has_failed
    is_shown = {
        Panel.THROUGHPUT: content.trains
        and has_figures
        and not (content.has_stalled and height < TALL),
        Panel.COMPARISON: content.has_figure and has_figures,
        Panel.STEP: has_step and not content.has_failed,
        Panel.LOSS: content.has_loss,
        Panel.EPOCHS: content.epochs > 0 and not content.has_failed,
        Panel.MACHINE: content.has_machine and (has_both or content.needs_memory),
        Panel.OUTPUT: (content.output_lines > 0 or may_print)
        and (has_both or not content.needs_memory),
        Panel.PROCESSES: content.has_processes,
        # It stands beside the loss.
        Panel.METRIC: content.has_metric
        and content.has_loss
        and not content.has_failed
        and Panel.LOSS not in content.hidden,
    }
    chosen = [content.first] if content.first else []
    in_order = (*_FIRST, *chosen, Panel.STEP, *LOWER_PANELS, Panel.PROCESSES, Panel.METRIC)
    return {
        panel: rows[panel]
        for panel in dict.fromkeys(in_order)
        if is_shown[panel] and panel not in content.hidden
    }


def arrange_panels(content: RunContent, width: int, height: int) -> dict[Panel, Region]:
    """Return the region of each panel that fits; together they fill the whole."""
    rows = panel_rows(content, height)
    left = [Panel.THROUGHPUT, Panel.MACHINE]
    right = [Panel.COMPARISON, Panel.STEP, Panel.LOSS, Panel.EPOCHS, Panel.OUTPUT]
    if width >= BROAD and not content.has_failed:
        left.insert(1, Panel.LOSS)
        right.insert(2, Panel.METRIC)
    elif content.has_failed and Panel.MACHINE not in rows:
        left.append(Panel.LOSS)
    elif content.has_failed and width >= BROAD:
        # The output has the room that a flat chart doesn't need.
        left.append(Panel.OUTPUT)
    elif height >= TALL and Panel.LOSS in rows:
        left.append(Panel.EPOCHS)
    if width >= BROAD or not content.has_begun or rows.keys() == {Panel.PROCESSES}:
        # Who else uses the machine is worth what a large screen has left, and the wait for a step.
        right.append(Panel.PROCESSES)
    if not content.has_begun:
        left.insert(0, Panel.STEP)
    right = [panel for panel in right if panel not in left]
    growing = {Panel.LOSS, Panel.EPOCHS, Panel.PROCESSES, Panel.METRIC} & {*right}
    if not content.output_lines and not rows.keys().isdisjoint(growing):
        # An empty panel only fills a column without any other that grows.
        rows.pop(Panel.OUTPUT, None)
    columns = [stack(left, rows, height)]
    if Panel.METRIC in rows and Panel.LOSS in columns[0]:
        _, most = columns[0][Panel.LOSS]
        rows[Panel.METRIC] = replace(rows[Panel.METRIC], most=most)
    columns.append(stack(right, rows, height))
    cells = round(width * (_BROAD_LEFT if width >= BROAD else 0.5))
    if not all(columns):
        cells = width if columns[0] else 0
    return {
        panel: Region(x, top, column_width, panel_height)
        for column, x, column_width in zip(columns, (0, cells), (cells, width - cells), strict=True)
        for panel, (top, panel_height) in column.items()
    }


def stack(
    column: Sequence[Panel], rows: Mapping[Panel, PanelRows], height: int
) -> dict[Panel, tuple[int, int]]:
    """Return the top and the height of each panel of a column that fits."""
    heights: dict[Panel, int] = {}
    free = height
    for panel in rows:
        if panel in column and rows[panel].least <= free:
            heights[panel] = rows[panel].least
            free -= rows[panel].least
    # Fixed panels first, then row by row to the one that has least of its share.
    for panel in heights:
        if not rows[panel].share:
            more = min(free, rows[panel].most - heights[panel])
            heights[panel] += more
            free -= more
    shared = [panel for panel in heights if rows[panel].share]
    others: list[Panel] = [panel for panel in shared if panel is not Panel.METRIC]
    for _ in range(free if heights else 0):
        growing = [panel for panel in shared if heights[panel] < rows[panel].most]
        # What nobody needs goes to charts, which have no empty rows.
        growing = growing or [panel for panel in shared if panel in _CHARTS]
        growing = growing or others[-1:] or shared[-1:] or list(heights)[-1:]
        least = min(growing, key=lambda panel: heights[panel] / max(1, rows[panel].share))
        heights[least] += 1
    tops, top = {}, 0
    for panel in column:
        if panel in heights:
            tops[panel] = (top, heights[panel])
            top += heights[panel]
    return tops


class _PanelsLayout(Layout):
    name = "panels"

    def arrange(
        self, parent: Widget, children: list[Widget], size: Size, greedy: bool = True
    ) -> ArrangeResult:
        parent.pre_layout(self)
        regions = arrange_panels(parent.content, *size) if isinstance(parent, Panels) else {}
        return [
            WidgetPlacement(regions[Panel(child.id)], Offset(), Spacing(), child)
            for child in children
            if child.id in regions
        ]


class Panels(Container):
    """The panels of a run, each in its region."""

    content = RunContent()
    shown: Mapping[Panel, Region] = {}
    _maximized: Widget | None = None

    @property
    def layout(self) -> Layout:
        return _PANELS_LAYOUT

    @property
    def left_out(self) -> set[Panel]:
        """The panels that have content and no room."""
        return panel_rows(self.content, self.size.height).keys() - self.shown.keys()

    def show(self, content: RunContent, maximized: Widget | None = None) -> bool:
        """Arrange the panels for their content; return whether any of them moved."""
        before = self.shown, self._maximized
        self.content = content
        self.set_class(self.size.height >= TALL, "-large")
        self.shown, self._maximized = arrange_panels(content, *self.size), maximized
        if (self.shown, maximized) == before:
            return False
        for child in self.children:
            child.display = child.id in self.shown or child is maximized
        arrange_again(self)
        return True


_PANELS_LAYOUT = _PanelsLayout()
