"""`dlmon ab`: prove which of two sides of a script is faster."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import click

from dlmon.cli import click_options, shared
from dlmon.cli.compare import share_of
from dlmon.cli.show import View
from dlmon.cli.sweep import make_runs, plan_of_script
from dlmon.exit_codes import DONE, FAILED
from dlmon.options.option import NONE
from dlmon.options.run_options import OPTIONS
from dlmon.options.script import SCRIPT_OPTIONS
from dlmon.records import PairRule
from dlmon.records.sanitize import SHOWN_LENGTH, clean

HELP = """Run two sides of a script in pairs until it is clear which is faster, and why.

A and B are commits of the script's repository, or . for the files as they are now. Instead of
commits, --vary KEY=A,B names two values: KEY is a {name} in the command, env:NAME for an
environment variable, python for the interpreter, or set:NAME for what dlmon sets inside the script.

The first run of each side is thrown away, and each run is ended after --window of steady training.
It goes on until the 95 % interval of the ratio is as narrow as --to says, or until --for is over.

\b
Is my change faster?
  dlmon ab main HEAD -- python train.py
  dlmon ab HEAD . -- python train.py
Do more loader workers help?
  dlmon ab --vary workers=4,8 -- python train.py --workers {workers}
Does another PyTorch?
  dlmon ab --vary python=.venv/bin/python,/opt/new/bin/python \\
      -- python train.py
May this be merged? (exits with 1 if HEAD is slower by more than 3 %)
  dlmon ab main HEAD --fail-if-slower 3% --plain -- python train.py
"""
_Command = TypeVar("_Command", bound=Callable[..., int])


def pair_options(to: str, window: str) -> Callable[[_Command], _Command]:
    """Return a decorator that adds the options of experiments of pairs, with these defaults."""
    options = (
        click.option(
            "--to",
            metavar="PERCENT",
            default=to,
            show_default=True,
            callback=share_of("--to", 0.1, 50),
            help="The half-width of the interval that is asked for.",
        ),
        click.option(
            "--for",
            "for_s",
            metavar="TIME",
            type=click_options.Duration(),
            default="20m",
            show_default=True,
            help="The time that it may take.",
        ),
        click.option(
            "--window",
            "window_s",
            metavar="TIME",
            type=click_options.Duration(),
            default=window,
            show_default=True,
            help="The steady training after which a run is ended.",
        ),
        click.option(
            "--one-by-one",
            is_flag=True,
            help="Never have both runs of a pair alive at once, taking turns: for scripts that "
            "both write one file or listen on one port.",
        ),
        click.option("--directory", metavar="DIR", help="Where it runs. [default: here]"),
    )
    return click_options.together(options)


@click.command(
    cls=click_options.WithCommand,
    help=HELP,
    short_help="Prove which of two versions or settings of a script is faster.",
)
@click.argument("sides", metavar="[A B] -- COMMAND...", nargs=-1)
@click.option("--vary", metavar="KEY=A,B", help="Two values of one setting, instead of commits.")
@pair_options(to="2%", window="30s")
@click.option("--whole", is_flag=True, help="Let each run end by itself.")
@click_options.link_option
@click.option(
    "--fail-if-slower",
    metavar="PERCENT",
    callback=share_of("--fail-if-slower", 0, 99),
    help="Exit with 1 if B is slower by more than this, beyond the interval; with 2 if fewer than "
    "two pairs count.",
)
@click.option("--slurm", metavar="OPTIONS", hidden=True)
@click_options.plain_option
@click_options.json_option
@click_options.ascii_option
@click_options.log_dir_option
@click_options.options_of(
    OPTIONS[name] for name in (*SCRIPT_OPTIONS, "name", "alert") if name != "to"
)
@click_options.no_alerts_option
def ab(
    sides: Sequence[str],
    vary: str | None,
    to: float,
    for_s: float,
    window_s: float,
    whole: bool,
    one_by_one: bool,
    links: Sequence[str],
    directory: str | None,
    fail_if_slower: float | None,
    slurm: str | None,
    plain: bool,
    as_json: bool,
    ascii: bool | None,
    log_dir: Path | None,
    **texts: str | None,
) -> int:
    """Run two sides of a script in pairs until it is clear which is faster."""
    from dlmon.options.sweep_options import begin_sweep, new_seed
    from dlmon.sweep.pairs import is_slower_by, verdict_of

    settings = shared.settings_of(ascii)
    alert = texts.pop("alert")
    alerts = settings.alerts.chosen(shared.read_checked({"alert": alert}, settings).alert)
    command = click_options.typed_command()
    if command is None:
        raise shared.UserError("say what to run after --: dlmon ab main HEAD -- python train.py")
    if slurm is not None:
        raise shared.UserError(
            "all pairs are one job: leave out --slurm, and type "
            f"{clean(f'srun {slurm}'.strip(), SHOWN_LENGTH)} before dlmon ab"
        )
    seed = new_seed()
    pairs = PairRule(to, for_s, None if whole else window_s, not (whole or one_by_one))
    varied = [vary] if vary is not None else [_commits(sides)]
    if vary is not None and sides:
        shown = clean(sides[0], SHOWN_LENGTH)
        raise shared.UserError(f"--vary and {shown} both name the sides: leave out one")
    # Pairs are compared with each other, and are no runs for a tracker.
    texts["to"] = NONE
    plan = plan_of_script(command, texts, settings, varied, directory, links, seed, pairs=pairs)
    name = shared.read_checked({"name": texts["name"]}, settings).name
    log_directory = shared.chosen_log_directory(log_dir, settings)
    run = begin_sweep(log_directory, plan, seed, time.time(), name, alerts)
    exit_code = make_runs(run, View(settings, plain=plain, as_json=as_json), log_dir)
    if fail_if_slower is None or exit_code:
        return exit_code
    is_slower = is_slower_by(verdict_of(run.sweep), fail_if_slower)
    if is_slower is None:
        raise shared.UserError(
            "--fail-if-slower needs two pairs: give it a longer --for, or a shorter --window"
        )
    return FAILED if is_slower else DONE


def _commits(sides: Sequence[str]) -> str:
    if len(sides) != 2:
        raise shared.UserError(
            "name two sides: two commits (dlmon ab main HEAD -- …), . for the files as they are, "
            "or --vary KEY=A,B"
        )
    if len(set(sides)) == 1:
        raise shared.UserError(f"both sides are {clean(sides[0], SHOWN_LENGTH)}: name two")
    return f"commit={','.join(sides)}"
