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
    int: "integer",
    float: "number",
    str: "string",
    bool: "boolean",
    Any: "any",
    Value: "string or number",
    Value | None: "string, number or null",
}
EVERYWHERE = {
    "t": "When, by CLOCK_MONOTONIC, in nanoseconds.",
    "wall": "When, in Unix seconds.",
    "why": "The reason of each field that is null, by its name.",
}
"""What fields of these names mean where their class says nothing else."""


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
    """Return a heading, what the class says of itself, and the table of its fields."""
    head = "| field | JSON type | always | meaning |\n| --- | --- | --- | --- |"
    return "\n".join([heading, "", describe(cls)[0], "", head, *_rows(cls), ""])


def _rows(cls: type[Any]) -> Iterator[str]:
    """Yield the rows of a class's fields; what stands within the record has its rows there."""
    _, meanings = describe(cls)
    hints = get_type_hints(cls)
    for spec in fields(cls):
        hint = hints[spec.name]
        if spec.metadata == WITHIN:
            yield from _rows(hint)
        else:
            always = "yes" if _always(spec) else ""
            yield f"| `{spec.name}` | {_json_type(hint)} | {always} | {meanings[spec.name]} |"


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
    text = text.replace("`PHASES`", ", ".join(PHASES)).replace("|", "\\|")
    return text[0].upper() + text[1:]


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
        return f"object: [{hint.__name__}](#{hint.__name__.lower()})"
    arguments = get_args(hint)
    if get_origin(hint) is tuple:
        return f"array of {_json_type(arguments[0]).removeprefix('object: ')}"
    if get_origin(hint) is dict:
        return f"object of {_json_type(arguments[1])}"
    known = [_json_type(each) for each in arguments if each is not NoneType]
    return " or ".join([*known, "null"] if NoneType in arguments else known)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
