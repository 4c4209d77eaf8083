"""Remove private details from a report: other people's processes, users, home folders, hosts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from dlmon.options.run_options import OPTIONS
from dlmon.records import Machine, Record
from dlmon.records.sanitize import clean

HOST, USER, HOME = "(host)", "(user)", "~"

_HOME = re.compile(r"(?:/[\w.+-]+)*/(?:home|homes|Users)/([\w.+-]+)|/root(?![\w.+-])")
_OF_EVERYBODY = ("root", "nobody", "localhost")
# Names of hosts and users; replacing anything else could remove whole texts.
_NAME = re.compile(r"\w[\w.@+-]{1,254}")
_MOST_NAMES = 500
_LONGEST_TEXT = 2_000


class Redaction:
    """Removes private details from records and texts; a full report keeps them."""

    def __init__(self, full: bool = False) -> None:
        self._full = full
        self._names: dict[str, str] = {}
        self._pattern: re.Pattern[str] | None = None

    def learn_names(self, host: str, options: Mapping[str, Any]) -> None:
        """Learn the names of the host and of users from the header of a log."""
        self._learn(host, HOST)
        self._learn(host.partition(".")[0], HOST)
        for value in options.values():
            for match in _HOME.finditer(value) if isinstance(value, str) else ():
                self._learn(match[1], USER)

    def learn_hosts(self, hosts: Sequence[str]) -> None:
        """Learn the names of other hosts; each is replaced by a number."""
        for number, host in enumerate(hosts, 1):
            # An ssh destination may have a user and a port.
            instead = f"(host {number})"
            if len(host) > 1 and host not in _OF_EVERYBODY:
                self._names.setdefault(host, instead)
            self._learn(host.rpartition("@")[2], instead)
        self._pattern = None

    def record(self, record: Record) -> Record:
        """Return a record without users and commands of processes; learn the users' names."""
        if self._full or not isinstance(record, Machine) or not record.processes:
            return record
        for row in record.processes:
            self._learn(row.user, USER)
        rows = tuple(replace(row, user=None, command=None, why={}) for row in record.processes)
        return replace(record, processes=rows)

    def options(self, options: dict[str, Any]) -> dict[str, Any]:
        """Return the options of a run without the command line of a script."""
        if self._full:
            return options
        return {name: self.value(options[name]) for name in OPTIONS if name in options}

    def value(self, value: Any) -> Any:
        """Return a JSON value with all its texts redacted."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {key: self.value(part) for key, part in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.value(part) for part in value]
        return value

    def text(self, text: str) -> str:
        """Return a text without names and home folders, cut to the longest that a report shows."""
        return clean(text if self._full else self._without_names(text), _LONGEST_TEXT)

    def _without_names(self, text: str) -> str:
        text = _HOME.sub(HOME, text)
        if not self._names:
            return text
        if self._pattern is None:
            longest_first = sorted(self._names, key=len, reverse=True)
            names = "|".join(re.escape(name) for name in longest_first)
            self._pattern = re.compile(rf"(?<![\w-])(?:{names})(?![\w-])")
        return self._pattern.sub(lambda match: self._names[match[0]], text)

    def _learn(self, name: str | None, instead: str) -> None:
        if not name or name in _OF_EVERYBODY or not _NAME.fullmatch(name):
            return
        if name not in self._names and len(self._names) < _MOST_NAMES:
            self._names[name] = instead
            self._pattern = None
