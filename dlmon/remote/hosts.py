"""The names of hosts: which ones ssh may be given, groups of them, and those of ~/.ssh/config."""

from __future__ import annotations

import difflib
import glob
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path

from dlmon.files import MIB, read_regular
from dlmon.records.sanitize import clean, quoted

GROUP_MARK = "@"
"""What stands before the name of a group where a host may be named too."""


class HostError(ValueError):
    """A host, or a group of hosts, can't be used; the message is a sentence that names it."""


# ---- one host ----

_LONGEST_HOST = 255
_LARGEST_PORT = 65_535
_SCHEME = "ssh://"
_FORMS = "write NAME, USER@NAME or ssh://USER@NAME:PORT"
# What stands behind %, ssh puts into characters.
_URI = re.compile(
    r"(?:(?P<user>[^%]*)@)?(?P<name>\[[^\[\]]+\]|[A-Za-z0-9_.-]+)(?::(?P<port>[0-9]+))?/?"
)
_BRACKETED = re.compile(r"\[[\w:.%-]+\]")
_WITH_PORT = re.compile(r"[^:]+:\d+")
# ssh refuses these too, for a ProxyCommand may hand a shell what is typed. A user of a Windows
# domain has a backslash.
_NOT_IN_NAME = frozenset("'`\"$\\;&<>|(){}")
_NOT_IN_USER = frozenset("'`\";&<>|(){}")


def check_host(text: str) -> str:
    """Return a host as it was given, if ssh may be given it as one argument behind `--`.

    It is NAME, USER@NAME or ssh://USER@NAME:PORT; an IPv6 address may stand in brackets.

    Raises:
        HostError: it is none of these, or could be taken for something else.
    """
    problem = _problem(text)
    if problem:
        raise HostError(f"{quoted(text)} is not a host: {problem}")
    return text


def _problem(text: str) -> str | None:
    if not text:
        return _FORMS
    if len(text) > _LONGEST_HOST:
        return f"it is longer than {_LONGEST_HOST} characters"
    if not text.isprintable() or any(map(str.isspace, text)) or clean(text) != text:
        return "it may hold neither blanks nor characters that can't be seen"
    if text.startswith(GROUP_MARK):
        return "a group can't stand here; name one host"
    if text.startswith(_SCHEME):
        parts = _URI.fullmatch(text.removeprefix(_SCHEME))
        if parts is None:
            return _FORMS
        user, name, port = parts["user"], parts["name"], parts["port"]
        if port is not None and not 1 <= int(port) <= _LARGEST_PORT:
            return f"a port is a number from 1 to {_LARGEST_PORT}"
    else:
        before, at, name = text.rpartition("@")
        user = before if at else None
        if _WITH_PORT.fullmatch(name):
            return f"with a port, write {_SCHEME}{text}"
    if user == "":
        return 'the user is missing before "@"'
    if not name:
        return 'the name is missing after "@"'
    if name.startswith("-") or (user or "").startswith("-"):
        return 'neither a name nor a user may begin with "-"'
    refused = [*(_NOT_IN_NAME & set(name)), *(_NOT_IN_USER & set(user or ""))]
    if refused:
        return f"ssh allows no {min(refused)} in it"
    if ("[" in name or "]" in name) and not _BRACKETED.fullmatch(name):
        return "brackets may stand around an IPv6 address only, such as [::1]"
    return None


# ---- groups of hosts ----


def hosts_from(words: Sequence[str], groups: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the hosts that words name, in order; `@lab` stands for those of the group `lab`.

    Raises:
        HostError: a word is no host, a group is unknown or empty, or a host is named twice.
    """
    named_by: dict[str, str] = {}
    for word in words:
        for host in _members(word, groups) if word.startswith(GROUP_MARK) else (word,):
            check_host(host)
            if host in named_by:
                raise HostError(_named_twice(host, named_by[host], word))
            named_by[host] = word
    return list(named_by)


def _members(word: str, groups: Mapping[str, Sequence[str]]) -> Sequence[str]:
    name = word.removeprefix(GROUP_MARK)
    if name not in groups:
        raise HostError(f"there is no group {quoted(word)}; {_known_groups(name, groups)}")
    members = groups[name]
    if not members:
        raise HostError(f"the group {quoted(word)} is empty: list its hosts in the settings")
    return members


def _known_groups(name: str, groups: Mapping[str, Sequence[str]]) -> str:
    nearest = difflib.get_close_matches(name, groups, n=1)
    if nearest:
        return f"did you mean {GROUP_MARK}{nearest[0]}?"
    if groups:
        return f"known are {', '.join(f'{GROUP_MARK}{each}' for each in groups)}"
    return "the settings name none"


def _named_twice(host: str, before: str, now: str) -> str:
    if before == now:
        of_group = "" if now == host else f" of {quoted(now)}"
        return f"{quoted(host)}{of_group} is named twice: name each host once"
    return f"{quoted(host)} is named by {quoted(before)} and by {quoted(now)}: name each host once"


# ---- the hosts that ssh is configured for ----

_DEEPEST_INCLUDE = 16
_MOST_FILES = 256
_COMMENT = re.compile(r"(^|\s)#.*")
_EQUALS = re.compile(r"^(\s*\w+)\s*=")


def configured_hosts() -> list[str]:
    """Return the hosts that ~/.ssh/config names: in order, each once.

    These are the words of its `Host` lines that are no patterns, and of the files that it
    includes. What can't be read is skipped.
    """
    folder = os.path.expanduser("~/.ssh")  # noqa: PTH111 - it raises nothing without a home
    found: dict[str, None] = {}
    if not folder.startswith("~"):
        _read_config(Path(folder, "config"), folder, found, [_MOST_FILES])
    return list(found)


def _read_config(
    path: Path, folder: str, found: dict[str, None], files_left: list[int], depth: int = 0
) -> None:
    if depth > _DEEPEST_INCLUDE or not files_left[0]:
        return
    files_left[0] -= 1
    try:
        text = read_regular(path, MIB).decode("utf-8", "surrogateescape")
    except (OSError, ValueError):
        return
    for line in text.splitlines():
        try:
            keyword, *words = shlex.split(_EQUALS.sub(r"\1 ", _COMMENT.sub("", line))) or [""]
        except ValueError:  # a quote is left open
            continue
        if keyword.lower() == "host":
            found |= dict.fromkeys(word for word in words if _is_host(word, words))
        elif keyword.lower() == "include":
            for word in words:
                for included in _included(os.path.expanduser(word), folder):  # noqa: PTH111
                    _read_config(Path(included), folder, found, files_left, depth + 1)


def _included(pattern: str, folder: str) -> list[str]:
    try:
        path = os.path.join(folder, pattern)  # noqa: PTH118
        return sorted(islice(glob.iglob(path), _MOST_FILES))  # noqa: PTH207
    except (OSError, ValueError, re.error):
        return []


def _is_host(word: str, words: Sequence[str]) -> bool:
    # ssh looks for what follows the user, and for the name within an address.
    if any(mark in word for mark in "*?!@") or word.startswith(_SCHEME) or f"!{word}" in words:
        return False
    return _problem(word) is None
