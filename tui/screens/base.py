"""What every screen repeats: its last row, what it needs room for, the keys that all share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from textual.app import ComposeResult
from textual.binding import ActiveBinding, Binding
from textual.content import Content
from textual.geometry import Size
from textual.screen import ModalScreen, Screen
from textual.widgets import Static

from dlmon.exit_codes import DONE
from dlmon.figures import units
from tui.messages import GoBack
from tui.textual_internals import SteadyScreen, send_short_updates
from tui.widgets.key_footer import KeyFooter

if TYPE_CHECKING:
    from tui.screens.question import QuestionScreen

# A screen shows whole seconds; a timer, which is never quite on time, is faster and misses none.
REFRESH_S = 0.5

# Each screen puts these among its own where the footer is to show them.
HELP = Binding("question_mark,f1", "app.help", "Help", tooltip="Explain this screen")
THEME = Binding("t", "app.change_theme", "Theme", tooltip="Choose other colours")
SESSIONS = Binding("r", "app.sessions", "Sessions", tooltip="Recorded and running sessions")
PALETTE = Binding(
    "ctrl+p", "app.command_palette", "Menu", show=False, tooltip="Search for a command"
)
QUIT = Binding("ctrl+c,ctrl+q", "app.quit", "Quit", show=False, priority=True)


LEAST_WIDTH, LEAST_HEIGHT = 60, 16


def is_too_small(size: Size) -> bool:
    """Return whether a terminal has no room for any screen."""
    return size.width < LEAST_WIDTH or size.height < LEAST_HEIGHT


class TooSmall(Static):
    """Says what size dlmon needs; `dlmon.tcss` shows it in place of all else.

    The app lets no key do anything meanwhile but leave: what it would change can't be seen.
    """

    def render(self) -> Content:
        """Say the size there is, the one that is needed, and the way out."""
        width, height = self.app.size
        columns, rows = units.counted(width, "column"), units.counted(height, "row")
        return Content(
            f"This window is too small: {columns} × {rows}.\n"
            f"dlmon needs at least {LEAST_WIDTH} × {LEAST_HEIGHT}.\n"
            "Make it larger, or press Ctrl+Q to quit."
        )


def cover_without_room(screen: Screen[Any], size: Size) -> None:
    """Have a screen say that there is no room for it, in a terminal of a size that has none."""
    if is_too_small(size) and not screen.query(TooSmall):
        screen.mount(TooSmall())


def hidden(key: str, action: str, description: str = "", tooltip: str = "") -> Binding:
    """Return a binding that the footer has no room for."""
    return Binding(key, action, description, show=False, tooltip=tooltip)


def topics_of(*pages: Path) -> tuple[tuple[str, str], ...]:
    """Return the topics of pages of Markdown: each heading with its sentences."""
    parts = (part for page in pages for part in page.read_text("utf-8").split("### ")[1:])
    topics = (part.partition("\n") for part in parts)
    return tuple((name, " ".join(sentences.split())) for name, _, sentences in topics)


class BaseScreen(SteadyScreen[None]):
    """A screen over the whole terminal. A subclass lays out its parts in `compose_parts`."""

    HELP_PAGES: ClassVar[tuple[Path, ...]] = ()
    """Pages of Markdown with what `?` explains."""
    USES_SENSORS_BELOW: ClassVar[bool] = False
    """Whether the screen below has to go on sampling the machine: this one has no sensors."""

    exit_code: int = DONE
    """What dlmon is left with from here, where this is its first screen."""
    _question: QuestionScreen | None = None

    def __init__(self, classes: str | None = None) -> None:
        """Lay out nothing before the screen is shown."""
        super().__init__(classes=classes)
        send_short_updates(self)

    def compose(self) -> ComposeResult:
        yield from self.compose_parts()
        yield from self.compose_frame()

    def compose_parts(self) -> ComposeResult:
        """Lay out what the screen shows."""
        raise NotImplementedError

    def compose_frame(self) -> ComposeResult:
        yield KeyFooter()

    def on_screen_resume(self) -> None:
        """Say where there is no room."""
        cover_without_room(self, self.app.size)

    @property
    def keeps_sampling(self) -> bool:
        """Whether a covered screen goes on sampling: what covers it has no sensors of its own."""
        top = self.app.screen
        if isinstance(top, BaseScreen):
            return top.USES_SENSORS_BELOW
        return isinstance(top, ModalScreen)

    @property
    def has_way_back(self) -> bool:
        """Whether another screen lies below: without one, whoever leaves this one leaves dlmon."""
        return self not in self.app.screen_stack[:1]

    @property
    def active_bindings(self) -> dict[str, ActiveBinding]:
        """What keys do now, by the names and tooltips that they have now."""
        return {
            key: self._as_it_is_now(bound) if bound.node is self else bound
            for key, bound in super().active_bindings.items()
        }

    def _as_it_is_now(self, bound: ActiveBinding) -> ActiveBinding:
        action = bound.binding.action
        if name := self.name_of_action(action):
            bound = bound._replace(binding=replace(bound.binding, description=name))
        if tooltip := self.tooltip_of_action(action):
            bound = bound._replace(tooltip=tooltip)
        return bound

    def name_of_action(self, action: str) -> str:
        """Return what one of the screen's keys does now, where that differs from its name."""
        return "Back" if action == "leave" and self.has_way_back else ""

    def tooltip_of_action(self, action: str) -> str:
        """Return what one of the screen's keys does, where that differs from its tooltip."""
        return ""

    @property
    def first_steps(self) -> tuple[tuple[str, str], ...]:
        """What `?` says before all else, in a line each."""
        return ()

    @property
    def topics(self) -> tuple[tuple[str, str], ...]:
        """What `?` explains: names and sentences."""
        return topics_of(*self.HELP_PAGES)

    @property
    def has_parts(self) -> bool:
        """Whether what it consists of is there: laid out, and not yet taken off."""
        return self.is_mounted and self.is_attached

    @property
    def is_showing(self) -> bool:
        """Whether the screen is seen, be it behind a question or a menu."""
        # While the app ends, the screen is still there but its parts are not.
        if not self.is_attached or not self.app.is_running:
            return False
        return self.is_active or isinstance(self.app.screen, ModalScreen)

    def ask(self, question: QuestionScreen, take: Callable[[str], None]) -> None:
        """Ask something over this screen, and have the answer taken."""

        def answered(answer: str | None) -> None:
            self._question = None
            take(answer or "stay")

        self._question = question
        self.app.push_screen(question, answered)

    def withdraw_question(self) -> None:
        """Ask no more what is still asked: nothing is to change."""
        if self._question is not None and self._question.is_current:
            self._question.dismiss("stay")

    def action_leave(self) -> None:
        """Go back, or leave dlmon where this is all there is."""
        self.post_message(GoBack(self))


class TickingScreen(BaseScreen):
    """A screen that is painted once or twice a second, be it behind a question or a menu."""

    def on_mount(self) -> None:
        self.set_interval(REFRESH_S, self.timer_fired)
        self.call_after_refresh(self.tick)

    def on_resize(self) -> None:
        """Draw for the new size once all parts have theirs."""
        self.call_after_refresh(self.tick)

    def on_screen_resume(self) -> None:
        self.call_after_refresh(self.tick)

    def timer_fired(self) -> None:
        self.tick()

    def tick(self) -> None:
        """Paint where that can be seen."""
        if self.is_showing:
            self.paint()

    def paint(self) -> None:
        raise NotImplementedError
