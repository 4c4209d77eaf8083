"""Play, compare, export, rename and delete recorded sessions."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from dlmon.log.folder import LogError, id_of
from dlmon.records.sanitize import shown_path
from tui.flows.stack import read_sessions, read_sessions_for_home
from tui.messages import Compare, Delete, Export, Rename, Replay, ReplayHost, ShowMetrics

if TYPE_CHECKING:
    from textual.screen import Screen

    from dlmon.figures.report.report import Report
    from dlmon.metric_files.file_session import FileSource
    from dlmon.metric_files.find import FoundRun
    from dlmon.remote.host_replay import HostReplay
    from dlmon.session.follower import SessionFollower
    from dlmon.session.replay import ReplaySource
    from dlmon.session.run_figures import OnRead
    from tui.base_app import BaseApp
    from tui.hosts.hosts_screen import HostReplayScreen
    from tui.live.replay_screen import ReplayScreen
    from tui.metrics.metrics_screen import MetricsScreen


def replay(app: BaseApp, request: Replay) -> None:
    """Play a recorded or running session, or several at once."""
    screen: Screen[None]
    try:
        if len(request.logs) == 1:
            screen = replay_screen(app, app.sources.replay(request.logs[0]))
        else:
            screen = host_replay_screen(app.sources.host_replay(request.logs, None))
    except LogError as error:
        app.show_error(str(error))
    else:
        app.push_screen(screen)


def replay_screen(app: BaseApp, source: ReplaySource) -> ReplayScreen:
    """Return the screen that plays a session."""
    from dlmon.log.label import read_label
    from tui.live.replay_screen import ReplayScreen

    screen = ReplayScreen(source, lambda: read_label(source.path), references=app.references)
    read_sessions(app, source.directory, screen.show_entries)
    return screen


def host_replay_screen(replay: HostReplay) -> HostReplayScreen:
    """Return the screen that plays several hosts at once."""
    from tui.hosts.hosts_screen import HostReplayScreen

    return HostReplayScreen(replay)


def replay_host(app: BaseApp, request: ReplayHost) -> None:
    """Play one of several hosts in full, while the others wait."""
    from tui.live.replay_screen import ReplayScreen

    app.push_screen(ReplayScreen(request.replay.lend(request.host), closes=False))


def compare(app: BaseApp, request: Compare) -> None:
    """Compare two sides of recorded sessions."""
    from tui.compare.compare_screen import CompareScreen

    app.push_screen(CompareScreen(request.base, request.new))


def show_metrics(app: BaseApp, request: ShowMetrics) -> None:
    """Show every metric of recorded or running sessions over each other."""
    try:
        app.push_screen(metrics_screen(app, request.logs))
    except LogError as error:
        app.show_error(str(error))


def metrics_screen(
    app: BaseApp, logs: Sequence[Path], found: Sequence[FoundRun] = ()
) -> MetricsScreen:
    """Return the screen of the metrics of sessions, and of runs of other programs.

    Raises:
        LogError: a log can't be read.
    """
    from dlmon.figures.lists.session_list import call_text
    from dlmon.figures.report.curves import names_by_difference
    from dlmon.log.label import read_label
    from dlmon.metric_files.file_session import FileSource
    from tui.metrics.metrics_screen import MetricsScreen

    followers: list[SessionFollower] = []
    try:
        for log in logs:
            followers.append(app.sources.follow(log))
    except LogError:
        _close_all(followers)
        raise
    headers = [follower.session.header for follower in followers]
    labels = [read_label(follower.path) for follower in followers]
    names = [label.name or call_text(h) for label, h in zip(labels, headers, strict=True)]
    if len(followers) > 1:
        names = names_by_difference(headers, [label.name for label in labels])
    files = [FileSource(run) for run in found]
    names += [run.name for run in found]
    screen = MetricsScreen([*followers, *files], names, reads=True)
    app.cleanups[screen] = partial(_close_all, [*followers, *files])
    return screen


def _close_all(sources: Sequence[SessionFollower | FileSource]) -> None:
    for source in sources:
        source.close()


async def export(app: BaseApp, request: Export) -> None:
    """Export sessions or the screen, and say where the result is."""
    if request.format == "picture":
        # After the question is gone from the screen.
        app.call_after_refresh(save_picture, app)
    elif not request.logs:
        app.show_error("there is no session to report: choose one")
    elif request.format == "html":
        await _write_report(app, request.logs)
    else:
        await _copy_markdown(app, request.logs)


def save_picture(app: BaseApp) -> None:
    """Save the screen, without notifications, as an SVG file in the working directory."""
    app.clear_notifications()
    app.call_after_refresh(_save_picture, app)


def _save_picture(app: BaseApp) -> None:
    path = _new_path("dlmon", "svg")
    picture = app.export_screenshot(title="dlmon")
    try:
        path.write_text(picture, encoding="utf-8")
    except OSError as error:
        app.show_error(f"the picture can't be saved here: {error.strerror}")
    else:
        app.show_notice(_saved(path))


async def _write_report(app: BaseApp, logs: Sequence[Path]) -> None:
    """Write an HTML report of sessions into the working directory."""
    from dlmon.render.files import write_file
    from dlmon.render.html import html_of

    path = _new_path("dlmon-report", "html")
    if await _report(app, logs, lambda report: write_file(path, [html_of(report)])):
        app.show_notice(_saved(path))


async def _copy_markdown(app: BaseApp, logs: Sequence[Path]) -> None:
    """Copy a Markdown report of sessions to the terminal's clipboard."""
    from dlmon.render.markdown import markdown_of

    texts: list[str] = []
    if await _report(app, logs, lambda report: texts.append(markdown_of(report))):
        app.copy_to_clipboard(texts[0])
        subject = id_of(logs[0]) if len(logs) == 1 else f"{len(logs)} sessions"
        app.show_notice(
            f"Markdown of {subject} was sent to the terminal's clipboard; where it doesn't take "
            "that, dlmon report prints the same"
        )


async def _report(app: BaseApp, logs: Sequence[Path], use: Callable[[Report], object]) -> bool:
    """Make and use a report in a thread; return whether that succeeded."""
    from dlmon.figures.report.report import make_report
    from dlmon.render.files import ReportError
    from tui.screens.starting import read_in_thread

    def make(on_read: OnRead) -> None:
        use(make_report(logs, (), on_read=on_read))

    app.show_notice("reading the sessions for the report …")
    try:
        await read_in_thread(make, lambda share: None)
    except (ReportError, LogError) as error:
        app.show_error(str(error))
        return False
    return True


def rename(app: BaseApp, request: Rename) -> None:
    """Write the label of a session or a sweep, and show it."""
    from dlmon.sweep.log import relabel

    try:
        relabel(request.log, request.label)
    except LogError as error:
        app.show_error(str(error))
    _show_recordings_again(app)


async def delete(app: BaseApp, request: Delete) -> None:
    """Delete recordings, and show the remaining ones."""
    from dlmon.log.prune import remove

    problems = []
    for log in request.logs:
        # The lock of a sweep does not stop the process that holds it.
        if any(run.path == log and not run.ended for run in app.sweeps):
            problems.append(f"{id_of(log)} is running: stop it first")
            continue
        try:
            await asyncio.to_thread(remove, log)
        except LogError as error:
            problems.append(str(error))
    _show_recordings_again(app)
    if problems:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        app.show_error(problems[0] + more)


def _show_recordings_again(app: BaseApp) -> None:
    """Refresh the screens that list recordings."""
    from tui.sessions.sessions_screen import SessionsScreen

    for screen in app.screen_stack:
        if isinstance(screen, SessionsScreen):
            screen.action_refresh()
    read_sessions_for_home(app)


def _new_path(name: str, suffix: str) -> Path:
    """Return a file name with the current time, in the working directory."""
    return Path(f"{name}-{time.strftime('%Y%m%d-%H%M%S')}.{suffix}")


def _saved(path: Path) -> str:
    return f"saved {shown_path(path.absolute())}"
