"""The base classes of all screens, and the keys that they share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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

# Less than the whole seconds that a screen shows: a late timer skips none of them.
REFRESH_S = 0.5

# A screen lists these among its own bindings, at the place where the footer shows them.
HELP = Binding("question_mark,f1", "app.help", "Help", tooltip="Explain this screen")
THEME = Binding("t", "app.change_theme", "Theme", tooltip="Choose other colours")
SESSIONS = Binding("r", "app.sessions", "Sessions", tooltip="Recorded and running sessions")
PALETTE = Binding(
    "ctrl+p", "app.command_palette", "Menu", show=False, tooltip="Search for a command"
)
QUIT = Binding("ctrl+c,ctrl+q", "app.quit", "Quit", show=False, priority=True)


LEAST_WIDTH, LEAST_HEIGHT = 60, 16


def is_too_small(size: Size) -> bool:
    """Return whether a terminal is too small for any screen."""
    return size.width < LEAST_WIDTH or size.height < LEAST_HEIGHT


class TooSmall(Static):
    """Names the size that dlmon needs; `dlmon.tcss` hides everything else.

    The app ignores all keys but those that quit, as their effect could not be seen.
    """

    def render(self) -> Content:
        width, height = self.app.size
        columns, rows = units.counted(width, "column"), units.counted(height, "row")
        return Content(
            f"This window is too small: {columns} × {rows}.\n"
            f"dlmon needs at least {LEAST_WIDTH} × {LEAST_HEIGHT}.\n"
            "Make it larger, or press Ctrl+Q to quit."
        )


def cover_without_room(screen: Screen[Any], size: Size) -> None:
    """Cover a screen with `TooSmall` if the terminal is."""
    if is_too_small(size) and not screen.query(TooSmall):
        screen.mount(TooSmall())


def hidden(key: str, action: str, description: str = "", tooltip: str = "") -> Binding:
    """Return a binding that the footer does not show."""
    return Binding(key, action, description, show=False, tooltip=tooltip)


def back(tooltip: str = "Go back") -> tuple[Binding, ...]:
    """Return the last keys of a screen that is left for the one below it."""
    leave = Binding("q", "leave", "Back", tooltip=tooltip)
    return (HELP, leave, THEME, hidden("escape", "leave", "Back"), PALETTE, QUIT)


BACK = back()


PAGE_KEYS = (
    hidden("pageup", "page(-1)", "Page up"),
    hidden("pagedown,space", "page(1)", "Page down"),
)


def topics_of(*pages: Path) -> tuple[tuple[str, str], ...]:
    """Return each heading of Markdown pages with its sentences."""
    parts = (part for page in pages for part in page.read_text("utf-8").split("### ")[1:])
    topics = (part.partition("\n") for part in parts)
    return tuple((name, " ".join(sentences.split())) for name, _, sentences in topics)


class BaseScreen(SteadyScreen[None]):
    """A screen over the whole terminal; a subclass lays out its parts in `compose_parts`."""

    HELP_PAGES: ClassVar[tuple[Path, ...]] = ()
    """Markdown pages with the topics that `?` explains."""
    USES_SENSORS_BELOW: ClassVar[bool] = False
    """This screen has no sensors, so the screen below must go on sampling."""

    exit_code: int = DONE
    """The exit code of dlmon if this is its first screen."""
    _question: QuestionScreen | None = None

    def __init__(self) -> None:
        super().__init__()
        send_short_updates(self)

    def compose(self) -> ComposeResult:
        yield from self.compose_parts()
        yield from self.compose_frame()

    def compose_parts(self) -> ComposeResult:
        raise NotImplementedError

    def compose_frame(self) -> ComposeResult:
        yield KeyFooter()

    def on_screen_resume(self) -> None:
        cover_without_room(self, self.app.size)

    @property
    def keeps_sampling(self) -> bool:
        """Return whether a covered screen goes on sampling, as the top one has no sensors."""
        top = self.app.screen
        if isinstance(top, BaseScreen):
            return top.USES_SENSORS_BELOW
        return isinstance(top, ModalScreen)

    @property
    def has_way_back(self) -> bool:
        """Return whether a screen lies below; without one, leaving this screen quits dlmon."""
        return self not in self.app.screen_stack[:1]

    @property
    def active_bindings(self) -> dict[str, ActiveBinding]:
        """The active bindings, with their current names and tooltips."""
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
        """Return the current name of an action, "" for that of its binding."""
        return "Back" if action == "leave" and self.has_way_back else ""

    def tooltip_of_action(self, action: str) -> str:
        """Return the current tooltip of an action, "" for that of its binding."""
        return ""

    WHY_NOT: ClassVar[Mapping[str, str]] = {}
    """Why an action can't be done, by its name: said if its key is pressed then."""

    def why_not(self, action: str) -> str | None:
        """Return why an action can't be done now, if a person needs to know."""
        return self.WHY_NOT.get(action)

    @property
    def first_steps(self) -> tuple[tuple[str, str], ...]:
        """Names and sentences that stand at the top of the help, a line each."""
        return ()

    @property
    def topics(self) -> tuple[tuple[str, str], ...]:
        return topics_of(*self.HELP_PAGES)

    @property
    def has_parts(self) -> bool:
        """Return whether the parts are laid out, and not yet removed."""
        return self.is_mounted and self.is_attached

    @property
    def is_showing(self) -> bool:
        """Return whether the screen is visible, perhaps behind a question or a menu."""
        # While the app ends, the screen is still attached but its parts are not.
        if not self.is_attached or not self.app.is_running:
            return False
        return self.is_active or isinstance(self.app.screen, ModalScreen)

    def ask(self, question: QuestionScreen, take: Callable[[str], None]) -> None:
        def answered(answer: str | None) -> None:
            self._question = None
            take(answer or "stay")

        self._question = question
        self.app.push_screen(question, answered)

    def withdraw_question(self) -> None:
        """Close the question that is open, as if the user chose that nothing changes."""
        if self._question is not None and self._question.is_current:
            self._question.dismiss("stay")

    def action_leave(self) -> None:
        """Go back, or quit dlmon from its first screen."""
        self.post_message(GoBack(self))


class TickingScreen(BaseScreen):
    """A screen that is painted every `REFRESH_S` while it is visible."""

    def on_mount(self) -> None:
        self.set_interval(REFRESH_S, self.timer_fired)
        self.call_after_refresh(self.tick)

    def on_resize(self) -> None:
        """Paint once all parts have their new size."""
        self.call_after_refresh(self.tick)

    def on_screen_resume(self) -> None:
        self.call_after_refresh(self.tick)

    def timer_fired(self) -> None:
        self.tick()

    def tick(self) -> None:
        if self.is_showing:
            self.paint()

    def paint(self) -> None:
        raise NotImplementedError
