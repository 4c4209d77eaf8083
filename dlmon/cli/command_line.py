"""The command line of dlmon: find the command, and read its arguments."""

from __future__ import annotations

import difflib
from importlib import import_module
from typing import TYPE_CHECKING

import click

from dlmon import __version__
from dlmon.cli.shared import ASCII_HELP, UserError, open_terminal_ui, refuse_script
from dlmon.exit_codes import INTERRUPTED_BY_USER
from dlmon.records.sanitize import SHOWN_LENGTH, clean

if TYPE_CHECKING:
    from dlmon.cli.start import ShowScreen

# The module and the function of each command; a module is imported when its command is named.
COMMANDS = {
    "run": "run.run",
    "exec": "exec.exec_script",
    "sweep": "sweep.sweep",
    "ab": "ab.ab",
    "try": "tries.try_script",
    "attach": "sessions.attach",
    "replay": "replay.replay",
    "stop": "sessions.stop",
    "stack": "stack.stack",
    "profile": "stack.profile",
    "sessions": "sessions.sessions",
    "name": "sessions.name",
    "prune": "prune.prune",
    "fetch": "fetch.fetch",
    "compare": "compare.compare",
    "report": "report.report",
    "export": "export.export",
    "metrics": "metrics.metrics",
    "list": "list.list_workloads",
    "watch": "watch.watch",
    "alerts": "alerts.alerts",
    "mcp": "mcp.mcp",
    "doctor": "doctor.doctor",
    "completion": "completion.completion",
}

# Messages for missing arguments, by their metavar.
_MISSING = {
    "WORKLOAD": "say which workload; dlmon list shows them",
    "SESSION": "say which session: last, or an id or a name that dlmon sessions lists",
    "BASE": "say which sessions: dlmon compare BASE NEW",
    "NEW": "say which session to compare it with: dlmon compare BASE NEW",
    "HOST": "say from which machine: --host HOST, as ssh knows it",
}
_MAX_LENGTH = 400


def sentence_of(error: click.UsageError) -> str:
    """Return click's message about wrong arguments as one sentence."""
    if isinstance(error, click.MissingParameter) and error.param is not None:
        sentence = _MISSING.get(error.param.metavar or "")
        if sentence is not None:
            return sentence
    message = error.format_message()
    if isinstance(error, click.NoSuchOption) and error.possibilities:
        options = ", ".join(error.possibilities)
        message = f"{error.message.rstrip('.')}, did you mean {options}?"
    words = [clean(word, SHOWN_LENGTH) for word in message.split()]
    message = clean(" ".join(words), _MAX_LENGTH)
    see_help = "" if error.ctx is None else f"; see {error.ctx.command_path} --help"
    return f"{message[:1].lower()}{message[1:].rstrip('.')}{see_help}"


class _Commands(click.Group):
    """The commands, each imported only when it is named, to keep every start short."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, name = COMMANDS[cmd_name].split(".")
        command = getattr(import_module(f"dlmon.cli.{module}"), name)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        refuse_script(name)
        near = difflib.get_close_matches(name[:SHOWN_LENGTH], COMMANDS, n=1)
        if name not in COMMANDS and near and not ctx.resilient_parsing:
            ctx.fail(f"No such command {name!r}, did you mean {near[0]}?")
        return super().resolve_command(ctx, args)


@click.group(
    cls=_Commands,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Watch neural networks train: their speed and the hardware on one time axis.\n\n"
    "\b\n"
    "  dlmon run cifar10-cnn           train one of the networks that come with dlmon\n"
    "  dlmon exec -- python train.py   run a script of your own, unchanged\n"
    "  dlmon watch HOST                watch a remote machine, over ssh\n"
    "  dlmon sessions                  list the recorded sessions\n\n"
    "Start a run with --alert https://ntfy.sh/my-topic to get a message when it ends, fails, "
    "stalls or gets slow.\n\n"
    "Without a command it opens the terminal UI, where all four can be chosen.\n\n"
    "Training and live sensors need Linux, or WSL on Windows; on macOS dlmon can only watch other "
    "machines and read logs. Its own networks train on random data of the real shape, unless Keras "
    "has cached the real data (run --data real downloads them).",
)
@click.version_option(__version__, message="dlmon %(version)s", help="Print the version.")
@click.option("--ascii/--no-ascii", default=None, help=ASCII_HELP)
@click.pass_context
def command_line(context: click.Context, ascii: bool | None) -> int | None:
    """Open the terminal UI if no command is named."""
    command = context.invoked_subcommand
    if command is not None:
        if ascii is not None:
            from dlmon.render.console import print_in_ascii

            print_in_ascii(ascii)
            context.default_map = {command: {"ascii": ascii}}
        return None
    return open_terminal_ui(context.obj, ascii)


def run_command(arguments: list[str], show: ShowScreen | None = None) -> int | None:
    """Run a command, and return its exit code; None means 0. `show` opens a screen.

    Raises:
        UserError: the arguments are wrong.
    """
    try:
        # Not `command_line.main`, which reports a closed pipe as a failure.
        with command_line.make_context("dlmon", arguments, obj=show) as context:
            exit_code: int | None = command_line.invoke(context)
            return exit_code
    except click.exceptions.Exit as leaving:
        return leaving.exit_code
    except click.UsageError as error:
        raise UserError(sentence_of(error)) from None
    except click.Abort:
        return INTERRUPTED_BY_USER
