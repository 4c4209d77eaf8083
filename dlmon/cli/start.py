"""What the screens are started with: what to show, and where they get it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dlmon.options.settings import Settings
from dlmon.records.record import record
from dlmon.session.source import MachineSource

# Each is imported when it is first asked for: a start pays for one only.
if TYPE_CHECKING:
    from dlmon.launch.supervisor_process import SupervisorProcess
    from dlmon.protocol.job import Job, RemoteStart
    from dlmon.remote.connection import Connection
    from dlmon.remote.host import WatchedHost
    from dlmon.remote.host_replay import HostReplay
    from dlmon.session.follower import SessionFollower
    from dlmon.session.replay import ReplaySource
    from dlmon.sweep.runner import SweepRun


def _later(module: str, name: str, **given: Any) -> Callable[..., Any]:
    """Return what makes a source of a class, which is imported when one is first made."""

    def make(*arguments: Any, **more: Any) -> Any:
        return getattr(import_module(f"dlmon.{module}"), name)(*arguments, **given, **more)

    return make


def _follow(path: Path, **more: Any) -> SessionFollower:
    """Return what follows the session of a log, in a job of Slurm's or not.

    Raises:
        LogError: not a log that can be read.
    """
    from dlmon.log.submitted import is_of_slurm

    # Other sessions need none of Slurm's modules.
    if is_of_slurm(path):
        from dlmon.slurm.job_follower import follow_session as follow
    else:
        from dlmon.session.follower import SessionFollower as follow
    return follow(path, by_index=True, **more)


@record(frozen=True)
class Sources:
    """Where the screens get what they show, and what starts a run; a test hands in its own."""

    follow: Callable[..., SessionFollower] = _follow
    replay: Callable[[Path], ReplaySource] = _later("session.replay", "ReplaySource")
    host_replay: Callable[[Sequence[Path], Sequence[str] | None], HostReplay] = _later(
        "remote.host_replay", "HostReplay"
    )
    machine: Callable[..., MachineSource] = _later("session.local_machine", "LocalMachine")
    hosts: Callable[..., WatchedHost] = _later("remote.host", "WatchedHost")
    launch: Callable[[Job], SupervisorProcess] = _later("launch.supervisor_process", "launch")
    connection: Callable[[str], Connection] = _later("remote.connection", "Connection")


@record(frozen=True)
class Start:
    """What the app starts with; the home screen opens where nothing else is to be shown.

    Attributes:
        directory: where sessions live.
        settings: the user's own defaults.
        log: a session to show.
        replayed: a session to play; several, where each is of a machine alone.
        replayed_hosts: the host that each of several is of, where it was named.
        started: the supervisor of a session of ours; without `log` it has still to answer.
        remote: a session of another machine to show.
        watch_interval_s: watch the machine alone, sampling at this interval.
        hosts: watch these, as ssh knows them, in place of this machine.
        sweep: make the runs of a sweep, and show them.
        sources: where the screens get what they show.
    """

    directory: Path
    settings: Settings = field(default_factory=Settings)
    log: Path | None = None
    replayed: tuple[Path, ...] = ()
    replayed_hosts: tuple[str, ...] = ()
    started: SupervisorProcess | None = None
    remote: RemoteStart | None = None
    watch_interval_s: float | None = None
    hosts: tuple[str, ...] = ()
    sweep: SweepRun | None = None
    sources: Sources = field(default_factory=Sources)


ShowScreen = Callable[[Start], int]
"""Shows a screen until it is left, and returns the exit code."""
