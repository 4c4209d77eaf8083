"""What the app is started with."""

from __future__ import annotations

from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING

from dlmon.records.record import record
from tui.options.settings import Settings
from tui.sources import Sources

if TYPE_CHECKING:
    from dlmon.launch.lifeline import Lifeline
    from dlmon.remote.start import RemoteStart
    from dlmon.sweep.runner import SweepRun


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
