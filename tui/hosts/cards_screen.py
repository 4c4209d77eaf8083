"""The screen of cards of several machines, be they watched or played from their recordings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from textual.app import ComposeResult
from textual.binding import BindingType

from dlmon.figures import hosts as words
from dlmon.figures.machine import identity
from dlmon.remote.host import HostSnapshot, RunningSession
from tui.hosts.card import STATUS_STYLES
from tui.hosts.cards import HostCards
from tui.screens.base import TickingScreen, hidden
from tui.screens.filtered import REVERSE, SORT_KEYS, FilteredScreen
from tui.widgets.lines import MUTED, PLAIN, STRONG, Lines, in_rows, joined, shows, wrapped
from tui.widgets.rows import TextRow

MOVES: tuple[BindingType, ...] = (
    *SORT_KEYS,
    hidden("up", "move_to(0, -1)", "Host above"),
    hidden("down", "move_to(0, 1)", "Host below"),
    hidden("left", "move_to(-1, 0)", "Host on the left"),
    hidden("right", "move_to(1, 0)", "Host on the right"),
    replace(REVERSE, show=False),
    hidden("pageup", "move_page(-1)", "Page up"),
    hidden("pagedown", "move_page(1)", "Page down"),
)


class CardsScreen(FilteredScreen, TickingScreen):
    """Machines, a card each, one of them highlighted."""

    CSS_PATH = "hosts.tcss"
    # Letters are commands until the filter is asked for.
    AUTO_FOCUS = ""

    def __init__(self) -> None:
        """Show nothing before the screen is shown."""
        super().__init__()
        self._cards = HostCards(id="cards")
        self._summary = HostsSummary(id="summary")
        self._details = HostDetails(id="details")
        self._snapshots: Sequence[HostSnapshot] = ()

    @property
    def table(self) -> HostCards:
        return self._cards

    def compose_parts(self) -> ComposeResult:
        """Lay out how many there are, the filter, the cards, and more of the highlighted one."""
        yield self._summary
        yield self.filter_field
        yield self._cards
        yield self._details

    def show_hosts(self, snapshots: Sequence[HostSnapshot]) -> None:
        """Show the machines as they are at one moment."""
        self._snapshots = snapshots
        self._cards.show(snapshots)
        self._show_more()

    def _show_more(self) -> None:
        """Show how the hosts stand together, and what is highlighted."""
        if not self._snapshots:
            return
        shown = words.summary(self._cards.shown_hosts, among=len(self._snapshots))
        self._summary.show(shown, self.remark)
        self._details.show(self.chosen_snapshot, self._session_in_row)

    @property
    def remark(self) -> str:
        """What stands at the end of the summary."""
        return self._cards.order

    @property
    def chosen_snapshot(self) -> HostSnapshot | None:
        """The highlighted host; None where none is shown."""
        name = self._cards.chosen_host
        return next((host for host in self._snapshots if host.name == name), None)

    @property
    def _session_in_row(self) -> RunningSession | None:
        """The highlighted session, where its host has but a row, in which it has little room."""
        host, id = self.chosen_snapshot, self._cards.chosen_session
        if host is None or not self._cards.is_compact:
            return None
        return next((each for each in host.sessions or () if each.session == id), None)

    def on_host_cards_highlighted(self) -> None:
        """Show what is highlighted, and what hosts are sorted by."""
        self._show_more()
        self.refresh_bindings()

    def on_host_cards_chosen(self) -> None:
        self.action_open()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer only what can be done with what is highlighted."""
        if action == "open":
            return self._cards.chosen_host is not None and self.focused is not self.filter_field
        return super().check_action(action, parameters)

    def action_open(self) -> None:
        """Ask for what is highlighted, in full."""
        raise NotImplementedError

    def action_move_to(self, across: int, down: int) -> None:
        self._cards.move_to(across, down)


class HostsSummary(Lines):
    """How many hosts there are and how they stand, and what they are sorted by."""

    def rows(self, width: int, height: int, parts: Sequence[str], order: str) -> list[TextRow]:
        """Return the parts of a summary, of which the first one stands out, and the order."""
        first, *more = parts or ("",)
        left: TextRow = ((first, STRONG), *((f"   {part}", PLAIN) for part in more))
        return [joined(left, ((order, MUTED),), width)]

    show = shows(rows)


class HostDetails(Lines):
    """What a card has no room for: the whole problem of a host, else what the machine is."""

    def rows(
        self,
        width: int,
        height: int,
        host: HostSnapshot | None,
        session: RunningSession | None = None,
    ) -> list[TextRow]:
        """Return the highlighted host, or what is known of a session that has no row of its own."""
        if host is None:
            return []
        sentence, style = words.sentence_of(host), STATUS_STYLES[words.status_of(host)[1]]
        # The sentence comes first where both have no room.
        rows: list[TextRow] = [((line, style),) for line in wrapped(sentence, width, height)]
        about = identity(host.facts) if host.machine is not None else []
        if session is not None:
            about = words.session_parts(session)
        return [*in_rows(host.name, about, width, height - len(rows)) * bool(about), *rows]

    show = shows(rows)
