"""`dlmon sweep`: its arguments, and what shows it."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tui.commands.shared import (
    Ascii,
    Json,
    LogDir,
    Plain,
    UserError,
    chosen_log_directory,
    drawn_as_asked,
    in_terminal,
)
from tui.options.run import LEAST_TIME_IN_SWEEP_S, SHARED, VARIED, RunOptions
from tui.options.settings import read_settings

# A start of any other command pays for none of what a sweep needs.
if TYPE_CHECKING:
    from dlmon.sweep.runner import SweepRun

HELP = f"""Run every combination of some options, one after another; one table, one chart.

Each option of run that is given holds for all runs. A run that was steady for less than
{LEAST_TIME_IN_SWEEP_S:g} seconds goes on for more epochs, so that it has a figure (--seconds). Runs
are made one at a time, in an order that favours none and is recorded. A combination that can't be
run, or for which memory runs out, is a row that says so, and the sweep goes on.

\b
Which batch size is the fastest, and where does memory run out?
  dlmon sweep vgg-a --vary batch_size=8,16,32,64
\b
From which batch size on is the GPU the faster one?
  dlmon sweep mnist-mlp-small --vary device=cpu,gpu \\
      --vary batch_size=32,128,512
\b
How many CPUs are worth their price?
  dlmon sweep cifar10-deep-cnn --vary cpus=1,2,4,8 --price 0.00795/cpu
\b
Is a TensorFlow that was compiled for this CPU faster, and is that sure?
  dlmon sweep mnist-cnn --vary python=python3,/opt/tf/bin/python --repeat 3
\b
Which backend is the fastest at training, at gradients alone, and at inference?
  dlmon sweep googlenet --vary backend=tensorflow,jax,torch \\
      --vary mode=train,gradients,inference
\b
How fast is every workload on this machine?
  dlmon sweep ALL --steps 100
"""


def sweep(
    workload: Annotated[
        str | None,
        typer.Argument(
            metavar="WORKLOAD|ALL",
            help="What is trained: one that dlmon list shows, or ALL of them.",
            show_default=False,
        ),
    ] = None,
    vary: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=A,B,...",
            help="Run with each of these values of an option; given again, with every "
            f"combination. KEY is one of {', '.join(VARIED)}.",
        ),
    ] = None,
    repeat: Annotated[
        str | None,
        typer.Option(
            metavar="N",
            help="Run each combination so often (1), all of them before any again; from 3 on the "
            "table shows how far the runs agree and what is surely faster.",
        ),
    ] = None,
    resume: Annotated[
        str | None,
        typer.Option(
            metavar="SWEEP",
            help="Resume a sweep that was stopped, as it was started: an id that dlmon sessions "
            "shows, the start of one, a path, or last.",
        ),
    ] = None,
    plain: Plain = False,
    as_json: Json = False,
    ascii: Ascii = None,
    log_dir: LogDir = None,
    **texts: str | None,
) -> None:
    """Run every combination of some options, one after another; one table, one chart."""
    from dlmon.log.directory import NoSuchLog
    from dlmon.sweep.plan import SweepError

    settings = drawn_as_asked(read_settings(), ascii)
    directory = chosen_log_directory(log_dir, settings)
    try:
        if resume is not None:
            _refuse_beside_resume(workload, vary, repeat, texts)
            run = _resumed(resume, directory)
        elif workload is None:
            raise UserError("name a workload to sweep, or ALL; dlmon list shows them")
        else:
            run = _begun(workload, texts, settings.run, vary or [], repeat, directory)
    except (SweepError, NoSuchLog) as error:
        raise UserError(str(error)) from None
    if plain or as_json or not in_terminal():
        from tui.plain.sweep import show_sweep

        raise typer.Exit(show_sweep(run, as_json=as_json))
    from tui.app import DlmonApp

    shown = DlmonApp(run.directory, sweep=run, settings=settings)
    raise typer.Exit(shown.run_to_exit_code())


def with_options_of(run: Callable[..., None]) -> Callable[..., None]:
    """Return the command with the options of `run`, and their help, in place of its `**texts`.

    They are taken as text, so that they are read, and refused, as the form does.
    """
    own = inspect.signature(sweep, eval_str=True)
    theirs = inspect.signature(run, eval_str=True).parameters
    kept = [p for p in own.parameters.values() if p.kind is not p.VAR_KEYWORD]
    shared = [theirs[name].replace(kind=inspect.Parameter.KEYWORD_ONLY) for name in SHARED]

    @wraps(sweep)
    def command(**arguments: Any) -> None:
        sweep(**arguments)

    command.__signature__ = own.replace(parameters=[*kept, *shared])  # type: ignore[attr-defined]
    return command


def _begun(
    workload: str,
    texts: dict[str, str | None],
    configured: RunOptions,
    vary: list[str],
    repeat: str | None,
    directory: Path,
) -> SweepRun:
    """Begin a sweep; nothing runs before it is shown."""
    from dlmon.sweep.log import SweepWriter, new_header
    from dlmon.sweep.plan import read_repeats
    from tui.options.sweep import (
        make_plan,
        new_seed,
        read_shared_options,
        refuse_shared_and_varied,
        run_of,
    )

    seed = new_seed()
    repeats = 1 if repeat is None else read_repeats(repeat)
    plan = make_plan(workload, read_shared_options(texts, configured), vary, repeats, seed)
    refuse_shared_and_varied(texts, plan)
    return run_of(SweepWriter.begin(directory, new_header(plan, seed, time.time())))


def _resumed(name: str, directory: Path) -> SweepRun:
    """Take up a sweep again; nothing runs before it is shown."""
    from dlmon.sweep.log import SweepWriter, find_sweep, read_sweep
    from tui.options.sweep import check_plan, run_of

    path = find_sweep(name, directory)
    check_plan(read_sweep(path)[1].plan)
    return run_of(SweepWriter.resume(path, time.time()))


def _refuse_beside_resume(
    workload: str | None,
    vary: list[str] | None,
    repeat: str | None,
    texts: dict[str, str | None],
) -> None:
    """Refuse what would make another sweep of one that is resumed."""
    given = [f"--{name.replace('_', '-')}" for name, text in texts.items() if text is not None]
    given += ["--vary"] if vary else []
    given += ["--repeat"] if repeat is not None else []
    given += [workload] if workload is not None else []
    if given:
        raise UserError(
            f"a sweep is resumed as it was started: leave out {given[0]}, or start a new sweep "
            "without --resume"
        )
