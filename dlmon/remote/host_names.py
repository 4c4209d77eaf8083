"""Names of hosts: the valid ones, groups of them, and those in ~/.ssh/config."""

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
"""The first character of the name of a group."""


class HostError(ValueError):
    """A host or a group can't be used; the message is a sentence that names it."""


# ---- one host ----

_LONGEST_HOST = 255
_SCHEME = "ssh://"
_FORMS = "write NAME, USER@NAME or ssh://USER@NAME:PORT"
# The name must not begin with "-", as options do, nor have characters that are special to a shell,
# to which a ProxyCommand may pass it. Users of a Windows domain have a backslash in their name,
# users of a gateway an @.
_USER_NAME = r"(?:\w[\w.+@\\-]*@)?(?:\w[\w.-]*|\[[\w:.%-]+\])"
_PLAIN = re.compile(rf"{_USER_NAME}|(?:\w[\w.+@\\-]*@)?[0-9a-fA-F:]+(?:%\w+)?")
_URI = re.compile(rf"{_SCHEME}{_USER_NAME}(?::[0-9]{{1,5}})?/?")
_WITH_PORT = re.compile(rf"{_USER_NAME}:[0-9]+")


def check_host(text: str) -> str:
    """Return the text unchanged if it is a safe argument that names a host for ssh.

    It is NAME, USER@NAME or ssh://USER@NAME:PORT; an IPv6 address may have brackets.

    Raises:
        HostError: it is none of these, or ambiguous.
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
    is_host = (_URI if text.startswith(_SCHEME) else _PLAIN).fullmatch(text)
    return None if is_host and len(text) <= _LONGEST_HOST else _FORMS


# ---- groups of hosts ----


def hosts_from(words: Sequence[str], groups: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the hosts that the words name, in order; `@lab` stands for the hosts of group `lab`.

    Raises:
        HostError: a word is no host, a group is unknown or empty, or a host is named twice.
    """
    hosts: list[str] = []
    for word in words:
        for host in _members(word, groups) if word.startswith(GROUP_MARK) else (word,):
            if check_host(host) in hosts:
                raise HostError(f"{quoted(host)} is named twice: name each host once")
            hosts.append(host)
    return hosts


def _members(word: str, groups: Mapping[str, Sequence[str]]) -> Sequence[str]:
    members = groups.get(word.removeprefix(GROUP_MARK))
    if members is None:
        names = ", ".join(f"{GROUP_MARK}{group}" for group in groups)
        hint = f"known are {names}" if names else "the settings name none"
        raise HostError(f"there is no group {quoted(word)}; {hint}")
    if not members:
        raise HostError(f"the group {quoted(word)} is empty: list its hosts in the settings")
    return members


# ---- hosts in ~/.ssh/config ----

_MOST_FILES = 256
_COMMENT = re.compile(r"(^|\s)#.*")
_EQUALS = re.compile(r"^(\s*\w+)\s*=")


def configured_hosts() -> list[str]:
    """Return the hosts that ~/.ssh/config and the files that it includes name, in order.

    They are the words of `Host` lines that are not patterns. Unreadable files are skipped.
    """
    folder = os.path.expanduser("~/.ssh")  # noqa: PTH111 - it raises nothing without a home
    hosts: dict[str, None] = {}
    if not folder.startswith("~"):
        _read_config(Path(folder, "config"), folder, hosts, set())
    return list(hosts)


def _read_config(path: Path, folder: str, hosts: dict[str, None], files: set[Path]) -> None:
    """Add the hosts of a file, unless it is in `files`, and of the files that it includes."""
    if path in files or len(files) == _MOST_FILES:
        return
    files.add(path)
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
            hosts |= dict.fromkeys(word for word in words if _is_host(word, words))
        elif keyword.lower() == "include":
            for word in words:
                for included in _included(os.path.expanduser(word), folder):  # noqa: PTH111
                    _read_config(Path(included), folder, hosts, files)


def _included(pattern: str, folder: str) -> list[str]:
    try:
        path = os.path.join(folder, pattern)  # noqa: PTH118
        return sorted(islice(glob.iglob(path), _MOST_FILES))  # noqa: PTH207
    except (OSError, ValueError, re.error):
        return []


def _is_host(word: str, words: Sequence[str]) -> bool:
    # ssh compares `Host` lines with the bare name, without a user or a scheme.
    if any(mark in word for mark in "*?!@") or word.startswith(_SCHEME) or f"!{word}" in words:
        return False
    return _problem(word) is None
