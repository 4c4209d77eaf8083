"""Leave out of a report what is nobody else's business, unless all of it was asked for.

Other people's processes, user names, home folders, the names of hosts, and command lines.
"""

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
# What hosts and users are called: anything else in their place would take whole texts away.
_NAME = re.compile(r"\w[\w.@+-]{1,254}")
_MOST_NAMES = 500
_LONGEST_TEXT = 2_000


class Redaction:
    """Takes out of records and texts what a report doesn't show; a full one shows all."""

    def __init__(self, full: bool = False) -> None:
        self._full = full
        self._names: dict[str, str] = {}
        self._pattern: re.Pattern[str] | None = None

    def learn_names(self, host: str, options: Mapping[str, Any]) -> None:
        """Take the names that the first line of a log brings: of its host, and of users."""
        self._learn(host, HOST)
        self._learn(host.partition(".")[0], HOST)
        for value in options.values():
            for found in _HOME.finditer(value) if isinstance(value, str) else ():
                self._learn(found[1], USER)

    def learn_hosts(self, hosts: Sequence[str]) -> None:
        """Take the names of other machines, each of which is called by a number in their place."""
        for number, host in enumerate(hosts, 1):
            # As ssh takes it, a host may have a user and a port beside its name.
            instead = f"(host {number})"
            if len(host) > 1 and host not in _OF_EVERYBODY:
                self._names.setdefault(host, instead)
            self._learn(host.rpartition("@")[2], instead)
        self._pattern = None

    def record(self, record: Record) -> Record:
        """Return a record without the users and command lines of processes; learn the users."""
        if self._full or not isinstance(record, Machine) or not record.processes:
            return record
        for row in record.processes:
            self._learn(row.user, USER)
        rows = tuple(replace(row, user=None, command=None, why={}) for row in record.processes)
        return replace(record, processes=rows)

    def options(self, options: dict[str, Any]) -> dict[str, Any]:
        """Return the options of a run; of a script of somebody's own, not its command line."""
        if self._full:
            return options
        return {name: self.value(options[name]) for name in OPTIONS if name in options}

    def value(self, value: Any) -> Any:
        """Return a value of JSON with each text in it redacted."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {key: self.value(part) for key, part in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.value(part) for part in value]
        return value

    def text(self, text: str) -> str:
        """Return a text without names and home folders, and not longer than a report has room."""
        return clean(text if self._full else self._without_names(text), _LONGEST_TEXT)

    def _without_names(self, text: str) -> str:
        text = _HOME.sub(HOME, text)
        if not self._names:
            return text
        if self._pattern is None:
            longest_first = sorted(self._names, key=len, reverse=True)
            names = "|".join(re.escape(name) for name in longest_first)
            self._pattern = re.compile(rf"(?<![\w-])(?:{names})(?![\w-])")
        return self._pattern.sub(lambda found: self._names[found[0]], text)

    def _learn(self, name: str | None, instead: str) -> None:
        if not name or name in _OF_EVERYBODY or not _NAME.fullmatch(name):
            return
        if name not in self._names and len(self._names) < _MOST_NAMES:
            self._names[name] = instead
            self._pattern = None
