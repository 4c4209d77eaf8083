"""`dlmon sweep`: its arguments, and what shows it."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tui.arguments import (
    Ascii,
    Json,
    LogDir,
    Plain,
    UserError,
    chosen_log_directory,
    drawn_as_asked,
    in_terminal,
)
from tui.run_options import RunOptions
from tui.settings import read_settings

# A start of any other command pays for none of what a sweep needs.
if TYPE_CHECKING:
    from dlmon.sweep_run import SweepRun

OF_A_LAUNCH = ("detach", "log_dir")
SHARED = tuple(spec.name for spec in fields(RunOptions) if spec.name not in OF_A_LAUNCH)
"""The options of `run` that the runs of a sweep may share."""


def sweep(
    workload: Annotated[
        str | None,
        typer.Argument(metavar="WORKLOAD|ALL", help="See dlmon list.", show_default=False),
    ] = None,
    vary: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=A,B,...", help="An option of run and its values; may be given again."
        ),
    ] = None,
    repeat: Annotated[
        int | None, typer.Option(help="Runs of each combination (1); 3 tell how sure a figure is.")
    ] = None,
    resume: Annotated[
        str | None,
        typer.Option(metavar="SWEEP", help="Go on with a sweep: an id, its beginning, or last."),
    ] = None,
    plain: Plain = False,
    as_json: Json = False,
    ascii: Ascii = None,
    log_dir: LogDir = None,
    **texts: str | None,
) -> None:
    """Run every combination of some options, one after another; one table, one chart."""
    from dlmon.sweep import SweepError
    from dlmon.sweep_log import NoSuchSweep

    settings = drawn_as_asked(read_settings(), ascii)
    directory = chosen_log_directory(log_dir, settings)
    try:
        if resume is not None:
            _refuse_beside_resume(workload, vary, repeat, texts)
            run = _resumed(resume, directory)
        elif workload is None:
            raise UserError("name a workload to sweep, or ALL; dlmon list shows them")
        else:
            repeats = 1 if repeat is None else repeat
            run = _begun(workload, texts, settings.run, vary or [], repeats, directory)
    except (SweepError, NoSuchSweep) as error:
        raise UserError(str(error)) from None
    if plain or as_json or not in_terminal():
        from tui.sweep_plain import show_sweep

        raise typer.Exit(show_sweep(run, as_json=as_json))
    from tui.app import DlmonApp

    shown = DlmonApp(run.directory, sweep=run, settings=settings)
    raise typer.Exit(shown.run_to_exit_code())


def _with_options_of_run(command: Callable[..., None]) -> inspect.Signature:
    """Return the signature of `command`, with every option of `run` in place of its `**texts`.

    They are taken as text, so that they are read, and refused, as the form does.
    """
    own = inspect.signature(command, eval_str=True)
    kept = [p for p in own.parameters.values() if p.kind is not p.VAR_KEYWORD]
    shared = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[str | None, typer.Option(help="As for dlmon run.")],
        )
        for name in SHARED
    ]
    return own.replace(parameters=[*kept, *shared])


sweep.__signature__ = _with_options_of_run(sweep)  # type: ignore[attr-defined]


def _begun(
    workload: str,
    texts: dict[str, str | None],
    configured: RunOptions,
    vary: list[str],
    repeats: int,
    directory: Path,
) -> SweepRun:
    """Begin a sweep; nothing runs before it is shown."""
    from dlmon.sweep_log import SweepWriter, new_header
    from tui.sweep_options import make_plan, new_seed, read_shared_options, run_of

    seed = new_seed()
    plan = make_plan(workload, read_shared_options(texts, configured), vary, repeats, seed)
    return run_of(SweepWriter.begin(directory, new_header(plan, seed, time.time())))


def _resumed(name: str, directory: Path) -> SweepRun:
    """Take up a sweep again; nothing runs before it is shown."""
    from dlmon.sweep_log import SweepWriter, find_sweep, read_sweep
    from tui.sweep_options import check_plan, run_of

    path = find_sweep(name, directory)
    check_plan(read_sweep(path)[1].plan)
    return run_of(SweepWriter.resume(path, time.time()))


def _refuse_beside_resume(
    workload: str | None,
    vary: list[str] | None,
    repeat: int | None,
    texts: dict[str, str | None],
) -> None:
    """Refuse what would make another sweep of one that is resumed."""
    given = [f"--{name.replace('_', '-')}" for name, text in texts.items() if text is not None]
    given += ["--vary"] if vary else []
    given += ["--repeat"] if repeat is not None else []
    given += [workload] if workload is not None else []
    if given:
        raise UserError(
            f"a sweep is resumed as it was begun: leave out {given[0]}, or begin a new sweep "
            "without --resume"
        )
