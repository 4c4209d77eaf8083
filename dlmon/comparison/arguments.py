"""The arguments of commands, by name. Pure.

It isn't known which options of a script take a value. So a word after an option counts as its
value, unless the commands themselves show that the option takes none.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import zip_longest

# Its path doesn't matter, and its version is compared elsewhere.
_INTERPRETER = re.compile(r"(?:.*[/\\])?(?:python|pypy)[\d.]*(?:\.exe)?", re.DOTALL)

NOT_GIVEN, GIVEN = "not given", "given"
PROGRAM = "program"

_OPTION = re.compile(r"-{1,2}[A-Za-z][^=\s]*")
# As `--lr=0.1`, and as Hydra and env take them: `model.lr=0.1`, `+trainer.fast=1`.
_ASSIGNED = re.compile(r"([-+~]{0,2}[A-Za-z][\w.@/-]*)=(.*)", re.DOTALL)

_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
# These make a name secret anywhere in it; `_SECRETS_LAST` only as the last word, because options of
# models, such as key_dim and num_key_value_heads, have them too.
_SECRETS = {
    *("apikey", "apikeys", "accesskey", "authkey", "privatekey", "secretkey", "secret", "secrets"),
    *("apitoken", "accesstoken", "authtoken", "hftoken", "auth", "password", "passwords", "passwd"),
    *("passphrase", "pwd", "credential", "credentials"),
}
_SECRETS_LAST = {"key", "keys", "token", "pass"}
# After these words, a key or token isn't secret: pad_token, sort_key.
_OF_DATA = {"pad", "eos", "bos", "sep", "cls", "unk", "mask", "sort"}

Words = Sequence[str]


def words_of(name: str) -> list[str]:
    """Return the words in a name such as trainLoss or train_loss, in small letters."""
    return [word.lower() for word in _WORD.findall(name)]


def is_secret(name: str) -> bool:
    """Return whether the name of an argument suggests a secret value."""
    words = words_of(name)
    if not words or _SECRETS.intersection(words):
        return bool(words)
    return words[-1] in _SECRETS_LAST and not _OF_DATA.intersection(words[-2:-1])


def arguments_of(commands: Sequence[Words], script: str | None = None) -> list[dict[str, str]]:
    """Return the arguments of each command, by name; options without a value are `GIVEN`.

    All commands are read together, so that an option means the same in each of them.

    Args:
        commands: their words, the program first.
        script: the file name of the script, from which positional arguments are counted; None
            counts from the program. Neither the script nor an interpreter is an argument.
    """
    switches = {
        word
        for words in commands
        for word, following in zip_longest(words, words[1:])
        if _OPTION.fullmatch(word) and (following is None or not _may_be_value(following, word))
    }
    parsed = [_parse(words, switches) for words in commands]
    # A word after an option, which stands alone in a command without that option, isn't its value.
    positionals = [Counter(positional) for _, positional in parsed]
    for (options, _), ours in zip(parsed, positionals, strict=True):
        for (their_options, _), theirs in zip(parsed, positionals, strict=True):
            switches |= {
                name
                for name, values in options.items()
                if name not in their_options and any(theirs[v] > ours[v] for v in values)
            }
    return [_named(*_parse(words, switches), script) for words in commands]


def _may_be_value(word: str, option: str) -> bool:
    """Return whether a word after an option may be its value.

    After a secret option nearly any word is: a key may begin with a dash, and end with "=".
    """
    if is_secret(option):
        return not word.startswith("--")
    return _OPTION.fullmatch(word) is None and word != "--" and _ASSIGNED.fullmatch(word) is None


def _parse(words: Words, switches: set[str]) -> tuple[dict[str, list[str]], list[str]]:
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
    arguments = {name: ", ".join(values) or GIVEN for name, values in options.items()}
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
        arguments[name] = word
    return arguments
