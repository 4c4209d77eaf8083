"""`dlmon prune`: remove what was recorded long ago."""

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

# Help and completion import nothing that reads logs.
if TYPE_CHECKING:
    from dlmon.figures.session.session_list import Recorded


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
    going = _found(directory, keep, before, named)
    if not going:
        kept = len(_found(directory, keep, before, named=True))
        named_too = f"; --named removes {units.counted(kept, 'recording')} with a name"
        print(f"there is nothing to remove{named_too if kept else ''}")
        return DONE
    sizes = [size_bytes(each.path) for each in going]
    for each, size in zip(going, sizes, strict=True):
        print(_row(each, size))
    sys.stdout.flush()
    if not yes and not _confirmed(f"remove {_counted(going, sum(sizes))}"):
        print("nothing was removed")
        return DONE
    return _remove(going, sizes)


def _found(directory: Path, keep: int | None, before: float | None, named: bool) -> list[Recorded]:
    """Return what a rule removes of a directory."""
    from dlmon.log.directory import list_sessions
    from dlmon.log.prune import is_link
    from dlmon.sweep.log import list_sweeps, removable

    sessions = [entry for entry in list_sessions(directory) if not is_link(entry.path)]
    sweeps = [entry for entry in list_sweeps(directory) if not is_link(entry.path)]
    return removable(sessions, sweeps, keep=keep, before=before, named=named)


def _row(entry: Recorded, size: int) -> str:
    from dlmon.figures import units
    from dlmon.figures.session.session_list import called, workload_of

    when = units.day_and_time(entry.header.wall)
    name = called(id_of(entry.path), entry.label)
    return clean(f"{name}  {when}  {workload_of(entry)}  {entry.status}  {units.size(size)}")


def _confirmed(deed: str) -> bool:
    if not shared.in_terminal():
        raise shared.UserError(f"there is no terminal to ask in: say --yes to {deed}")
    return click.confirm(f"{deed[0].upper()}{deed[1:]}?")


def _remove(going: Sequence[Recorded], sizes: Sequence[int]) -> int:
    """Remove what was shown, and report what could not be."""
    from dlmon.log.prune import remove

    gone = []
    for each, size in zip(going, sizes, strict=True):
        try:
            remove(each.path)
        except LogError as error:
            print(f"dlmon: {clean(str(error))}", file=sys.stderr)
        else:
            gone.append((each, size))
    removed = [each for each, _ in gone]
    print(f"removed {_counted(removed, sum(size for _, size in gone))}")
    return DONE if len(gone) == len(going) else FAILED


def _counted(recordings: Sequence[Recorded], size: int) -> str:
    """Say how many sessions and sweeps these are, and how large: 3 sessions and 1 sweep, 5 MB."""
    from dlmon.figures import units

    sweeps = sum(each.path.name == "sweep.jsonl" for each in recordings)
    numbers = {"session": len(recordings) - sweeps, "sweep": sweeps}
    parts = [units.counted(number, noun) for noun, number in numbers.items() if number]
    return f"{' and '.join(parts) or 'nothing'}, {units.size(size)}"
