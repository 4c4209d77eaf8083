"""`dlmon try`: try in a script what its figures speak for."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dlmon.cli import click_options, shared
from dlmon.cli.ab import pair_options
from dlmon.cli.show import View
from dlmon.cli.sweep import plan_of_script
from dlmon.options.run_options import OPTIONS
from dlmon.records import PairRule

# Other commands must not import what an experiment needs.
if TYPE_CHECKING:
    from dlmon.sweep.candidates import Candidate
    from dlmon.sweep.runner import SweepRun

HELP = """Try in a script what its figures speak for, and say what makes it faster.

dlmon runs the script as it is, and chooses settings by where the time of a step goes: loader
workers if it waits for data, a fused optimizer if that takes long, more threads if PyTorch leaves
cores unused; on a GPU also pinned memory, compilation and precision. It sets each of them inside
the script, which stays as it is, and compares it in pairs as dlmon ab does.

It ends with what is proven to be faster and the lines to write, what did not help, and what could
not be applied. What alters the training, or its loss over the same steps, is only suggested.

\b
What would make my script faster?
  dlmon try -- python train.py
The same, in at most five minutes, and with a wider interval
  dlmon try --for 5m --to 10% -- python train.py
"""


@click.command(
    cls=click_options.WithCommand,
    help=HELP,
    short_help="Try in a script what its figures speak for, and say what makes it faster.",
)
@click.argument("words", metavar="-- COMMAND...", nargs=-1)
@pair_options(to="5%", window="10s")
@click_options.plain_option
@click_options.json_option
@click_options.ascii_option
@click_options.log_dir_option
@click_options.options_of([OPTIONS["interval"]])
def try_script(
    words: Sequence[str],
    to: float,
    for_s: float,
    window_s: float,
    one_by_one: bool,
    directory: str | None,
    plain: bool,
    as_json: bool,
    ascii: bool | None,
    log_dir: Path | None,
    **texts: str | None,
) -> int:
    """Try in a script what its figures speak for."""
    from dlmon.options.jobs import make_script_job
    from dlmon.options.sweep_options import begin_sweep, new_seed
    from dlmon.sweep.machine_lock import refuse_another_experiment
    from dlmon.sweep.tries import TryRun
    from dlmon.sweep.variants import AS_IT_IS, INJECTION

    settings = shared.settings_of(ascii)
    command = click_options.typed_command()
    if words or not command:
        raise shared.UserError("say what to run after --: dlmon try -- python train.py")
    refuse_another_experiment()
    log_directory = shared.chosen_log_directory(log_dir, settings)
    rule = PairRule(to, for_s, window_s, in_turns=not one_by_one, until_proven=True)

    def begin(candidate: Candidate, rule: PairRule) -> SweepRun:
        seed = new_seed()
        vary = [f"{INJECTION}{candidate.name}={AS_IT_IS},{candidate.value}"]
        plan = plan_of_script(command or (), texts, settings, vary, directory, (), seed, pairs=rule)
        return begin_sweep(log_directory, plan, seed, time.time(), None)

    options = shared.read_checked(texts, settings)
    job = make_script_job(tuple(command), directory, log_directory, options)
    run, view = TryRun(job, rule, begin), View(settings, plain=plain, as_json=as_json)
    if view.on_screen:
        return view.open(log_directory, sweep=run)
    from dlmon.render.try_lines import show_tries

    return show_tries(run, as_json)
