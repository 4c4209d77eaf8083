"""Notifications, the theme, and the help."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dlmon.options.settings import remember
from tui.drawing.themes import theme_names
from tui.messages import NotifyAlert, NotifyEnd
from tui.palette import keys_of
from tui.textual_internals import write_to_terminal

if TYPE_CHECKING:
    from tui.base_app import BaseApp


def notify_end(app: BaseApp, request: NotifyEnd) -> None:
    """Notify that a session or a sweep has ended; during a sweep, not of its sessions."""
    if app.running_sweep is None:
        if app.rings_at_end:
            app.bell()
        if app.notifies_at_end:
            _notify_desktop(app, request.text)


def notify_alert(app: BaseApp, request: NotifyAlert) -> None:
    """Notify of an alert, if desktop notifications of alerts are on."""
    if app.settings.alerts.desktop:
        _notify_desktop(app, request.text)


def _notify_desktop(app: BaseApp, text: str) -> None:
    from dlmon.notification import desktop_notification, notify_send

    if not (app.settings.alerts.desktop and notify_send(text)):
        write_to_terminal(app, desktop_notification(text))


async def choose_theme(app: BaseApp) -> None:
    """Let the user preview and choose a theme."""
    from tui.screens.list_dialog import ThemesScreen

    app.previews_themes = True
    theme = await app.push_screen_wait(ThemesScreen(theme_names(), app.theme))
    app.previews_themes = False
    if theme is not None:
        app.theme = theme
        save_theme(app)


def save_theme(app: BaseApp) -> None:
    """Remember the theme for the next start, unless it is a preview."""
    if app.theme == app.saved_theme or app.previews_themes:
        return
    app.saved_theme = app.theme
    try:
        remember("theme", app.theme)
    except OSError as error:
        app.show_error(f"the theme can't be saved: {error}")


def explain(app: BaseApp) -> None:
    """Show the help of the top screen."""
    from tui.screens.help import HelpScreen

    topics = getattr(app.screen, "topics", ())
    if topics:
        steps = getattr(app.screen, "first_steps", ())
        app.push_screen(HelpScreen(keys_of(app), topics, steps))
