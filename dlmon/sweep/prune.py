"""Choose which recorded sessions and sweeps are to be removed. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dlmon.log.directory import SessionEntry
from dlmon.log.folder import id_of
from dlmon.records import Status
from dlmon.sweep.log import SweepEntry

_MAY_RUN = (Status.RUNNING, Status.UNKNOWN)


def removable(
    sessions: Sequence[SessionEntry],
    sweeps: Sequence[SweepEntry],
    *,
    keep: int | None = None,
    before: float | None = None,
    named: bool = False,
) -> list[SessionEntry | SweepEntry]:
    """Return what a rule removes, the oldest first; never what runs, or may run elsewhere.

    The runs of a sweep that may be running stay. A sweep goes once none of its sessions is left,
    where it is as old as they are: its log holds their results.

    Args:
        sessions: all sessions of a directory.
        sweeps: all its sweeps.
        keep: remove all but so many, the newest.
        before: remove what began before that wall time; this or `keep`.
        named: remove what has a name as well.
    """
    if keep is not None:
        began = sorted(each.header.wall for each in sessions)
        before = next(iter(began[max(0, len(began) - keep) :]), math.inf)
    in_use = {run for each in sweeps if each.status in _MAY_RUN for run in each.sweep.sessions}

    def may_go(entry: SessionEntry | SweepEntry) -> bool:
        is_old = before is not None and entry.header.wall < before
        return is_old and entry.status not in _MAY_RUN and (named or entry.label.name is None)

    going: list[SessionEntry | SweepEntry]
    going = [each for each in sessions if may_go(each) and id_of(each.path) not in in_use]
    left = {id_of(each.path) for each in sessions} - {id_of(each.path) for each in going}
    going += [each for each in sweeps if may_go(each) and not left & each.sweep.sessions.keys()]
    return sorted(going, key=lambda entry: entry.header.wall)
