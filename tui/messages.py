"""What a screen asks of the app: it posts one of these messages, and a flow answers it."""

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
    from dlmon.remote.host import WatchedHost
    from dlmon.remote.host_replay import HostReplay, RecordedHost
    from dlmon.session.source import SessionSource
    from workloads.catalog import Workload

ExportFormat = Literal["html", "markdown", "picture"]
"""What sessions are handed on as: a report, text for the clipboard, or the screen as an image."""


@dataclass_transform(eq_default=False)
class Request(Message):
    """Base of what a screen asks for: its fields are given as those of a dataclass are.

    To make dataclasses of all of these would take two milliseconds of every start.
    """

    def __init__(self, *values: Any, **named: Any) -> None:
        super().__init__()
        of_ours = [cls for cls in reversed(type(self).__mro__) if issubclass(cls, Request)]
        names = [name for cls in of_ours for name in get_annotations(cls)]
        vars(self).update(zip(names, values, strict=False), **named)


class GoBack(Request):
    """The person wants to leave a screen, and was asked whatever there was to ask."""

    screen: Screen[Any]


class TellEnd(Request):
    """Tell that a session or a sweep is over: how, and how fast it was."""

    screen: Screen[Any]
    text: str


class TellAlert(Request):
    """Tell what happened to a session."""

    text: str


class Train(Request):
    """Train a workload."""

    workload: Workload
    options: RunOptions


class TrainSeveral(Train):
    """Ask what is to be varied, and train a workload several times."""


class TrainAgain(Request):
    """Launch what the topmost session ran once more, in its place."""


class ShowSession(Request):
    """Show a recorded session of this machine."""

    log: Path


class ShowHostSession(Request):
    """Show a session of another machine.

    Attributes:
        host: the machine, as ssh knows it.
        session: the session's id.
        log_dir: where sessions live there; None for where they do by default.
    """

    host: str
    session: str
    log_dir: str | None = None


class ShowSweptSession(Request):
    """Show a session of a sweep.

    Attributes:
        log: where it is recorded, on this machine.
        host: the machine that it is on, as ssh knows it; None for this one.
        session: its id.
        is_running: whether it still runs.
    """

    log: Path
    host: str | None = None
    session: str = ""
    is_running: bool = False


class ShowSweep(Request):
    """Show a recorded sweep, and go on with it."""

    path: Path


class Compare(Request):
    """Compare the sessions of one side with those of the other."""

    base: Sequence[Path]
    new: Sequence[Path]


class ShowMetrics(Request):
    """Show every metric of some sessions over each other."""

    logs: Sequence[Path]


class Replay(Request):
    """Show a session again as it ran; several at once."""

    logs: Sequence[Path]


class ReplayHost(Request):
    """Play one of several machines in full."""

    replay: HostReplay
    host: RecordedHost


class Export(Request):
    """Hand on what a screen shows, or a report of sessions."""

    format: ExportFormat
    logs: Sequence[Path]


class Rename(Request):
    """Call a session or a sweep otherwise, or note something else of it."""

    log: Path
    label: Label


class KeepColumns(Request):
    """Keep which columns are out of the list of sessions."""

    hidden: frozenset[str]


class Delete(Request):
    """Delete sessions and sweeps; that was asked."""

    logs: Sequence[Path]


class WatchHosts(Request):
    """Watch hosts, and groups of them, in place of the choice."""

    words: tuple[str, ...]


class ShowHost(Request):
    """Show a host in full."""

    host: WatchedHost


class ShowNodes(Request):
    """Show the machines of a run, a card each."""

    source: SessionSource


class ListHostSessions(Request):
    """List what was recorded on a host."""

    host: WatchedHost
