"""The forms of the home screen: the options of a run, and the command line of a script."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from rich.cells import cell_len
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.content import Content
from textual.events import DescendantBlur, DescendantFocus
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input, Static

from dlmon.alerts.alert_settings import EXAMPLE, AlertSettings
from dlmon.figures import units
from dlmon.figures.sections import as_sentence
from dlmon.options.option import NO, YES, Option, as_text
from dlmon.options.read import TypedOptions, read_options
from dlmon.options.run_options import OPTIONS, RunOptions
from dlmon.options.script import ScriptRun, UnreadableScript, read_script, shell_command
from dlmon.records import MachineFacts
from dlmon.records.sanitize import clean, shown_path
from tui.screens.form import REPEAT_HINT, Field, FormScreen
from tui.widgets.lines import ACCENT, MUTED, PLAIN, Lines, TextRow, fit
from tui.widgets.text_field import TextField
from workloads.catalog import Workload

_ARROW_WIDTH = 2


class Choice(Lines, can_focus=True):
    """A field that shows one of several values, each with its text, between arrows.

    At first it may show another one.
    """

    DEFAULT_CSS = """
    Choice {
        height: 1;
        background: $surface;
        pointer: pointer;
        &:focus { background-tint: $foreground 5%; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("right,space", "go(1)", "Next value", show=False),
        Binding("left", "go(-1)", "Previous value", show=False),
    ]

    class ValueChosen(Message):
        """The user chose another value."""

    def __init__(
        self,
        values: Sequence[tuple[str, str]],
        chosen: str,
        *,
        id: str | None = None,
        tooltip: str | None = None,
    ) -> None:
        super().__init__(id=id)
        self.tooltip = tooltip
        self.value = chosen
        self._values: list[tuple[str, str]] = []
        self.offer(values)

    def offer(self, values: Sequence[tuple[str, str]]) -> None:
        """Offer other values; the chosen one stays, even if it is not among them."""
        self._values = [*values]
        if self.value not in dict(values):
            self._values.append((self.value, self.value))
        self.redraw()

    def draw(self, width: int, height: int) -> list[TextRow]:
        text = dict(self._values)[self.value]
        room = width - 2 * _ARROW_WIDTH
        text = fit(text, room) if cell_len(text) > room else text
        arrows = ACCENT if self.has_focus else MUTED
        return [(("◂ ", arrows), (text, PLAIN), (" ▸", arrows))]

    def choose(self, value: str) -> None:
        if value != self.value and value in dict(self._values):
            self.value = value
            self.redraw()
            self.post_message(self.ValueChosen())

    def action_go(self, steps: int) -> None:
        values = [value for value, _ in self._values]
        self.choose(values[(values.index(self.value) + steps) % len(values)])

    def watch_has_focus(self, has_focus: bool) -> None:
        """Draw the arrows in another style while the field has the focus."""
        super().watch_has_focus(has_focus)
        self.redraw()

    def on_click(self, event: events.Click) -> None:
        """Choose the previous value at the left arrow, else the next one."""
        self.action_go(-1 if event.x < _ARROW_WIDTH else 1)


_TITLE, _IF_CHANGED = "Options", " ─ ctrl+r resets them"
_IN_VIEW = ("device", "batch_size", "epochs", "steps", "precision", "data")
"""The options that are shown at first."""


class RunForm(Container):
    """A field for every option; an empty field shows the default as its placeholder."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down", "screen.next_panel", "Next option", show=False, priority=True),
        Binding("up", "screen.previous_panel", "Previous option", show=False, priority=True),
    ]

    class Edited(Message):
        """The user changed a field, or moved the focus."""

    def __init__(self, configured: RunOptions) -> None:
        super().__init__(id="options", classes="panel")
        self._configured = configured
        self._workload: Workload | None = None
        self._devices = device_choices(MachineFacts())
        self._fields: dict[str, TextField | Choice] = {}
        self._labels: dict[str, Static] = {}
        further = f"{len(OPTIONS) - len(_IN_VIEW)} more"
        self.more = Choice([("", further), (YES, further)], "", id="more")
        self.border_title = _TITLE

    def compose(self) -> ComposeResult:
        for option in sorted(OPTIONS.values(), key=lambda option: option.name not in _IN_VIEW):
            label, field = Static(Content(f"  {option.label}")), self._new_field(option)
            self._labels[option.name], self._fields[option.name] = label, field
            label.display = field.display = option.name in _IN_VIEW
            yield label
            yield field
        yield Static()
        yield self.more

    def on_mount(self) -> None:
        self._show_placeholders()
        self.post_message(self.Edited())

    @property
    def stops(self) -> list[Widget]:
        """The fields in view, which Tab goes through."""
        return [field for field in (*self._fields.values(), self.more) if field.display]

    def show_all(self) -> None:
        """Show all fields, and go to the first of those that were hidden."""
        if not self.more.display:
            return
        for widget in self.children:
            widget.display = True
        self.more.display = False
        self.screen.set_focus(self.stops[len(_IN_VIEW)])

    @property
    def typed(self) -> TypedOptions:
        """The options as typed, with their errors."""
        texts = {name: field.value for name, field in self._fields.items()}
        return read_options(texts, self._configured)

    @property
    def is_changed(self) -> bool:
        return any(self._fields[name].value != self._default(name) for name in self._fields)

    def reset(self) -> None:
        for name, field in self._fields.items():
            if isinstance(field, Choice):
                field.choose(self._default(name))
            else:
                field.value = self._default(name)
        self._show_hint()

    def _default(self, name: str) -> str:
        is_choice = isinstance(self._fields[name], Choice)
        return as_text(getattr(self._configured, name)) if is_choice else ""

    @property
    def focused_option(self) -> str | None:
        focused = self.screen.focused if self.is_attached else None
        return focused.id if focused is not None and focused.parent is self else None

    def show_defaults(self, workload: Workload) -> None:
        self._workload = workload
        self._put_title()
        self._show_placeholders()

    def show_devices(self, machine: MachineFacts) -> None:
        self._devices = device_choices(machine)
        field = self._fields.get("device")
        if isinstance(field, Choice):
            field.offer(self._devices)

    def mark(self, problems: Mapping[str, str]) -> None:
        for option in OPTIONS.values():
            label, wrong = self._labels.get(option.name), option.name in problems
            if label is not None and label.has_class("-wrong") != wrong:
                label.update(Content(f"{'!' if wrong else ' '} {option.label}"), layout=False)
                label.set_class(wrong, "-wrong")

    def focus_option(self, name: str) -> None:
        if name in self._fields:
            if not self._fields[name].display:
                self.show_all()
            self._fields[name].focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        self._take_change()

    def on_choice_value_chosen(self, event: Choice.ValueChosen) -> None:
        event.stop()
        if self.more.value:
            self.show_all()
        self._show_hint()
        self._take_change()

    def _take_change(self) -> None:
        self._put_title()
        self.post_message(self.Edited())

    def _put_title(self) -> None:
        whose = f"{_TITLE} of {self._workload.name}" if self._workload is not None else _TITLE
        title = f"{whose}{_IF_CHANGED if self.is_changed else ''}"
        if self.border_title != title:
            self.border_title = title

    def _show_hint(self) -> None:
        """Explain the field that has the focus, or its chosen value."""
        name = self.focused_option
        option = OPTIONS.get(name or "")
        hint = "" if option is None else option.hint_for(self._fields[option.name].value)
        if self.border_subtitle != hint:
            self.border_subtitle = hint

    def on_descendant_focus(self, event: DescendantFocus) -> None:
        self._show_hint()
        self.post_message(self.Edited())

    def on_descendant_blur(self, event: DescendantBlur) -> None:
        self.border_subtitle = ""
        self.post_message(self.Edited())

    def _new_field(self, option: Option) -> TextField | Choice:
        values: Sequence[tuple[str, str]] = [(word, word) for word in option.choices]
        if option.name == "device":
            values = self._devices
        elif option.is_switch:
            values = [(NO, NO), (YES, option.yes)]
        if not values:
            return TextField(id=option.name, tooltip=option.help)
        chosen = as_text(getattr(self._configured, option.name))
        return Choice(values, chosen, id=option.name, tooltip=option.help)

    def _show_placeholders(self) -> None:
        for name, field in self._fields.items():
            if isinstance(field, TextField) and self._workload is not None:
                configured = getattr(self._configured, name)
                field.placeholder = OPTIONS[name].placeholder(configured, self._workload)


def device_choices(machine: MachineFacts) -> Sequence[tuple[str, str]]:
    """Return the devices of a machine, each with its text."""
    gpus = [
        (f"gpu:{gpu.index}", f"gpu:{gpu.index} {units.device(gpu.name).removeprefix('NVIDIA ')}")
        for gpu in machine.gpus or ()
    ]
    every = [("gpu:all", f"gpu:all {len(gpus)} GPUs")] * (len(gpus) > 1)
    return [("auto", "auto"), ("cpu", "cpu"), *gpus, *every]


_EXAMPLE = "python train.py --epochs 3"
_FIELDS = (
    Field(
        "command",
        "Command",
        _EXAMPLE,
        hint="as you type it in a shell; the script stays as it is",
    ),
    Field("directory", "Directory", hint="where the command runs"),
    Field(
        "name",
        OPTIONS["name"].label,
        "none  (a name helps to find the session)",
        hint="what lists call the session",
    ),
    Field("repeat", "Repeat", "1  (three or more show how much runs differ)", hint=REPEAT_HINT),
    Field(
        "alert",
        OPTIONS["alert"].label,
        f"none  (an address, such as {EXAMPLE})",
        hint="by default it gets a message when the run ends, stalls or slows down",
    ),
)


class ScriptForm(FormScreen[ScriptRun]):
    """Five fields, with the last script in them; answers with the script to run, or None.

    ↑ and ↓ in the field of the command go through the earlier ones.
    """

    SUBMIT = "Run"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "earlier(1)", "Earlier commands", key_display="↑", priority=True),
        Binding("down", "earlier(-1)", "Later command", show=False, priority=True),
    ]

    def __init__(
        self, last: ScriptRun | None, earlier: Sequence[str], alerts: AlertSettings
    ) -> None:
        command, directory, *others, alert = _FIELDS
        if alerts.chosen(None) is not None:
            alert = alert._replace(placeholder="as in config.toml")
        directory = directory._replace(placeholder=str(shown_path(Path.cwd())))
        self._earlier = ("", *earlier) if last is None else tuple(earlier)
        self._at = 0
        if last is not None:
            command = command._replace(value=shlex.join(last.command))
            directory = directory._replace(value=last.directory or "")
        super().__init__("My script", (command, directory, *others, alert))

    def read(
        self, typed: dict[str, str], submitted: bool
    ) -> tuple[ScriptRun | None, str, Mapping[str, str]]:
        line = f"$ {clean(shell_command({**typed, 'command': typed['command'] or _EXAMPLE}))}"
        try:
            run = read_script(typed)
        except UnreadableScript as error:
            if error.field == "command" and not submitted:
                return None, line, {}
            return None, line, {error.field: as_sentence(clean(str(error)))}
        if run is not None:
            return run, f"$ {clean(run.command_line)}", {}
        problem = f"Type what is to be run, such as {_EXAMPLE}."
        return None, line, {"command": problem} if submitted else {}

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer earlier commands in the field of the command, if there are any."""
        is_there = self.focused is not None and self.focused.id == "command"
        if action == "earlier":
            return is_there and len(self._earlier) > 1
        return super().check_action(action, parameters)

    def action_earlier(self, steps: int) -> None:
        field = self.query_one("#command", TextField)
        self._at = max(0, min(self._at + steps, len(self._earlier) - 1))
        field.value = self._earlier[self._at]
        field.cursor_position = len(field.value)
