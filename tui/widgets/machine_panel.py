"""This machine alone, live: its own sensors process, charts and cores."""

from __future__ import annotations

import time

from textual.app import ComposeResult
from textual.containers import Vertical

from dlmon.records import Facts, Machine, MachineFacts
from dlmon.sensing import Sensing
from dlmon.session import MachineHistory
from tui import figures
from tui.time_axis import latest_axis
from tui.widgets.lines import BAD, MUTED, PLAIN, Lines, cut
from tui.widgets.machine_charts import MachineCharts, MachineView
from tui.widgets.plot import bar
from tui.widgets.rows import Row


class MachinePanel(Vertical):
    """Charts of CPU and GPUs or memory, and a row of cores.

    Args:
        interval_s: time between samples.
    """

    DEFAULT_CSS = """
    MachinePanel MachineCharts { layout: vertical; }
    MachinePanel CoreRows { height: auto; max-height: 12; padding: 0 1; }
    """

    def __init__(self, *, interval_s: float = 1.0, ascii: bool = False) -> None:
        """Nothing is read until `start`."""
        super().__init__()
        self._interval_s = interval_s
        self._ascii = ascii
        self._history = MachineHistory(interval_s)
        self._facts = MachineFacts()
        self._sensing: Sensing | None = None
        self._notice = ""
        self._started_ns = self._sampling_since_ns = time.monotonic_ns()

    def compose(self) -> ComposeResult:
        """Lay out facts, charts and cores."""
        yield CoreRows(ascii=self._ascii)
        yield MachineCharts(ascii=self._ascii)

    def on_mount(self) -> None:
        """Paint once or twice a second; nothing is repainted that did not change."""
        self.set_interval(min(1.0, max(0.5, self._interval_s)), self.paint)

    def on_unmount(self) -> None:
        """End the sensors with the panel."""
        self.stop()

    def start(self) -> None:
        """Start sampling, unless it is on."""
        if self._sensing is None:
            self._sensing = Sensing(self._interval_s, self._take_facts, self._take, self._tell)
            self._sensing.start()
            self._sampling_since_ns = time.monotonic_ns()

    def stop(self) -> None:
        """Stop sampling."""
        if self._sensing is not None:
            self._sensing.close()
            self._sensing = None

    def paint(self) -> None:
        """Show the readings as they are."""
        charts = self.query_one(MachineCharts)
        now = time.monotonic_ns()
        latest = self._history.latest
        # While sampling was off on purpose, nothing went stale.
        age_s = None
        if latest is not None:
            age_s = (now - max(latest.t, self._sampling_since_ns)) / 1e9
        view = MachineView(self._history, self._facts, age_s, self._interval_s)
        column_ns = max(int(self._interval_s * 1e9), 1_000_000_000)
        charts.show(view, latest_axis(self._started_ns, now, column_ns, charts.plot_columns))
        notice = self._notice if age_s is None or view.stale else ""
        self.query_one(CoreRows).show(self._facts, latest, notice)

    def _take_facts(self, facts: Facts) -> None:
        self._facts = facts.machine

    def _take(self, sample: Machine) -> None:
        self._history.fold(sample)

    def _tell(self, text: str) -> None:
        self._notice = text


class CoreRows(Lines):
    """What the machine is, and how busy each core: a bar each, or a cell where there are many."""

    def __init__(self, *, ascii: bool = False) -> None:
        """Start empty."""
        super().__init__(ascii=ascii)
        self._facts = MachineFacts()
        self._machine: Machine | None = None
        self._notice = ""
        self._height = 0

    def show(self, facts: MachineFacts, machine: Machine | None, notice: str) -> None:
        """Show cores, or the notice in their place."""
        self._facts, self._machine, self._notice = facts, machine, notice
        height = 2 + max(1, len(self._core_rows(self.size.width)))
        if height != self._height:
            self._height = height
            self.styles.height = height
        self.redraw()

    def draw(self, width: int, height: int) -> list[Row]:
        """Return the machine's name, then cores as many to a row as fit."""
        facts = self._facts
        rows: list[Row] = [
            cut(((facts.cpu_model or "waiting for the sensors", PLAIN),), width),
            cut(((self._inventory(), MUTED),), width),
        ]
        if self._notice:
            rows.append(cut(((self._notice, BAD),), width))
        else:
            rows.extend(self._core_rows(width))
        return rows[:height]

    def _core_rows(self, width: int) -> list[Row]:
        cpu = self._machine.cpu if self._machine is not None else None
        cores = (cpu.cores if cpu is not None else None) or ()
        in_a_row = max(1, width // _CORE_WIDTH)
        if len(cores) > in_a_row * _BAR_ROWS:
            return self._dense_rows(cores, max(1, width - _LABEL_WIDTH - 1))
        rows: list[Row] = []
        for first in range(0, len(cores), in_a_row):
            row: list[tuple[str, tuple[str, ...]]] = []
            for number, pct in enumerate(cores[first : first + in_a_row], first):
                row.append((f"{number:>3} ", MUTED))
                row.append((bar(pct / 100, _CORE_BAR, self.ascii), PLAIN))
                row.append((f"{pct:>4}% ", PLAIN))
            rows.append(tuple(row))
        return rows

    def _dense_rows(self, cores: tuple[int, ...], in_a_row: int) -> list[Row]:
        """Return a cell for each core, after the number of the first one of the row."""
        levels = _ASCII_LEVELS if self.ascii else _LEVELS
        rows: list[Row] = []
        for first in range(0, len(cores), in_a_row):
            some = cores[first : first + in_a_row]
            text = "".join(levels[min(max(pct, 0), 99) * len(levels) // 100] for pct in some)
            rows.append(((f"{first:>{_LABEL_WIDTH}} ", MUTED), (text, PLAIN)))
        return rows

    def _inventory(self) -> str:
        facts = self._facts
        parts = [f"{facts.cores} cores"] if facts.cores else []
        if facts.cpu_limit is not None:
            parts.append(f"limited to {facts.cpu_limit:g}")
        memory_mib = facts.memory_limit_mib or facts.memory_mib
        if memory_mib is not None:
            parts.append(figures.gibibytes(memory_mib))
        if self._machine is not None and self._machine.memory is not None:
            parts.append(f"{figures.gibibytes(self._machine.memory.used_mib)} used")
        return "  ".join(parts)


_CORE_BAR = 8
_CORE_WIDTH = 4 + _CORE_BAR + 6
_BAR_ROWS = 4
_LABEL_WIDTH = 3
_LEVELS = "▁▂▃▄▅▆▇█"
_ASCII_LEVELS = "0123456789"
