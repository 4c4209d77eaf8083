"""The click options and arguments that several commands share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click

from dlmon.alerts.alert_settings import OFF
from dlmon.cli.candidates import host_names, session_names, slurm_options, values_of
from dlmon.cli.shared import ASCII_HELP, UserError
from dlmon.options.option import Option, UnreadableOption, as_text
from dlmon.options.read import read_duration
from dlmon.options.run_options import OPTIONS
from dlmon.options.settings import read_settings

_Command = TypeVar("_Command", bound=Callable[..., Any])


_TYPED_COMMAND = "dlmon.typed_command"


class WithCommand(click.Command):
    """A command whose arguments may end with -- and a command of the user's own."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--" in args:
            at = args.index("--")
            ctx.meta[_TYPED_COMMAND] = tuple(args[at + 1 :])
            args = args[:at]
        return super().parse_args(ctx, args)


def typed_command() -> tuple[str, ...] | None:
    """Return the words after --; None without a --."""
    command: tuple[str, ...] | None = click.get_current_context().meta.get(_TYPED_COMMAND)
    return command


def options_of(options: Iterable[Option]) -> Callable[[_Command], _Command]:
    """Return a decorator that adds options of `run` to a command.

    The command gets each option's text as typed, or None, and reads it as the form does.
    """
    return together(map(_as_click, options))


def together(options: Iterable[Callable[[Any], Any]]) -> Callable[[_Command], _Command]:
    """Return a decorator that adds options to a command, in this order."""
    in_order = tuple(options)

    def decorate(command: _Command) -> _Command:
        for option in reversed(in_order):
            command = option(command)
        return command

    return decorate


def _as_click(option: Option) -> Callable[[_Command], _Command]:
    if option.is_switch:
        return click.option(
            f"{option.flag}/--no-{option.flag[2:]}" if option.is_setting else option.flag,
            is_flag=True,
            default=None,
            callback=lambda context, parameter, value: None if value is None else as_text(value),
            help=option.help,
        )
    return click.option(
        option.flag,
        metavar=option.values_text,
        shell_complete=values_of(option),
        help=f"{option.help} [default: {option.default_text}]",
    )


class NamedPath(click.Path):
    """A path that must not be empty, which would mean the working directory."""

    def __init__(self, is_folder: bool) -> None:
        super().__init__(file_okay=not is_folder, allow_dash=not is_folder, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        if not str(value).strip():
            raise UnreadableOption(f"{param.opts[0] if param is not None else 'it'} needs a value")
        # The code that writes there reports what is wrong with the path.
        return Path(value)


class Duration(click.ParamType):  # type: ignore[type-arg]  # no class of click 8.1 takes one
    """A duration such as 90s or 2h, in seconds."""

    name = "time"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        return read_duration(param.opts[0] if param is not None else "it", value)


log_dir_option = click.option(
    "--log-dir", metavar="DIR", type=NamedPath(is_folder=True), help=OPTIONS["log_dir"].help
)
json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON on stdout, and nothing else."
)
plain_option = click.option("--plain", is_flag=True, help="Plain lines instead of the live screen.")
verbose_option = click.option(
    "--verbose", is_flag=True, help="Print all figures at the end, not the answer in ten lines."
)
ascii_option = click.option("--ascii/--no-ascii", default=None, help=ASCII_HELP)


link_option = click.option(
    "--link",
    "links",
    metavar="PATH",
    multiple=True,
    help="With commits: a file or folder of your repository that git ignores, such as data, that "
    "each copy of a commit shows too; may be given several times.",
)
slurm_option = click.option(
    "--slurm",
    metavar="OPTIONS",
    shell_complete=slurm_options,
    help="Have Slurm run it: options of sbatch, such as '-p gpu --gres=gpu:1 -t 2:00:00', may be "
    "empty (''). The session is recorded where the nodes see it too (--log-dir), and goes on when "
    "you close dlmon.",
)


def no_alerts_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--no-alerts`, which means `--alert off`."""

    @wraps(command)
    def run(no_alerts: bool, **arguments: Any) -> Any:
        if no_alerts and arguments["alert"] is not None:
            raise UserError("--alert and --no-alerts contradict each other: leave out one")
        return command(**{**arguments, **({"alert": OFF} if no_alerts else {})})

    help = "Send no alerts, whatever config.toml says."
    return click.option("--no-alerts", is_flag=True, help=help)(run)


def _checked_host(
    context: click.Context, parameter: click.Parameter, text: str | None
) -> str | None:
    """Return the host if its name is valid, else refuse it."""
    if text is None:
        return None
    from dlmon.remote.host_names import check_host

    return check_host(text)


def host_option_of(help: str, required: bool = False) -> Callable[[_Command], _Command]:
    """Return the option that names another host."""
    return click.option(
        "--host",
        metavar="HOST",
        required=required,
        callback=_checked_host,
        shell_complete=host_names,
        help=help,
    )


host_option = host_option_of(
    "A session of another machine, which ssh reaches; --log-dir is then one of that machine."
)


def _checked_hosts(
    context: click.Context, parameter: click.Parameter, words: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the named hosts, with the hosts of the named groups of the settings."""
    if not words:
        return ()
    from dlmon.remote.host_names import hosts_from

    return tuple(hosts_from(words, read_settings().hosts))


def hosts_option_of(flag: str, name: str, help: str) -> Callable[[_Command], _Command]:
    """Return an option that names other hosts."""
    return click.option(
        flag,
        name,
        metavar="HOST",
        multiple=True,
        callback=_checked_hosts,
        shell_complete=host_names,
        help=help,
    )


hosts_option = hosts_option_of(
    "--host",
    "hosts",
    "Sessions of another machine, which ssh reaches, or of @GROUP of the settings; may be given "
    "several times. --log-dir is then one of these machines.",
)
session_argument = click.argument("session", metavar="SESSION", shell_complete=session_names)
running_session_argument = click.argument(
    "session", metavar="[SESSION]", required=False, shell_complete=session_names
)
sessions_argument = click.argument(
    "sessions", nargs=-1, metavar="SESSION...", shell_complete=session_names
)
