"""What a person chooses of dlmon itself: how ends are told, colours, and what the keys mean."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dlmon.options.settings import HIDDEN_COLUMNS, remember
from tui.drawing.themes import theme_names
from tui.flows.stack import session_on
from tui.messages import KeepColumns, TellAlert, TellEnd
from tui.palette import keys_of
from tui.textual_internals import write_to_terminal

if TYPE_CHECKING:
    from tui.app import DlmonApp


def tell_end(app: DlmonApp, request: TellEnd) -> None:
    """Notify that a session or a sweep is over; during a sweep, only its end is notified."""
    if app.running_sweep is None:
        if app.rings_at_end:
            app.bell()
        if app.notifies_at_end:
            _notify_desktop(app, request.text)
    shown = session_on(app, request.screen)
    if shown is not None:
        shown.has_ended.set()


def tell_alert(app: DlmonApp, request: TellAlert) -> None:
    """Notify what happened to a session, where that is wanted."""
    if app.settings.alerts.desktop:
        _notify_desktop(app, request.text)


def _notify_desktop(app: DlmonApp, text: str) -> None:
    from dlmon.notification import desktop_notification, notify_send

    if not (app.settings.alerts.desktop and notify_send(text)):
        write_to_terminal(app, desktop_notification(text))


async def choose_theme(app: DlmonApp) -> None:
    """Have another theme chosen; each is shown meanwhile."""
    from tui.screens.list_dialog import ThemesScreen

    app.looks_at_themes = True
    chosen = await app.push_screen_wait(ThemesScreen(theme_names(), app.theme))
    app.looks_at_themes = False
    if chosen is not None:
        app.theme = chosen
        keep_theme(app)


def keep_theme(app: DlmonApp) -> None:
    """Remember the theme for the next start, unless it is but looked at."""
    if app.theme == app.kept_theme or app.looks_at_themes:
        return
    app.kept_theme = app.theme
    try:
        remember("theme", app.theme)
    except OSError as error:
        app.show_error(f"the theme can't be saved: {error}")


def keep_columns(app: DlmonApp, request: KeepColumns) -> None:
    """Remember which columns are out of the list of sessions."""
    try:
        remember(HIDDEN_COLUMNS, " ".join(sorted(request.hidden)))
    except OSError as error:
        app.show_error(f"the columns can't be saved: {error}")


def explain(app: DlmonApp) -> None:
    """Say what the panels and figures of the topmost screen mean, and its keys."""
    from tui.screens.help import HelpScreen

    topics = getattr(app.screen, "topics", ())
    if topics:
        keys = keys_of(app)
        known = {key for names, _ in keys for key in names.split()}
        steps = getattr(app.screen, "first_steps", ())
        first = tuple(step for step in steps if step[0][0].isupper() or step[0] in known)
        app.push_screen(HelpScreen(keys, topics, first))
