"""The screen of several machines: a card for each, with what runs there and how fast."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message

from dlmon.remote.host import HostSnapshot, HostState, WatchedHost
from tui.formatting import hosts as words
from tui.formatting.machine import identity
from tui.hosts.card import shown_sessions
from tui.hosts.cards import HostCards
from tui.screens.base import HELP, PALETTE, QUIT, REFRESH_S, hidden
from tui.screens.filtered import FilteredScreen
from tui.widgets.lines import (
    BAD,
    HIGH,
    MUTED,
    PLAIN,
    STRONG,
    Lines,
    cut,
    joined,
    row_width,
    wrapped,
)
from tui.widgets.rows import TextRow

HOSTS_TOPICS: tuple[tuple[str, str], ...] = (
    (
        "Hosts",
        "A card for each machine, reached by the system's own ssh: nothing has to be installed "
        "there. Where there are many, each has a row. Enter opens the highlighted one in full.",
    ),
    (
        "GPU rows",
        "Number, utilisation over the last minute and now, memory in use, power, temperature, "
        "and who is on it.",
    ),
    (
        "free",
        "No process is on the GPU, a desktop's included, and its utilisation and its memory in "
        "use are below 5 %. Where one of these can't be read, it is not called free.",
    ),
    (
        "CPU row",
        "Utilisation of all cores over the last minute and now, memory in use, power and "
        "temperature where they are known, and the load average of a minute.",
    ),
    (
        "Sessions",
        "What dlmon trains there now: how far it is, and how fast. Tab highlights one; Enter then "
        "opens that. r lists all that was recorded there.",
    ),
    (
        "no sample since",
        "Two samples or more are missing: the figures are muted, and after 30 s they have the "
        "colour of a warning.",
    ),
    (
        "lost, not reached",
        "There is no connection. It is tried again after 1, 3, 15 and 60 s, then every 5 minutes, "
        "and at once with R.",
    ),
    (
        "needs you",
        "ssh can't go on by itself: a host key or a login has to be settled first. The card says "
        "what to do.",
    ),
    (
        "clock ahead, behind",
        "The machine's clock differs from this one's by over 2 s.",
    ),
    (
        "Order",
        "As named on the command line; o or > sorts by name, by free GPUs, by load (utilisation "
        "over the last minute), < goes back.",
    ),
)


class HostsScreen(FilteredScreen):
    """Hosts that are watched, until the user leaves; then all connections end.

    Args:
        hosts: which; they are started once the screen is shown.
    """

    CSS_PATH = "hosts.tcss"
    # Letters are commands until the filter is asked for.
    AUTO_FOCUS = ""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "Open", tooltip="Show the highlighted host, or session, in full"),
        Binding("tab", "session(1)", "Session", tooltip="Highlight the next session of the host"),
        Binding("r", "sessions", "Sessions", tooltip="What was recorded on the highlighted host"),
        Binding("slash", "filter", "Filter", key_display="/", tooltip="Show only matching hosts"),
        Binding("escape", "clear_filter", "Clear", tooltip="Clear the filter"),
        Binding(
            "o,greater_than_sign", "sort(1)", "Sort", tooltip="Sort in another way; < goes back"
        ),
        Binding("R", "retry", "Retry", tooltip="Try at once to reach what is not connected"),
        HELP,
        Binding("q", "leave", "Quit", tooltip="Leave, and end all connections"),
        hidden("escape", "leave", "Quit"),
        Binding("t,f3", "app.change_theme", "Theme", tooltip="Choose other colours"),
        PALETTE,
        QUIT,
        hidden("f6", "sort(1)", "Sort"),
        hidden("less_than_sign", "sort(-1)", "Sort in the way before"),
        hidden("shift+tab", "session(-1)", "Highlight the session before"),
        hidden("up", "move_to(0, -1)", "Host above"),
        hidden("down", "move_to(0, 1)", "Host below"),
        hidden("left", "move_to(-1, 0)", "Host on the left"),
        hidden("right", "move_to(1, 0)", "Host on the right"),
        hidden("i", "reverse_order", "Reverse", "Reverse the order"),
        hidden("pageup", "move_page(-1)", "Page up"),
        hidden("pagedown", "move_page(1)", "Page down"),
        hidden("home,ctrl+home", "move_to(0, -1000000)", "First host"),
        hidden("end,ctrl+end", "move_to(0, 1000000)", "Last host"),
    ]
    TOPICS: ClassVar[tuple[tuple[str, str], ...]] = HOSTS_TOPICS

    @dataclass
    class HostRequested(Message):
        """A host is to be shown in full."""

        host: WatchedHost

    @dataclass
    class SessionsRequested(Message):
        """All sessions of a host are to be listed."""

        host: WatchedHost

    @dataclass
    class SessionRequested(Message):
        """A session that runs on a host is to be shown.

        Attributes:
            host: the host, as ssh knows it.
            session: the session's id.
        """

        host: str
        session: str

    def __init__(self, hosts: Sequence[WatchedHost]) -> None:
        """Connect to none before the screen is shown."""
        super().__init__()
        self._hosts = list(hosts)
        self._cards = HostCards(id="cards")
        self._summary = HostsSummary(id="summary")
        self._details = HostDetails(id="details")
        self._snapshots: list[HostSnapshot] = []
        self._offered = (False, False)

    @property
    def table(self) -> HostCards:
        return self._cards

    def compose_parts(self) -> ComposeResult:
        """Lay out how many there are, the filter, the cards, and more of the highlighted one."""
        yield self._summary
        yield self.filter_field
        yield self._cards
        yield self._details

    def on_mount(self) -> None:
        """Connect once the screen is painted; repaint only what changed, as its timer has it."""
        self.tick()
        self.call_after_refresh(self._start)
        self.set_interval(REFRESH_S, self._on_timer)

    def _start(self) -> None:
        if self.is_attached:
            for host in self._hosts:
                host.start()

    async def on_unmount(self) -> None:
        """End all connections."""
        await asyncio.gather(*(host.close() for host in self._hosts))

    def _on_timer(self) -> None:
        if self.is_showing:
            self.tick()

    def on_screen_resume(self) -> None:
        """Show what came meanwhile."""
        self.tick()

    def tick(self) -> None:
        """Show the hosts as they are now."""
        self._snapshots = [host.snapshot() for host in self._hosts]
        self._cards.show(self._snapshots)
        self._summary.show(words.summary(self._snapshots), self._cards.order)
        self._show_details()
        offered = self._has_sessions, self._answers
        if offered != self._offered:
            self._offered = offered
            self.refresh_bindings()

    @property
    def _has_sessions(self) -> bool:
        """Whether a session can be highlighted on the highlighted card."""
        host = self._chosen_snapshot
        return host is not None and bool(shown_sessions(host)) and not self._cards.is_compact

    @property
    def _answers(self) -> bool:
        """Whether the highlighted host is connected."""
        host = self._chosen_snapshot
        return host is not None and host.state == HostState.CONNECTED

    def _show_details(self) -> None:
        self._details.show(self._chosen_snapshot)

    @property
    def _chosen_snapshot(self) -> HostSnapshot | None:
        name = self._cards.chosen_host
        return next((host for host in self._snapshots if host.name == name), None)

    def on_host_cards_highlighted(self) -> None:
        """Show what is highlighted, and what hosts are sorted by."""
        self._summary.show(words.summary(self._snapshots), self._cards.order)
        self._show_details()
        self.refresh_bindings()

    def on_host_cards_chosen(self) -> None:
        self.action_open()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer only what can be done with what is highlighted."""
        if action == "session":
            return self._has_sessions
        if action == "sessions":
            return self._answers
        if action == "open":
            return self._cards.chosen_host is not None and self.focused is not self.filter_field
        return super().check_action(action, parameters)

    def action_open(self) -> None:
        """Ask for the highlighted session, else for the host in full."""
        session, host = self._cards.chosen_session, self._chosen_host
        if host is None:
            return
        if session is not None:
            self.post_message(self.SessionRequested(host.name, session))
        else:
            self.post_message(self.HostRequested(host))

    def action_sessions(self) -> None:
        """Ask for the sessions that were recorded on the highlighted host."""
        if self._chosen_host is not None:
            self.post_message(self.SessionsRequested(self._chosen_host))

    @property
    def _chosen_host(self) -> WatchedHost | None:
        name = self._cards.chosen_host
        return next((host for host in self._hosts if host.name == name), None)

    def action_session(self, step: int) -> None:
        self._cards.next_session(step)

    def action_move_to(self, across: int, down: int) -> None:
        self._cards.move_to(across, down)

    def action_retry(self) -> None:
        """Try at once to reach the hosts that are not connected."""
        for host in self._hosts:
            host.retry_now()


class HostsSummary(Lines):
    """How many hosts there are and how they stand, and what they are sorted by."""

    _parts: Sequence[str] = ()
    _order = ""

    def show(self, parts: Sequence[str], order: str) -> None:
        """Show the parts of a summary, of which the first one stands out, and the order."""
        self._parts, self._order = parts, order
        self.redraw()

    def draw(self, width: int, height: int) -> list[TextRow]:
        """Return one row."""
        first, *more = self._parts or ("",)
        left: TextRow = ((first, STRONG), *((f"   {part}", PLAIN) for part in more))
        right: TextRow = ((self._order, MUTED),)
        return [joined(left, right, width, self.ellipsis)]


class HostDetails(Lines):
    """What a card has no room for: the whole problem of a host, else what the machine is."""

    _host: HostSnapshot | None = None

    def show(self, host: HostSnapshot | None) -> None:
        """Show the highlighted host."""
        self._host = host
        self.redraw()

    def draw(self, width: int, height: int) -> list[TextRow]:
        """Return as many rows as there are."""
        host = self._host
        if host is None:
            return []
        sentence, level = words.sentence_of(host), words.status_of(host)[1]
        style = {"": MUTED, "high": HIGH, "bad": BAD}[level]
        # The sentence comes first where both have no room.
        lines = wrapped(sentence, width, height, self.ellipsis)
        rows: list[TextRow] = [((line, style),) for line in lines]
        about = identity(host.facts) if host.machine is not None else []
        return [*self._about(host.name, about, width, height - len(rows)), *rows]

    def _about(self, name: str, parts: Sequence[str], width: int, most: int) -> list[TextRow]:
        """Return what a machine is in at most so many rows."""
        rows: list[TextRow] = []
        for part in parts:
            longer: TextRow = (*(rows[-1] if rows else ((name, STRONG),)), (f"   {part}", MUTED))
            if rows and row_width(longer) > width and len(rows) < most:
                rows.append(((part, MUTED),))
            else:
                rows[-1:] = [longer]
        return [cut(row, width, self.ellipsis) for row in rows][: max(0, most)]
