"""`dlmon completion`: print the completion script of a shell, and answer its requests.

The script runs `dlmon` with `COMPLETE_VARIABLE` and the words so far in its environment.
"""

from __future__ import annotations

import contextlib
import os
from io import StringIO

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ShellComplete,
    ZshComplete,
    split_arg_string,
)

from dlmon.cli.shared import COMPLETE_VARIABLE

_PROGRAM = "dlmon"
# Add no space after KEY=, because its value follows.
_NO_BLANK_IN_BASH = "    [[ ${COMPREPLY[0]-} == *= ]] && compopt -o nospace\n"
_WORDS_OF_BASH = 'COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD=$COMP_CWORD'
# Only bash splits words at COMP_WORDBREAKS; the whole line shows the words as typed.
_LINE_OF_BASH = 'COMP_LINE="${COMP_LINE:0:COMP_POINT}" COMP_WORDBREAKS="$COMP_WORDBREAKS"'
_OFFER_IN_ZSH = "_describe -V unsorted completions_with_descriptions -U"
_NO_BLANK_IN_ZSH = f"""local -a no_blank
        [[ $completions_with_descriptions[1] == *=:* ]] && no_blank=(-S '')
        {_OFFER_IN_ZSH} "${{no_blank[@]}}\""""


class _WholeWords(ShellComplete):
    """Offers `--option=value` as one word, as the shell does."""

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem]:
        items = super().get_completions(args, incomplete)
        option, equals, _ = incomplete.partition("=")
        if not (equals and option.startswith("--")):
            return items
        return [
            CompletionItem(f"{option}={item.value}", item.type, item.help)
            if item.type == "plain"
            else item
            for item in items
        ]


class _Bash(_WholeWords, BashComplete):
    """Answers with the part of a word after its last break, which is all that bash replaces."""

    source_template = (
        BashComplete.source_template.replace(
            "    return 0\n", f"{_NO_BLANK_IN_BASH}    return 0\n", 1
        )
        .replace("read type", "read -r type", 1)
        .replace(_WORDS_OF_BASH, _LINE_OF_BASH, 1)
    )
    _replaced_from = 0

    def get_completion_args(self) -> tuple[list[str], str]:
        line = os.environ["COMP_LINE"]
        words = split_arg_string(line)[1:]
        incomplete = "" if line.endswith(" ") and not line.endswith("\\ ") else words.pop()
        breaks = os.environ.get("COMP_WORDBREAKS", "=:@")
        # bash breaks a word after = and :, but before @.
        starts = [incomplete.rfind(mark) + (mark != "@") for mark in "=:@" if mark in breaks]
        self._replaced_from = max(0, *starts)
        return words, incomplete

    def format_completion(self, item: CompletionItem) -> str:
        if item.type != "plain":
            return f"{item.type},{item.value}"
        # A name may have spaces, which bash does not escape.
        word = item.value[self._replaced_from :].replace(" ", "\\ ")
        return f"{item.type},{word}"


class _Zsh(_WholeWords, ZshComplete):
    source_template = ZshComplete.source_template.replace(_OFFER_IN_ZSH, _NO_BLANK_IN_ZSH)


class _Fish(_WholeWords, FishComplete):
    # A value or its help may have commas too.
    source_template = FishComplete.source_template.replace(
        'string split ","', 'string split --max 1 ","'
    )


_SHELLS: dict[str, type[ShellComplete]] = {"bash": _Bash, "zsh": _Zsh, "fish": _Fish}


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
@click.argument("shell", type=click.Choice(list(_SHELLS)))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the completion script of a shell."""
    print(_shell(shell, context.find_root().command).source())


def complete(command: click.Command, instruction: str) -> str:
    """Answer a script's request, such as `bash_complete`; with nothing if an error occurs."""
    shell = instruction.partition("_")[0]
    with contextlib.suppress(Exception), contextlib.redirect_stderr(StringIO()):
        return _shell(shell, command).complete()
    return ""


def _shell(name: str, command: click.Command) -> ShellComplete:
    return _SHELLS[name](command, {}, _PROGRAM, COMPLETE_VARIABLE)
