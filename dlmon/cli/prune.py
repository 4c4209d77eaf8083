"""`dlmon prune`: remove old sessions and sweeps."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dlmon.cli import click_options, shared
from dlmon.exit_codes import DONE, FAILED
from dlmon.log.folder import LogError, id_of
from dlmon.records.sanitize import clean

# Help and completion must not import what reads logs.
if TYPE_CHECKING:
    from dlmon.figures.lists.session_list import Recorded


@click.command(short_help="Remove sessions that were recorded long ago.")
@click.option(
    "--keep", metavar="N", type=click.IntRange(min=0), help="Remove all sessions but the N newest."
)
@click.option(
    "--older-than",
    metavar="AGE",
    type=click_options.Duration(),
    help="Remove those that began so long ago: 90d, 12h.",
)
@click.option("--named", is_flag=True, help="Also remove those that have a name.")
@click.option("--yes", is_flag=True, help="Don't ask.")
@click_options.log_dir_option
def prune(
    keep: int | None, older_than: float | None, named: bool, yes: bool, log_dir: Path | None
) -> int:
    """Remove sessions that were recorded long ago, after showing which, and asking.

    What runs stays, and so does what may run on another machine, and what has a name. A sweep
    goes with the last of its sessions.
    """
    from dlmon.figures import units
    from dlmon.log.prune import size_bytes

    if (keep is None) == (older_than is None):
        fault = "say what to remove" if keep is None else "say one of the two"
        raise shared.UserError(f"{fault}: --keep 100, or --older-than 90d")
    before = None if older_than is None else time.time() - older_than
    directory = shared.chosen_log_directory(log_dir)
    recordings = _removable(directory, keep, before, named)
    if not recordings:
        named_count = len(_removable(directory, keep, before, named=True))
        hint = f"; --named removes {units.counted(named_count, 'recording')} with a name"
        print(f"there is nothing to remove{hint if named_count else ''}")
        return DONE
    sized = [(recording, size_bytes(recording.path)) for recording in recordings]
    for recording, size in sized:
        print(_row(recording, size))
    sys.stdout.flush()
    if not yes and not _confirmed(f"remove {_count_text(sized)}"):
        print("nothing was removed")
        return DONE
    return _remove(sized)


def _removable(
    directory: Path, keep: int | None, before: float | None, named: bool
) -> list[Recorded]:
    """Return the sessions and sweeps of a directory that the options select."""
    from dlmon.log.directory import list_sessions
    from dlmon.log.prune import is_link
    from dlmon.sweep.log import list_sweeps, removable

    sessions = [entry for entry in list_sessions(directory) if not is_link(entry.path)]
    sweeps = [entry for entry in list_sweeps(directory) if not is_link(entry.path)]
    return removable(sessions, sweeps, keep=keep, before=before, named=named)


def _row(recording: Recorded, size: int) -> str:
    from dlmon.figures import units
    from dlmon.figures.lists.session_list import id_with_name, workload_of

    when = units.day_and_time(recording.header.wall)
    name = id_with_name(id_of(recording.path), recording.label)
    status, workload = recording.status, workload_of(recording)
    return clean(f"{name}  {when}  {workload}  {status}  {units.size(size)}")


def _confirmed(action: str) -> bool:
    if not shared.in_terminal():
        raise shared.UserError(f"there is no terminal to ask in: say --yes to {action}")
    return click.confirm(f"{action[0].upper()}{action[1:]}?")


def _remove(sized: Sequence[tuple[Recorded, int]]) -> int:
    """Remove the recordings, and report those that can't be removed."""
    from dlmon.log.prune import remove

    removed = []
    for recording, size in sized:
        try:
            remove(recording.path)
        except LogError as error:
            print(f"dlmon: {clean(str(error))}", file=sys.stderr)
        else:
            removed.append((recording, size))
    print(f"removed {_count_text(removed)}")
    return DONE if len(removed) == len(sized) else FAILED


def _count_text(sized: Sequence[tuple[Recorded, int]]) -> str:
    """Return how many recordings there are and their size: 3 sessions and 1 sweep, 5 MB."""
    from dlmon.figures import units

    sweeps = sum(recording.path.name == "sweep.jsonl" for recording, _ in sized)
    numbers = {"session": len(sized) - sweeps, "sweep": sweeps}
    parts = [units.counted(number, noun) for noun, number in numbers.items() if number]
    return f"{' and '.join(parts) or 'nothing'}, {units.size(sum(size for _, size in sized))}"
