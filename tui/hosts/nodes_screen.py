"""The screen of the nodes of one run, with a card each."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from textual.binding import Binding, BindingType

from dlmon.remote.nodes import NodeSource, node_snapshots
from dlmon.session.source import SLICE_S, SessionSource
from tui.hosts.hosts_screen import MOVES, CardsScreen
from tui.screens.base import back, hidden, topics_of
from tui.screens.filtered import CLEAR_FILTER, FILTER, SORT

_CARD_TOPICS = ("GPU rows", "CPU row", "no sample since", "Order")


class NodesScreen(CardsScreen):
    """The nodes of a run, live or as recorded."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "Open", tooltip="Show the highlighted machine in full"),
        FILTER,
        CLEAR_FILTER,
        SORT,
        *back("Go back to the run"),
        *MOVES,
        hidden("home,ctrl+home", "move_to(0, -1000000)", "First machine"),
        hidden("end,ctrl+end", "move_to(0, 1000000)", "Last machine"),
    ]
    nouns = ("machine", "process")
    HELP_PAGES = (Path(__file__).with_name("nodes.md"),)

    def __init__(self, source: SessionSource) -> None:
        super().__init__()
        self._source = source

    @property
    def topics(self) -> tuple[tuple[str, str], ...]:
        cards = topics_of(Path(__file__).with_name("hosts.md"))
        return (*super().topics, *(topic for topic in cards if topic[0] in _CARD_TOPICS))

    def on_mount(self) -> None:
        """Paint once more when the cards have their sizes."""
        self.tick()
        self.call_after_refresh(self.paint)

    def paint(self) -> None:
        self._source.poll(SLICE_S)
        self.show_hosts(node_snapshots(self._source))

    def action_open(self) -> None:
        from tui.watch.watch_screen import WatchScreen

        chosen, nodes = self.chosen_host, self._source.session.nodes
        if chosen is not None:
            node = chosen.name if chosen.name in nodes else None
            self.app.push_screen(WatchScreen(NodeSource(self._source, node)))
