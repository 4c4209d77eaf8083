"""What the screens are started with: what to show, and where they get it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING

from dlmon.options.settings import Settings
from dlmon.records.record import record
from dlmon.session.source import MachineSource

# Each is imported when it is first asked for: a start pays for one only.
if TYPE_CHECKING:
    from dlmon.launch.job import Job
    from dlmon.launch.lifeline import Lifeline
    from dlmon.remote.fleet import Fleet
    from dlmon.remote.host import WatchedHost
    from dlmon.remote.link import Link
    from dlmon.remote.start import RemoteStart
    from dlmon.session.follower import SessionFollower
    from dlmon.session.replay import ReplaySource
    from dlmon.sweep.runner import SweepRun


def _follow(log: Path, launch: Lifeline | None = None) -> SessionFollower:
    from dlmon.session.follower import SessionFollower

    return SessionFollower(log, launch=launch, by_index=True)


def _replay(log: Path) -> ReplaySource:
    from dlmon.session.replay import ReplaySource

    return ReplaySource(log)


def _fleet(logs: Sequence[Path], names: Sequence[str] | None) -> Fleet:
    from dlmon.remote.fleet import Fleet

    return Fleet(logs, names)


def _this_machine(interval_s: float = 1.0, pcie: bool = False) -> MachineSource:
    from dlmon.session.local_machine import LocalMachine

    return LocalMachine(interval_s, pcie)


def _host(name: str, interval_s: float = 1.0, pcie: bool = False) -> WatchedHost:
    from dlmon.remote.host import WatchedHost

    return WatchedHost(name, interval_s, pcie)


def _launch(job: Job) -> Lifeline:
    from dlmon.launch.lifeline import launch

    return launch(job)


def _link(host: str) -> Link:
    from dlmon.remote.link import Link

    return Link(host)


@record(frozen=True)
class Sources:
    """Where the screens get what they show, and what starts a run; a test hands in its own."""

    follow: Callable[..., SessionFollower] = _follow
    replay: Callable[[Path], ReplaySource] = _replay
    fleet: Callable[[Sequence[Path], Sequence[str] | None], Fleet] = _fleet
    machine: Callable[..., MachineSource] = _this_machine
    hosts: Callable[..., WatchedHost] = _host
    launch: Callable[[Job], Lifeline] = _launch
    link: Callable[[str], Link] = _link


@record(frozen=True)
class Start:
    """What the app starts with; the home screen opens where nothing else is to be shown.

    Attributes:
        directory: where sessions live.
        settings: the user's own defaults.
        log: a session to show.
        replayed: a session to play; several, where each is of a machine alone.
        replayed_hosts: the host that each of several is of, where it was named.
        started: the lifeline of a session of ours; without `log` it has still to answer.
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
    started: Lifeline | None = None
    remote: RemoteStart | None = None
    watch_interval_s: float | None = None
    hosts: tuple[str, ...] = ()
    sweep: SweepRun | None = None
    sources: Sources = field(default_factory=Sources)


ShowScreen = Callable[[Start], int]
"""Shows a screen until it is left, and returns the exit code."""
