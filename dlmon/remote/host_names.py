"""The names of hosts: which ones ssh may be given, groups of them, and those of ~/.ssh/config."""

from __future__ import annotations

import glob
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path

from dlmon.records.sanitize import quoted
from dlmon.system.files import MIB, read_regular

GROUP_MARK = "@"
"""What stands before the name of a group where a host may be named too."""


class HostError(ValueError):
    """A host, or a group of hosts, can't be used; the message is a sentence that names it."""


# ---- one host ----

_LONGEST_HOST = 255
_SCHEME = "ssh://"
_FORMS = "write NAME, USER@NAME or ssh://USER@NAME:PORT"
# Neither begins with "-", which would be an option, and a ProxyCommand may hand a shell what stands
# here. A user of a Windows domain has a backslash, and one of a gateway an @.
_USER_NAME = r"(?:\w[\w.+@\\-]*@)?(?:\w[\w.-]*|\[[\w:.%-]+\])"
_PLAIN = re.compile(rf"{_USER_NAME}|(?:\w[\w.+@\\-]*@)?[0-9a-fA-F:]+(?:%\w+)?")
_URI = re.compile(rf"{_SCHEME}{_USER_NAME}(?::[0-9]{{1,5}})?/?")
_WITH_PORT = re.compile(rf"{_USER_NAME}:[0-9]+")


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
    if text.startswith(GROUP_MARK):
        return "a group can't stand here; name one host"
    if _WITH_PORT.fullmatch(text):
        return f"with a port, write {_SCHEME}{text}"
    is_one = (_URI if text.startswith(_SCHEME) else _PLAIN).fullmatch(text)
    return None if is_one and len(text) <= _LONGEST_HOST else _FORMS


# ---- groups of hosts ----


def hosts_from(words: Sequence[str], groups: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the hosts that words name, in order; `@lab` stands for those of the group `lab`.

    Raises:
        HostError: a word is no host, a group is unknown or empty, or a host is named twice.
    """
    found: list[str] = []
    for word in words:
        for host in _members(word, groups) if word.startswith(GROUP_MARK) else (word,):
            if check_host(host) in found:
                raise HostError(f"{quoted(host)} is named twice: name each host once")
            found.append(host)
    return found


def _members(word: str, groups: Mapping[str, Sequence[str]]) -> Sequence[str]:
    members = groups.get(word.removeprefix(GROUP_MARK))
    if members is None:
        known = ", ".join(f"{GROUP_MARK}{each}" for each in groups)
        known = f"known are {known}" if known else "the settings name none"
        raise HostError(f"there is no group {quoted(word)}; {known}")
    if not members:
        raise HostError(f"the group {quoted(word)} is empty: list its hosts in the settings")
    return members


# ---- the hosts that ssh is configured for ----

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
        _read_config(Path(folder, "config"), folder, found, set())
    return list(found)


def _read_config(path: Path, folder: str, found: dict[str, None], read: set[Path]) -> None:
    """Add the hosts of a file that was not read before, and of those that it includes."""
    if path in read or len(read) == _MOST_FILES:
        return
    read.add(path)
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
                    _read_config(Path(included), folder, found, read)


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
