"""`dlmon completion`: the script that lets a shell complete words, and the answers to it.

The script runs `dlmon` with `COMPLETE_VARIABLE` and the words so far in its environment.
"""

from __future__ import annotations

import contextlib
import os
from io import StringIO
from itertools import pairwise

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ShellComplete,
    ZshComplete,
    split_arg_string,
)

from dlmon.cli.main import COMPLETE_VARIABLE
from dlmon.cli.shared import UserError
from dlmon.records.sanitize import quoted

_PROGRAM = "dlmon"
# Where bash parts a word for itself, as no other shell does (COMP_WORDBREAKS).
_BREAKS = frozenset("=:@")
# After KEY= a value follows, and no blank.
_NO_BLANK_IN_BASH = "    [[ ${COMPREPLY[0]-} == *= ]] && compopt -o nospace\n"
_WORDS_OF_BASH = "COMP_CWORD=$COMP_CWORD"
# What stood between the words, they don't tell.
_LINE_OF_BASH = 'COMP_LINE="$COMP_LINE"'
_OFFER_IN_ZSH = "_describe -V unsorted completions_with_descriptions -U"
_NO_BLANK_IN_ZSH = f"""local -a no_blank
        [[ $completions_with_descriptions[1] == *=:* ]] && no_blank=(-S '')
        {_OFFER_IN_ZSH} "${{no_blank[@]}}\""""


class _WholeWords(ShellComplete):
    """Offers `--option=value` as one word, as the shell sees it."""

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem]:
        found = super().get_completions(args, incomplete)
        option, equals, _ = incomplete.partition("=")
        if not (equals and option.startswith("--")):
            return found
        return [
            CompletionItem(f"{option}={item.value}", item.type, item.help)
            if item.type == "plain"
            else item
            for item in found
        ]


class _Bash(_WholeWords, BashComplete):
    """Joins what bash has parted, and answers with the part that bash asks for."""

    source_template = (
        BashComplete.source_template.replace(
            "    return 0\n", f"{_NO_BLANK_IN_BASH}    return 0\n", 1
        )
        .replace("read type", "read -r type", 1)
        .replace(_WORDS_OF_BASH, f"{_WORDS_OF_BASH} {_LINE_OF_BASH}", 1)
    )
    _begun = 0

    def get_completion_args(self) -> tuple[list[str], str]:
        pieces = split_arg_string(os.environ["COMP_WORDS"])
        last = int(os.environ["COMP_CWORD"])
        current = pieces[last] if last < len(pieces) else ""
        words: list[str] = []
        before = ""
        marks = _marks_after_blanks(os.environ.get("COMP_LINE", ""))
        marks_before = pieces[0].count("@") if pieces else 0
        for piece in [*pieces[1:last], current]:
            begins = piece.startswith("@") and marks[marks_before : marks_before + 1] != [False]
            if words and piece and not begins and (_is_break(before) or _is_break(piece)):
                words[-1] += piece
            else:
                words.append(piece)
            before = piece
            marks_before += piece.count("@")
        *arguments, incomplete = words
        self._begun = len(incomplete) - (0 if _is_break(current) else len(current))
        # bash parts a word before an @, and after it only where it names the words.
        if incomplete[: self._begun].endswith("@"):
            self._begun -= 1
        return arguments, incomplete

    def format_completion(self, item: CompletionItem) -> str:
        if item.type != "plain":
            return f"{item.type},{item.value}"
        # A name may have blanks, and bash puts the words as they come.
        word = item.value[self._begun :].replace(" ", "\\ ")
        return f"{item.type},{word}"


class _Zsh(_WholeWords, ZshComplete):
    source_template = ZshComplete.source_template.replace(_OFFER_IN_ZSH, _NO_BLANK_IN_ZSH)


class _Fish(_WholeWords, FishComplete):
    # A value, or what is said of it, may have commas too.
    source_template = FishComplete.source_template.replace(
        'string split ","', 'string split --max 1 ","'
    )


_SHELLS: dict[str, type[ShellComplete]] = {"bash": _Bash, "zsh": _Zsh, "fish": _Fish}


def _shells(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    return [shell for shell in _SHELLS if shell.startswith(incomplete)]


HELP = """Print the script that lets a shell complete commands, options, workloads and sessions.

\b
bash, from the next shell on:
  dlmon completion bash > ~/.local/share/bash-completion/completions/dlmon
zsh, with a folder that $fpath names:
  dlmon completion zsh > ~/.zfunc/_dlmon
fish:
  dlmon completion fish > ~/.config/fish/completions/dlmon.fish
"""


@click.command(help=HELP, short_help="Print the script for completion in a shell.")
@click.argument("shell", metavar="bash|zsh|fish", required=False, shell_complete=_shells)
@click.pass_context
def completion(context: click.Context, shell: str | None) -> None:
    """Print the script of a shell."""
    known = "bash, zsh or fish"
    if shell is None:
        raise UserError(f"say which shell: {known}")
    if shell not in _SHELLS:
        raise UserError(f"there is no completion for {quoted(shell)}: say {known}")
    print(_shell(shell, context.find_root().command).source())


def complete(command: click.Command, instruction: str) -> str:
    """Return what a script's question is answered with; nothing where something is wrong.

    Args:
        command: what is completed.
        instruction: what the script says, such as `bash_complete`.
    """
    shell = instruction.partition("_")[0]
    with contextlib.suppress(Exception), contextlib.redirect_stderr(StringIO()):
        return _shell(shell, command).complete()
    return ""


def _shell(name: str, command: click.Command) -> ShellComplete:
    return _SHELLS[name](command, {}, _PROGRAM, COMPLETE_VARIABLE)


def _marks_after_blanks(line: str) -> list[bool]:
    """Return for each @ of a line whether a word begins with it."""
    return [before.isspace() for before, mark in pairwise(line) if mark == "@"]


def _is_break(piece: str) -> bool:
    return bool(piece) and _BREAKS.issuperset(piece)
