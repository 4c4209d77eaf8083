"""The requests that screens post to the app; `tui.flows` handles them."""

from __future__ import annotations

from collections.abc import Sequence
from inspect import get_annotations
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, dataclass_transform

from textual.message import Message
from textual.screen import Screen

if TYPE_CHECKING:
    from dlmon.log.label import Label
    from dlmon.options.run_options import RunOptions
    from dlmon.options.script import ScriptRun
    from dlmon.remote.host import WatchedHost
    from dlmon.remote.host_replay import HostReplay, RecordedHost
    from dlmon.session.source import SessionSource
    from workloads.catalog import Workload

ExportFormat = Literal["html", "markdown", "picture"]
"""An HTML report, Markdown for the clipboard, or the screen as an image."""


@dataclass_transform(eq_default=False)
class Request(Message):
    """Base of all requests, which take their fields as dataclasses do.

    Real dataclasses would add two milliseconds to every start.
    """

    def __init__(self, *values: Any, **named: Any) -> None:
        super().__init__()
        classes = [cls for cls in reversed(type(self).__mro__) if issubclass(cls, Request)]
        names = [name for cls in classes for name in get_annotations(cls)]
        vars(self).update(zip(names, values, strict=False), **named)


class GoBack(Request):
    """Leave a screen, without a further question."""

    screen: Screen[Any]


class NotifyEnd(Request):
    """Notify that a session or a sweep has ended; `text` says how."""

    screen: Screen[Any]
    text: str


class NotifyAlert(Request):
    """Notify of an alert of a session."""

    text: str


class Train(Request):
    """Train a workload."""

    workload: Workload
    options: RunOptions


class TrainSeveral(Train):
    """Ask which options to vary, and train a workload several times."""


class RunScript(Request):
    """Run a script, or ask for one first."""

    script: ScriptRun | None = None


class TrainAgain(Request):
    """Launch the run of the top session again, in its place."""


class ShowSession(Request):
    """Show a recorded session of this machine."""

    log: Path


class ShowHostSession(Request):
    """Show a session of another host.

    Attributes:
        host: the host's ssh name.
        session: the session's id.
        log_dir: the log directory there; None for the default.
    """

    host: str
    session: str
    log_dir: str | None = None


class ShowSweptSession(Request):
    """Show a session of a sweep.

    Attributes:
        log: its log on this machine.
        host: the ssh name of its host; None for this machine.
        session: its id.
        is_running: whether it still runs.
    """

    log: Path
    host: str | None = None
    session: str = ""
    is_running: bool = False


class ShowSweep(Request):
    """Resume a recorded sweep, or show it if it runs."""

    path: Path


class Compare(Request):
    """Compare the sessions of one side with those of the other."""

    base: Sequence[Path]
    new: Sequence[Path]


class ShowMetrics(Request):
    """Show a chart of each metric, in which each of the sessions has a line."""

    logs: Sequence[Path]


class Replay(Request):
    """Replay a session, or several at once."""

    logs: Sequence[Path]


class ReplayHost(Request):
    """Replay one of several hosts in full."""

    replay: HostReplay
    host: RecordedHost


class Export(Request):
    """Export the screen, or a report of sessions."""

    format: ExportFormat
    logs: Sequence[Path]


class Rename(Request):
    """Change the name and the note of a session or a sweep."""

    log: Path
    label: Label


class Delete(Request):
    """Delete sessions and sweeps, without a further question."""

    logs: Sequence[Path]


class WatchHosts(Request):
    """Watch hosts, in place of the picker.

    Attributes:
        words: names of hosts and of groups of hosts.
    """

    words: tuple[str, ...]


class ShowNodes(Request):
    """Show the hosts of a run, a card each."""

    source: SessionSource


class ListHostSessions(Request):
    """List the sessions of a host."""

    host: WatchedHost
