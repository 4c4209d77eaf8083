"""One machine, live, from a source of its own."""

from __future__ import annotations

from dataclasses import dataclass

from textual.app import ComposeResult
from textual.message import Message
from textual.screen import ModalScreen
from textual.timer import Timer

from dlmon.records import MachineFacts
from dlmon.session.source import MachineSource
from tui.drawing.time_window import (
    NOTHING_FINER,
    NOTHING_MORE,
    WHOLE_RUN,
    ZOOM_NOTE_S,
    RunSpan,
    TimeWindow,
)
from tui.machine.machine import Machine
from tui.machine.view import MachineView

_NOTICE_S = 10.0
# So often it is looked for the first sample, which somebody waits for.
_FIRST_S = 0.1


class MachinePanel(Machine):
    """The machine as it is now, along an axis that ends now.

    Args:
        source: where its readings come from.
        processes: show what runs on the machine, where there is room.
    """

    @dataclass
    class FactsRead(Message):
        """What the machine is has become known."""

        machine: MachineFacts

    def __init__(self, source: MachineSource, *, processes: bool = False) -> None:
        """Nothing is read until `start`."""
        super().__init__(processes=processes)
        self._source = source
        self._facts = source.facts
        self._timer: Timer | None = None
        self._waiting: Timer | None = None
        self._window = TimeWindow()
        self._zoom_note = ""

    def compose(self) -> ComposeResult:
        """Lay out the parts as they will stand, so that their styles are looked up once."""
        if not self._facts.gpus:
            self.about.show(self._facts, "")
            self._take_form(self.look())
        yield from super().compose()

    def on_mount(self) -> None:
        """Paint once or twice a second; nothing is repainted that did not change."""
        seconds = min(1.0, max(0.5, self._source.interval_s))
        self._timer = self.set_interval(seconds, self._on_timer, pause=not self._source.is_on)
        self.paint()
        if self._lists_processes:
            self.call_after_refresh(self.list_processes)

    def on_unmount(self) -> None:
        """Have no readings come for nobody."""
        self.stop()

    def start(self) -> None:
        """Have readings come, and paint them; where they do already, show what came meanwhile."""
        if self._source.is_on:
            self.call_after_refresh(self.paint)
        self._source.start()
        if self._timer is not None:
            self._timer.resume()
        if self._source.history.latest is None and self._waiting is None:
            self._waiting = self.set_interval(_FIRST_S, self._paint_first)

    def _paint_first(self) -> None:
        """Paint the first sample once it is there."""
        if self._source.history.latest is None and self._source.is_on:
            self._poll()
        elif self._waiting is not None:
            self._waiting.stop()
            self._waiting = None
            self._on_timer()

    def stop(self) -> None:
        """Have no readings come, and paint none."""
        self._source.stop()
        if self._timer is not None:
            self._timer.pause()

    def look(self) -> MachineView:
        """Return the readings as they are."""
        source = self._source
        return MachineView(
            source.history, source.facts, source.age_s, source.interval_s, host=source.host
        )

    def _on_timer(self) -> None:
        """Take what is new; paint, but not for nobody: another screen may show what is sensed."""
        if self.screen.is_active or isinstance(self.app.screen, ModalScreen):
            self.paint()
        else:
            self._poll()

    def _poll(self) -> None:
        """Say what is heard of the sensors, and post what the machine is once that is known."""
        for sentence in self._source.poll():
            self.notify(sentence, severity="warning", timeout=_NOTICE_S, markup=False)
        if self._source.facts is not self._facts:
            self._facts = self._source.facts
            self.post_message(self.FactsRead(self._facts))

    def paint(self) -> None:
        """Show the readings as they are."""
        if not self.is_attached:
            return
        self._poll()
        view = self.look()
        notice = self._source.status if view.age_s is None or view.stale else ""
        self.about.show(self._facts, notice)
        axis = self._window.axis(self._run, self.plot_columns).ending_now
        is_over = not self._source.goes_on
        self.show(
            view,
            axis,
            lambda own: own.time_before_now(is_over=is_over),
            self._seen,
            self._zoom_note,
        )

    def show_again(self) -> None:
        self.paint()

    def zoom(self, *, out: bool) -> None:
        """Show more time, or less; say why where that can't be."""
        run, columns = self._run, self.plot_columns
        window = self._window
        zoomed = window.zoomed_out(run, columns) if out else window.zoomed_in(run, columns)
        self._zoom_note = ""
        if zoomed is window:
            self._zoom_note = NOTHING_MORE if out else NOTHING_FINER
            self.set_timer(ZOOM_NOTE_S, self._forget_zoom_note)
        self._window = zoomed
        self.paint()

    def _forget_zoom_note(self) -> None:
        self._zoom_note = ""
        self.paint()

    @property
    def time_shown(self) -> str:
        """How much time the charts show, in words."""
        return ", ".join(filter(None, (self._seen, self._zoom_note)))

    @property
    def _seen(self) -> str:
        seen = self._window.shown_part(self._run, self.plot_columns)
        return "all since the start" if seen == WHOLE_RUN else seen

    @property
    def _run(self) -> RunSpan:
        source = self._source
        column_ns = max(int(source.interval_s * 1e9), 1_000_000_000)
        return RunSpan(source.start_ns, source.now(), True, column_ns)
