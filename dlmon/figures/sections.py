"""What a view is made of: sections, of no format yet. Each renderer writes every kind of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, TypeVar

Row = tuple[str, str]
"""A name and its text."""

Kind = Literal["verdict", "good", "warning", "list", "plain"]
S = TypeVar("S")


@dataclass(frozen=True)
class Heading:
    """The beginning of what is said of one session, sweep or comparison.

    Attributes:
        text: what it is called.
        facts: what ran, when and where.
    """

    text: str
    facts: tuple[str, ...] = ()


@dataclass(frozen=True)
class Note:
    """Sentences.

    Attributes:
        kind: a verdict, whose first sentence stands out; what speaks for figures, or against them;
            a list; or what stands below something else.
    """

    sentences: tuple[str, ...]
    kind: Kind = "plain"
    heading: str = ""


@dataclass(frozen=True)
class Figures:
    """Names, each with its figure as text."""

    heading: str
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Table:
    """Rows under headings.

    Attributes:
        numeric: which columns hold numbers.
        left_out: how many rows are not here.
    """

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: tuple[bool, ...] = ()
    left_out: int = 0
    heading: str = ""


@dataclass(frozen=True)
class Bar:
    """One bar: its `kind` is this, earlier or published, or empty."""

    label: str
    value: float
    text: str
    kind: str = ""
    note: str = ""


@dataclass(frozen=True)
class Bars:
    """Bars beside each other.

    Attributes:
        per: what a value is of, such as per epoch.
        are_parts: they are parts of a whole, whose lengths are true to their values.
    """

    heading: str
    bars: tuple[Bar, ...]
    per: str = ""
    are_parts: bool = False


@dataclass(frozen=True)
class Code:
    """Lines as they are."""

    heading: str
    lines: tuple[str, ...]


@dataclass(frozen=True)
class OverTime:
    """Where the charts over time stand."""

    heading: str = "Over time"


@dataclass(frozen=True)
class Point:
    """One combination on the axis of a curve; `y` is None where it has no figure."""

    x: float
    label: str
    y: float | None


@dataclass(frozen=True)
class Curves:
    """What the combinations of a sweep took, along what was varied.

    Attributes:
        title: the quantity, and what it is drawn against.
        lines: points from left to right, by the names of the lines.
    """

    title: str
    lines: dict[str, tuple[Point, ...]]
    heading: str = ""


Section = Heading | Note | Figures | Table | Bars | Code | OverTime | Curves


# What we call things ourselves, whatever a host or a user is called.
_OWN = ("kind", "heading", "per")


def with_texts(part: S, text: Callable[[str], str]) -> S:
    """Return a section, or a part of one, with `text` applied to each text in it."""

    def applied(value: Any) -> Any:
        if isinstance(value, str):
            return text(value)
        if isinstance(value, tuple):
            return tuple(map(applied, value))
        if isinstance(value, dict):
            return {text(name): applied(each) for name, each in value.items()}
        if hasattr(value, "__dataclass_fields__"):
            names = (one.name for one in fields(value) if one.name not in _OWN)
            return replace(value, **{name: applied(getattr(value, name)) for name in names})
        return value

    changed: S = applied(part)
    return changed
