"""The name and note that a person gives a session or a sweep, in a file beside its log.

They are no part of the log, because only the supervisor writes that, and a person may rename a
session at any time.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from dlmon.log.folder import LogError, is_log, reason_of
from dlmon.records.record import record
from dlmon.records.sanitize import clean, quoted
from dlmon.system.files import read_regular
from dlmon.system.private_files import replace_private

LABEL_NAME = "label.json"
LONGEST_NAME, LONGEST_NOTE = 60, 1_000

# These separate items of a list, or make a glob or a path of a word.
_RESERVED = (*",*?[/", ".jsonl")
_MAX_BYTES = 64 * 1024


@record(frozen=True)
class Label:
    """A name, which several sessions may share, and a note."""

    name: str | None = None
    note: str | None = None


def refuse_name(name: str) -> str | None:
    """Return in one sentence why a name is not allowed; None if it is."""
    is_reserved = any(part in name for part in _RESERVED) or runs_before_last(name) is not None
    is_plain = name == clean(name).strip() and not name.startswith("-")
    if 1 <= len(name) <= LONGEST_NAME and is_plain and not is_reserved:
        return None
    return (
        f"{quoted(name)} can't be a name: it has 1 to {LONGEST_NAME} visible characters, none of "
        ", * ? [ /, no hyphen or blank first, and does not end in .jsonl or mean the last session"
    )


def runs_before_last(text: str) -> int | None:
    """Return 0 for `last`, 2 for `last~2`, the log two before it, and None for any other text."""
    match = re.fullmatch(r"last(?:~([0-9]{1,9}))?", text)
    return None if match is None else int(match[1] or 0)


def refuse_note(note: str) -> str | None:
    """Return in one sentence why a note is not allowed; None if it is."""
    if len(note) <= LONGEST_NOTE and note == clean(note):
        return None
    return f"a note is one line of at most {LONGEST_NOTE:,} visible characters"


def read_label(log: Path) -> Label:
    """Return the name and note of a log's session or sweep, without those that aren't allowed.

    Anybody may have written the file, so its texts are cleaned and cut.
    """
    if not is_log(log):
        return Label()
    try:
        fields = json.loads(read_regular(log.with_name(LABEL_NAME), _MAX_BYTES))
    except (OSError, ValueError, RecursionError):
        return Label()
    if not isinstance(fields, dict):
        return Label()
    name, note = (
        clean(text, longest).strip() if isinstance(text := fields.get(key), str) else ""
        for key, longest in (("name", LONGEST_NAME), ("note", LONGEST_NOTE))
    )
    return Label(None if refuse_name(name) else name, note or None)


def write_label(log: Path, label: Label) -> None:
    """Save the name and note of a log's session or sweep.

    Raises:
        LogError: they are not allowed, or the file can't be written.
    """
    problem = None if label.name is None else refuse_name(label.name)
    problem = problem or (None if label.note is None else refuse_note(label.note))
    if problem is None and not is_log(log):
        problem = f"{log} is not a log that dlmon wrote: only sessions and sweeps have names"
    if problem is not None:
        raise LogError(problem)
    fields = {"name": label.name, "note": label.note}
    try:
        replace_private(log.with_name(LABEL_NAME), json.dumps(fields).encode() + b"\n")
    except OSError as error:
        raise LogError(f"the name can't be kept in {log.parent}: {reason_of(error)}") from None
