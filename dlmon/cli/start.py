"""The content of the first screen, and the sources of all screens."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dlmon.options.settings import Settings
from dlmon.records.record import record
from dlmon.session.source import MachineSource

# Each is imported when it is first used, to keep the start short.
if TYPE_CHECKING:
    from dlmon.launch.supervisor_process import SupervisorProcess
    from dlmon.metric_files.find import FoundRun
    from dlmon.protocol.job import Job, RemoteStart
    from dlmon.remote.connection import Connection
    from dlmon.remote.host import WatchedHost
    from dlmon.remote.host_replay import HostReplay
    from dlmon.session.follower import SessionFollower
    from dlmon.session.replay import ReplaySource
    from dlmon.sweep.runner import SweepRun
    from dlmon.sweep.tries import TryRun


def _lazy(module: str, name: str) -> Callable[..., Any]:
    """Return a function that imports `name` from a module and calls it."""

    def call(*arguments: Any, **keywords: Any) -> Any:
        return getattr(import_module(f"dlmon.{module}"), name)(*arguments, **keywords)

    return call


def _follow(path: Path, **keywords: Any) -> SessionFollower:
    """Return the follower of a session's log, in a Slurm job or not.

    Raises:
        LogError: the log can't be read.
    """
    from dlmon.log.submitted import is_of_slurm

    # Only sessions of Slurm need its modules.
    if is_of_slurm(path):
        from dlmon.slurm.job_follower import follow_session as follow
    else:
        from dlmon.session.follower import SessionFollower as follow
    return follow(path, by_index=True, **keywords)


@record(frozen=True)
class Sources:
    """The functions that make the sources of the screens; a test passes its own."""

    follow: Callable[..., SessionFollower] = _follow
    replay: Callable[[Path], ReplaySource] = _lazy("session.replay", "ReplaySource")
    host_replay: Callable[[Sequence[Path], Sequence[str] | None], HostReplay] = _lazy(
        "remote.host_replay", "HostReplay"
    )
    machine: Callable[..., MachineSource] = _lazy("session.local_machine", "LocalMachine")
    hosts: Callable[..., WatchedHost] = _lazy("remote.host", "WatchedHost")
    launch: Callable[[Job], SupervisorProcess] = _lazy("launch.supervisor_process", "launch")
    connection: Callable[[str], Connection] = _lazy("remote.connection", "Connection")
    wall_clock: Callable[[], float] = time.time


@record(frozen=True)
class Start:
    """The content of the first screen: the home screen if nothing else is given.

    Attributes:
        directory: the log directory.
        settings: the user's settings.
        log: the log of a session to show.
        replayed: the log of a session to play, or the logs of several machine recordings.
        metrics: the logs of sessions, and the runs of other programs, whose metrics to show.
        replayed_hosts: the host of each log in `replayed`, if hosts were named.
        started: the supervisor of a session that we started; without `log` it has not answered.
        remote: a session of another host to show.
        watch_interval_s: watch the machine alone, with this time between samples.
        hosts: watch these hosts, by their names for ssh, instead of this machine.
        sweep: an experiment to run and to show.
        notice: a sentence to show first.
        verbose: print all figures of each session as the screen is left.
        sources: the sources of all screens.
    """

    directory: Path
    settings: Settings = field(default_factory=Settings)
    log: Path | None = None
    replayed: tuple[Path, ...] = ()
    replayed_hosts: tuple[str, ...] = ()
    metrics: tuple[Sequence[Path], Sequence[FoundRun]] | None = None
    started: SupervisorProcess | None = None
    remote: RemoteStart | None = None
    watch_interval_s: float | None = None
    hosts: tuple[str, ...] = ()
    sweep: SweepRun | TryRun | None = None
    notice: str = ""
    verbose: bool = False
    sources: Sources = field(default_factory=Sources)


ShowScreen = Callable[[Start], int]
"""A function that shows a screen until it is left, and returns the exit code."""
