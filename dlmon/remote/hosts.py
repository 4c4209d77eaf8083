"""The names of hosts: which ones ssh may be given, groups of them, and those of ~/.ssh/config."""

from __future__ import annotations

import difflib
import fnmatch
import glob
import os
import re
from collections.abc import Iterator, Mapping, Sequence
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
        raise HostError(f"{quoted(text)} is no host: {problem}")
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
        return f"ssh takes no {min(refused)} in it"
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
_LARGEST_CONFIG = MIB
_BLANKS = " \t"
_LINE_ENDS = " \t\r\f"
_READ_KEYWORDS = frozenset({"host", "match", "include"})
_LINE = re.compile(r'[ \t\r]*(?:"([^"]*)"|([^ \t\r"=#][^ \t\r"=]*))[ \t\r]*=?[ \t\r]*(.*)')


def configured_hosts(path: Path | None = None) -> list[str]:
    """Return the hosts that ~/.ssh/config, or another such file, names: in order, each once.

    These are the words of its `Host` lines that are no patterns, and of the files that it
    includes, where they can be matched; whatever `Match` asks for is taken to hold. What can't
    be read is skipped.
    """
    folder = os.path.expanduser("~/.ssh")  # noqa: PTH111 - it raises nothing without a home
    config = _Config(folder)
    if path is None and not folder.startswith("~"):
        path = Path(folder, "config")
    if path is not None:
        config.read(str(path))
    return list(config.hosts)


class _Config:
    """Collects the hosts of a configuration of ssh, from no more files than are sane.

    Attributes:
        hosts: the hosts found so far, as keys.
    """

    def __init__(self, folder: str) -> None:
        self.hosts: dict[str, None] = {}
        self._folder = folder
        self._files_left = _MOST_FILES

    def read(
        self, path: str, including: tuple[str, ...] = (), within: tuple[Sequence[str], ...] = ()
    ) -> None:
        """Read a file and what it includes.

        Args:
            path: the file.
            including: the files that include it, the outermost first.
            within: the words of the `Host` lines under which it is included.
        """
        try:
            real_path = os.path.realpath(path)
            if real_path in including or len(including) > _DEEPEST_INCLUDE or not self._files_left:
                return
            self._files_left -= 1
            content = read_regular(Path(path), _LARGEST_CONFIG)
        except (OSError, ValueError):
            return
        if b"\0" in content:
            return
        block: tuple[Sequence[str], ...] = ()
        for keyword, words in _lines(content.decode("utf-8", "surrogateescape")):
            if keyword == "match":
                block = ()
            elif keyword == "host":
                block = (words,)
                self._take(words, within)
            elif keyword == "include":
                for included in self._included(words):
                    self.read(included, (*including, real_path), (*within, *block))

    def _take(self, words: Sequence[str], within: tuple[Sequence[str], ...]) -> None:
        excluded = [word for word in words if word.startswith("!")]
        for word in words:
            if not _is_host(word) or not _matches(word, [word, *excluded]):
                continue
            if all(_matches(word, block) for block in within):
                self.hosts[word] = None

    def _included(self, patterns: Sequence[str]) -> Iterator[str]:
        for pattern in patterns:
            if not pattern:
                continue
            if pattern.startswith("~"):
                path = os.path.expanduser(pattern)  # noqa: PTH111
            else:
                path = os.path.join(self._folder, pattern)  # noqa: PTH118
            if path.startswith("~"):  # whose home nobody knows
                continue
            try:
                yield from sorted(islice(glob.iglob(path), _MOST_FILES))  # noqa: PTH207
            except (OSError, ValueError, re.error):
                continue


def _is_host(word: str) -> bool:
    # ssh looks for what follows the user, and for the name within an address.
    if any(mark in word for mark in "*?!@") or word.startswith(_SCHEME):
        return False
    return _problem(word) is None


def _matches(host: str, patterns: Sequence[str]) -> bool:
    """Return whether the words of a `Host` line match a host."""
    matched = False
    for pattern in patterns:
        if _matches_one(host, pattern.removeprefix("!")):
            if pattern.startswith("!"):
                return False
            matched = True
    return matched


def _matches_one(host: str, pattern: str) -> bool:
    if "*" not in pattern and "?" not in pattern:
        return host == pattern
    # Brackets mean nothing to ssh here.
    return fnmatch.fnmatchcase(host, pattern.replace("[", "[[]"))


def _lines(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the keyword of each line that says something of hosts, and the words after it."""
    for line in text.split("\n"):
        parts = _LINE.match(line.rstrip(_LINE_ENDS))
        keyword = (parts[1] or parts[2] or "").lower() if parts else ""
        if parts is None or keyword not in _READ_KEYWORDS:
            continue
        words = _words(parts[3])
        if words is not None:
            yield keyword, words


def _words(text: str) -> list[str] | None:
    """Return the words of a line as ssh parts them; None where a quote is left open."""
    words: list[str] = []
    word: str | None = None
    quote = ""
    characters = iter(enumerate(text))
    for at, character in characters:
        following = text[at + 1 : at + 2]
        if character == "\\" and following and following in f"'\"\\{'' if quote else ' '}":
            next(characters)
            word = (word or "") + following
        elif not quote and character in _BLANKS:
            if word is not None:
                words.append(word)
            word = None
        elif not quote and character == "#" and word is None:
            break
        elif not quote and character in "'\"":
            quote = character
            word = word or ""
        elif character == quote:
            quote = ""
        else:
            word = (word or "") + character
    if quote:
        return None
    return words if word is None else [*words, word]
