"""`dlmon sweep`: run every combination of some options."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dlmon.cli import click_options, shared
from dlmon.cli.candidates import sweep_names, swept_names, variations
from dlmon.cli.show import View
from dlmon.log.folder import location_options
from dlmon.options.read import read_arguments
from dlmon.options.run_options import LEAST_TIME_IN_SWEEP_S, OPTIONS, SHARED, VARIED
from dlmon.options.script import SCRIPT_OPTIONS
from dlmon.options.settings import Settings
from dlmon.records import PairRule, SweepHeader
from dlmon.records.sanitize import SHOWN_LENGTH, clean

# Other commands must not import what a sweep needs.
if TYPE_CHECKING:
    from dlmon.alerts.alert_settings import AlertSettings
    from dlmon.sweep.plan import Plan
    from dlmon.sweep.runner import SweepRun

HELP = f"""Run every combination of some options, one after another; one table, one chart.

WORKLOAD is one that dlmon list shows, or ALL of them. A command of your own comes after --; KEY
is then a {{name}} in it, env:NAME for an environment variable, python for its interpreter, commit
for its code, host, or set:NAME for what dlmon sets inside the script.

Each option of run that is given holds for all runs. A workload that was steady for less than
{LEAST_TIME_IN_SWEEP_S:g} seconds continues for more epochs, so that it has a result (--seconds).
Runs are made one at a time, in a balanced order that is recorded; only different hosts run at once.
A combination that can't be run, or for which memory runs out, gets a row that says so, and the
sweep continues.

\b
Which batch size is the fastest, and where does memory run out?
  dlmon sweep vgg-a --vary batch_size=8,16,32,64
From which batch size on is the GPU the faster one?
  dlmon sweep mnist-mlp-small --vary device=cpu,gpu \\
      --vary batch_size=32,128,512
How many CPUs are worth their price?
  dlmon sweep cifar10-deep-cnn --vary cpus=1,2,4,8 --price 0.00795/cpu
Is a TensorFlow that was compiled for this CPU faster, and is that sure?
  dlmon sweep mnist-cnn --vary python=python3,/opt/tf/bin/python --repeat 3
Which backend is the fastest at training, at gradients alone, and at inference?
  dlmon sweep googlenet --vary backend=tensorflow,jax,torch \\
      --vary mode=train,gradients,inference
Which of my machines is the fastest?
  dlmon sweep cifar10-cnn --vary host=gpu1,gpu2,lab@gpu3 --python /opt/tf/bin/python
Which is the largest batch that fits, and from which one on is a larger one no faster?
  dlmon sweep --vary set:batch_size=auto -- python train.py
How many loader workers does my script need?
  dlmon sweep --vary workers=0,2,4,8 -- python train.py --workers {{workers}}
How fast is every workload on this machine?
  dlmon sweep ALL --steps 100
"""


_SEARCH_WINDOW_S = 10.0


@click.command(
    cls=click_options.WithCommand,
    help=HELP,
    short_help="Run every combination of some options; one table, one chart.",
)
@click.argument(
    "workload", metavar="[WORKLOAD|ALL|-- COMMAND...]", required=False, shell_complete=swept_names
)
@click.option(
    "--vary",
    metavar="KEY=A,B,...",
    multiple=True,
    shell_complete=variations,
    help="Run with each of these values of an option; given again, with every combination. KEY is "
    f"one of {', '.join(VARIED)}.",
)
@click.option(
    "--directory", metavar="DIR", help="Where a command of your own runs. [default: here]"
)
@click_options.link_option
@click.option(
    "--window",
    "window_s",
    metavar="TIME",
    type=click_options.Duration(),
    help="With --vary set:batch_size=auto, the steady training after which a run is ended "
    "[default: 10s].",
)
@click.option(
    "--repeat",
    metavar="N",
    type=click.IntRange(min=1),
    help="Run each combination N times (1), all of them once before any is repeated; from 3 on the "
    "table shows the spread of the runs and which differences are significant.",
)
@click.option(
    "--resume",
    metavar="SWEEP",
    shell_complete=sweep_names,
    help="Resume a sweep that was stopped, as it was started: an id or a name that dlmon sessions "
    "shows, the start of an id, a path, or last.",
)
@click_options.slurm_option
@click.option(
    "--at-once",
    metavar="N",
    type=click.IntRange(min=1),
    help="With --slurm, how many of the runs may run at the same time. [default: all]",
)
@click_options.plain_option
@click_options.json_option
@click_options.ascii_option
@click_options.log_dir_option
@click_options.options_of(OPTIONS[name] for name in (*SHARED, "name", "alert"))
@click_options.no_alerts_option
def sweep(
    workload: str | None,
    vary: Sequence[str],
    directory: str | None,
    links: Sequence[str],
    window_s: float | None,
    repeat: int | None,
    resume: str | None,
    slurm: str | None,
    at_once: int | None,
    plain: bool,
    as_json: bool,
    ascii: bool | None,
    log_dir: Path | None,
    **texts: str | None,
) -> int:
    """Run every combination of some options, one after another."""
    settings = shared.settings_of(ascii)
    log_directory = shared.chosen_log_directory(log_dir, settings)
    command = click_options.typed_command()
    alert = texts.pop("alert")
    alerts = settings.alerts.chosen(shared.read_checked({"alert": alert}, settings).alert)
    if at_once is not None and slurm is None:
        raise shared.UserError("--at-once says how many jobs run: use it with --slurm")
    if slurm is not None:
        from dlmon.slurm.submit import read_slurm_options

        slurm = f"{settings.slurm} {slurm}".strip()
        read_slurm_options(slurm)
    if resume is not None:
        words = [workload, *(command or ())]
        _refuse_beside_resume(words, vary, repeat, {**texts, "slurm": slurm})
        run = _resumed_sweep(resume, log_directory, log_dir, alerts)
    elif command is None and workload is None:
        raise shared.UserError(
            "name a workload to sweep (dlmon list shows them), or a command of your own after --"
        )
    else:
        from dlmon.options.sweep_options import begin_sweep, new_seed

        seed, in_slurm = new_seed(), slurm is not None
        if command is None:
            assert workload is not None
            own = {"--directory": directory, "--link": links, "--window": window_s}
            if flag := next((flag for flag, value in own.items() if value), None):
                raise shared.UserError(f"{flag} is for a command of your own after --")
            plan = _plan(workload, texts, settings, vary, repeat or 1, seed, in_slurm)
        elif workload is not None:
            raise shared.UserError(
                f"{clean(workload, SHOWN_LENGTH)} is a workload, and a command follows --: leave "
                "out one"
            )
        else:
            plan = plan_of_script(
                command, texts, settings, vary, directory, links, seed, repeat, window_s=window_s
            )
        if in_slurm and plan.search_window_s is not None:
            raise shared.UserError("--slurm is not for a search of batch sizes: leave it out")
        if in_slurm and plan.hosts != (None,):
            raise shared.UserError(
                "a sweep in Slurm is kept on the machine that submits it: type it on the login "
                "node, without hosts"
            )
        name = shared.read_checked({"name": texts["name"]}, settings).name
        run = begin_sweep(log_directory, plan, seed, time.time(), name, alerts, slurm, at_once)
    return make_runs(run, View(settings, plain=plain, as_json=as_json), log_dir)


def make_runs(run: SweepRun, view: View, log_dir: Path | None) -> int:
    """Make the runs of a sweep, on its screen or in lines, and return the exit code."""
    if view.on_screen:
        return view.open(run.directory, sweep=run)
    from dlmon.render.sweep_lines import show_sweep

    return show_sweep(run, as_json=view.as_json, log_dir=log_dir)


def _plan(
    workload: str,
    texts: Mapping[str, str | None],
    settings: Settings,
    vary: Sequence[str],
    repeats: int,
    seed: int,
    in_slurm: bool,
) -> Plan:
    """Return the plan of a sweep of workloads."""
    from dlmon.options.sweep_options import make_plan

    shared.refuse_script(workload)
    options = read_arguments(texts, settings.run)
    plan = make_plan(workload, options, vary, repeats, seed, settings.hosts, in_slurm)
    for key in plan.varied:
        if texts.get(key) is not None:
            flag = OPTIONS[key].flag
            raise shared.UserError(
                f"{flag} and --vary {key}= both say what {key} is: leave out one"
            )
    return plan


def plan_of_script(
    command: Sequence[str],
    texts: Mapping[str, str | None],
    settings: Settings,
    vary: Sequence[str],
    directory: str | None,
    links: Sequence[str],
    seed: int,
    repeats: int | None = None,
    pairs: PairRule | None = None,
    window_s: float | None = None,
) -> Plan:
    """Return the plan of a sweep of a script, or of an experiment of pairs.

    Raises:
        UserError: there is no command, or an option is one of workloads.
        SweepError: another argument is wrong.
    """
    from dlmon.options.script_sweep import make_script_plan

    if not command:
        raise shared.UserError("say what to run after --, such as -- python train.py")
    for name, text in texts.items():
        if text is not None and name not in (*SCRIPT_OPTIONS, "name"):
            flag = OPTIONS[name].flag
            raise shared.UserError(f"{flag} is for the workloads of dlmon: write it in the command")
    options = shared.read_checked(
        {name: texts.get(name) for name in SCRIPT_OPTIONS}, settings, here=texts.get("host") is None
    )
    plan = make_script_plan(
        command,
        directory,
        options,
        vary,
        repeats or 1,
        seed,
        groups=settings.hosts,
        pairs=pairs,
        links=links,
        search_window_s=_SEARCH_WINDOW_S if window_s is None else window_s,
    )
    if window_s is not None and plan.search_window_s is None:
        raise shared.UserError("--window is for --vary set:batch_size=auto")
    return plan


def _resumed_sweep(
    name: str, directory: Path, log_dir: Path | None, alerts: AlertSettings | None
) -> SweepRun:
    """Open a sweep again; its runs continue when it is shown."""
    from dlmon.log.directory import find_log
    from dlmon.options.sweep_options import check_plan, run_of
    from dlmon.sweep.log import SweepWriter, read_sweep

    path = find_log(SweepHeader, name, directory, location_options(log_dir))
    check_plan(read_sweep(path)[1].plan)
    return run_of(SweepWriter.resume(path, time.time()), alerts)


def _refuse_beside_resume(
    named: Sequence[str | None],
    vary: Sequence[str],
    repeat: int | None,
    texts: Mapping[str, str | None],
) -> None:
    """Refuse arguments that would change a sweep that is resumed."""
    names = [name for name, text in texts.items() if text is not None]
    words = [OPTIONS[name].flag if name in OPTIONS else f"--{name}" for name in names]
    words += ["--vary"] if vary else []
    words += ["--repeat"] if repeat is not None else []
    words += [clean(word, SHOWN_LENGTH) for word in named if word is not None]
    if words:
        raise shared.UserError(
            f"a sweep is resumed as it was started: leave out {words[0]}, or start a new sweep "
            "without --resume"
        )
