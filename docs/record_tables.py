"""Write the tables of docs/logs.md from the dataclasses of dlmon/records.

    python docs/record_tables.py

What a field means is its entry under `Attributes:` in the docstring of its class. A unit
test compares the page with what this makes.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import MISSING, Field, fields, is_dataclass
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

from dlmon.records import PHASES, Record, Word
from dlmon.records.sweep import WITHIN, Value

PAGE = Path(__file__).with_name("logs.md")
BEGIN = "<!-- From here on: made by docs/record_tables.py; don't edit. -->"
END = "<!-- To here: made by docs/record_tables.py. -->"

JSON_TYPES: dict[Any, str] = {
    int: "int",
    float: "number",
    str: "string",
    bool: "bool",
    Any: "any",
    Value: "string or number",
    Value | None: "string or number?",
}
EVERYWHERE = {
    "t": "the time of the record, by CLOCK_MONOTONIC.",
    "wall": "the same time, in Unix seconds.",
    "why": "the reason of each field that is null, by its name.",
    "begin": "its start.",
    "end": "its end.",
    "trainer": "as in `Phase`.",
}
"""What fields of these names mean if their class says nothing else: the page says it once."""


class NoMeaning(LookupError):
    """A field that its class doesn't describe."""


def page(text: str) -> str:
    """Return the page with its tables made again."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{tables()}\n{END}{after}"


def tables() -> str:
    """Return a section for each type of record, and below it one for each object in it."""
    parts = []
    described: set[type[Any]] = set()
    for record in get_args(Record):
        parts.append(section(record, f"### {_title(record)}"))
        for part in _objects_in(record):
            if part not in described:
                described.add(part)
                parts.append(section(part, f"#### {part.__name__}"))
    return "\n".join(parts)


def section(cls: type[Any], heading: str) -> str:
    """Return a heading, the prose of the class's docstring, and the table of its fields.

    Fields with the meaning that they have everywhere are only named, below the table.
    """
    parts = [heading, "", describe(cls)[0], ""]
    rows = list(_rows(cls))
    special = [row for name, row in rows if _is_special(name, row)]
    if special:
        parts += ["| field | type | meaning |", "| --- | --- | --- |", *special, ""]
    usual = [f"`{name}`" for name, row in rows if not _is_special(name, row)]
    if usual:
        parts += [f"{', '.join(usual)}.", ""]
    return "\n".join(parts)


def _is_special(name: str, row: str) -> bool:
    return not row.endswith(f" {EVERYWHERE.get(name)} |")


def _rows(cls: type[Any]) -> Iterator[tuple[str, str]]:
    """Yield the name and the row of each field, also of objects that a record holds unfolded."""
    _, meanings = describe(cls)
    hints = get_type_hints(cls)
    for spec in fields(cls):
        hint = hints[spec.name]
        if spec.metadata == WITHIN:
            yield from _rows(hint)
        else:
            name = f"**`{spec.name}`**" if _always(spec) else f"`{spec.name}`"
            yield spec.name, f"| {name} | {_json_type(hint)} | {meanings[spec.name]} |"


def describe(cls: type[Any]) -> tuple[str, dict[str, str]]:
    """Return what a class says of itself, and of each of its fields.

    Raises:
        NoMeaning: it says nothing of one.
    """
    prose, _, attributes = inspect.cleandoc(cls.__doc__ or "").partition("\n\nAttributes:\n")
    listed = {**EVERYWHERE, **_listed(attributes)}
    for spec in fields(cls):
        if spec.name not in listed and spec.metadata != WITHIN:
            raise NoMeaning(f"{cls.__name__}.{spec.name}: say under Attributes what it means")
    return prose, {name: _sentence(meaning) for name, meaning in listed.items()}


def _listed(attributes: str) -> dict[str, str]:
    """Return the entries of an `Attributes:` section."""
    entries = re.split(r"^    (?=\S)", attributes, flags=re.MULTILINE)[1:]
    pairs = (entry.partition(":") for entry in entries)
    return {name: " ".join(text.split()) for name, _, text in pairs}


def _sentence(text: str) -> str:
    return text.replace("`PHASES`", ", ".join(PHASES)).replace("|", "\\|")


def _title(record: type[Any]) -> str:
    kind = f"`{record.TYPE}`"
    several = [each for each in get_args(Record) if each.TYPE == record.TYPE]
    return kind if record is several[0] else f"{kind} with a `count`"


def _always(spec: Field[Any]) -> bool:
    """Return whether a field is written even where nothing is known of it."""
    return spec.default is not None and spec.default_factory is MISSING


def _objects_in(cls: type[Any]) -> list[type[Any]]:
    """Return the dataclasses that a record's fields hold, each before those in it."""
    found: list[type[Any]] = []
    hints = get_type_hints(cls)
    for spec in fields(cls):
        for part in _parts(hints[spec.name]):
            if part in get_args(Record):
                continue
            found += [*([] if spec.metadata == WITHIN else [part]), *_objects_in(part)]
    return found


def _parts(hint: Any) -> list[type[Any]]:
    if isinstance(hint, type) and is_dataclass(hint):
        return [hint]
    return [part for argument in get_args(hint) for part in _parts(argument)]


def _json_type(hint: Any) -> str:
    if hint in JSON_TYPES:
        return JSON_TYPES[hint]
    if isinstance(hint, type) and issubclass(hint, Word):
        return "string"
    if isinstance(hint, type) and is_dataclass(hint):
        return f"[{hint.__name__}](#{hint.__name__.lower()})"
    arguments = get_args(hint)
    if get_origin(hint) is tuple:
        item = _json_type(arguments[0])
        return f"({item})[]" if " or " in item else f"{item}[]"
    if get_origin(hint) is dict:
        return f"{{{_json_type(arguments[1])}}}"
    kinds = [_json_type(each) for each in arguments if each is not NoneType]
    return " or ".join(kinds) + ("?" if NoneType in arguments else "")


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
