"""Which arguments of commands differ. Pure.

What takes a value is not known of somebody's script. So a word behind an option is taken for its
value, unless the commands themselves show that the option takes none.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import zip_longest

# Which one it was says its version; where it lies makes no difference.
_INTERPRETER = re.compile(r"(?:.*[/\\])?(?:python|pypy)[\d.]*(?:\.exe)?", re.DOTALL)

NOT_GIVEN, GIVEN = "not given", "given"
PROGRAM = "program"

_OPTION = re.compile(r"-{1,2}[A-Za-z][^=\s]*")
# As `--lr=0.1`, and as Hydra and env take them: `model.lr=0.1`, `+trainer.fast=1`.
_ASSIGNED = re.compile(r"([-+~]{0,2}[A-Za-z][\w.@/-]*)=(.*)", re.DOTALL)

_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
# Wherever one of these stands in a name, and where it is the last word: of a model's options, such
# as key_dim and num_key_value_heads, many have these as well.
_SECRETS = {
    *("apikey", "apikeys", "accesskey", "authkey", "privatekey", "secretkey", "secret", "secrets"),
    *("apitoken", "accesstoken", "authtoken", "hftoken", "auth", "password", "passwords", "passwd"),
    *("passphrase", "pwd", "credential", "credentials"),
}
_SECRETS_LAST = {"key", "keys", "token", "pass"}
# Before these, a key or a token is no secret: those of a tokenizer, and what is sorted by.
_OF_DATA = {"pad", "eos", "bos", "sep", "cls", "unk", "mask", "sort"}

Words = Sequence[str]


def is_secret(name: str) -> bool:
    """Return whether an argument is called as those are whose values are nobody else's business."""
    words = [word.lower() for word in _WORD.findall(name)]
    if not words or _SECRETS.intersection(words):
        return bool(words)
    return words[-1] in _SECRETS_LAST and not _OF_DATA.intersection(words[-2:-1])


def arguments_of(commands: Sequence[Words], script: str | None = None) -> list[dict[str, str]]:
    """Return the arguments of each command, by name; options that take no value are `GIVEN`.

    All commands are read together, so that an option is read alike in each of them.

    Args:
        commands: their words, the program first.
        script: what of a command the positional arguments are counted from, by the end of its path;
            None counts from the program. It is no argument itself, nor is an interpreter.
    """
    switches = {
        word
        for words in commands
        for word, following in zip_longest(words, words[1:])
        if _OPTION.fullmatch(word) and (following is None or not _may_be_value(following, word))
    }
    read = [_read(words, switches) for words in commands]
    # A word behind an option here, and by itself where that option isn't given, is no value of it.
    alone = [Counter(positional) for _, positional in read]
    for (options, _), ours in zip(read, alone, strict=True):
        for (others, _), theirs in zip(read, alone, strict=True):
            switches |= {
                name
                for name, values in options.items()
                if name not in others and any(theirs[value] > ours[value] for value in values)
            }
    return [_named(*_read(words, switches), script) for words in commands]


def _may_be_value(word: str, option: str) -> bool:
    """Whether a word behind an option is one that it may take.

    What stands behind an option that is called as secrets are is no name to be shown: a key may
    begin as a short option does, and in base64 it ends as an assignment does.
    """
    if is_secret(option):
        return not word.startswith("--")
    return _OPTION.fullmatch(word) is None and word != "--" and _ASSIGNED.fullmatch(word) is None


def _read(words: Words, switches: set[str]) -> tuple[dict[str, list[str]], list[str]]:
    """Return the values of each option, and the positional arguments."""
    options: dict[str, list[str]] = {}
    positional: list[str] = []
    waiting: str | None = None
    for word in words:
        assigned = _ASSIGNED.fullmatch(word)
        if waiting is not None and _may_be_value(word, waiting):
            options[waiting].append(word)
            waiting = None
        elif assigned:
            options.setdefault(assigned[1], []).append(assigned[2])
            waiting = None
        elif _OPTION.fullmatch(word):
            options.setdefault(word, [])
            waiting = None if word in switches else word
        elif word != "--":
            positional.append(word)
    return options, positional


def _named(
    options: dict[str, list[str]], positional: list[str], script: str | None
) -> dict[str, str]:
    found = {name: ", ".join(values) or GIVEN for name, values in options.items()}
    ends = (
        number
        for number, word in enumerate(positional)
        if script and word.replace("\\", "/").rpartition("/")[2] == script
    )
    first = next(ends, 0)
    for number, word in enumerate(positional):
        place = number - first
        is_before = number == 0 or place < 0
        if (is_before and _INTERPRETER.fullmatch(word)) or (place == 0 and number > 0):
            continue
        if number == 0:
            name = PROGRAM
        else:
            name = f"argument {place}" if place > 0 else f"word {number} before the script"
        found[name] = word
    return found
