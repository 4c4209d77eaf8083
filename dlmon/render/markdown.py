"""Write a report as Markdown, for an issue or a README.

Texts that aren't plain words and figures go into code spans, so that they make no link, picture,
HTML or mention.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from dlmon import __version__
from dlmon.figures.report.report import Report
from dlmon.figures.sections import (
    Bars,
    Code,
    Figures,
    Heading,
    LineChart,
    Note,
    OverTime,
    Section,
    Table,
)

# Words and figures with signs that mean nothing in Markdown, and don't begin a list or a line.
_PLAIN = re.compile(
    r"(?![-+](?:[-+ ]|$)|\d+[.)](?: |$))(?:[^\W_]|[ .,;:%±×–…()'’▶·°²³✓⚠«»?+-]|/(?!/)|~(?!~)"
    # A single sign as in fused=True is safe; several may be read as highlighting.
    r"|(?<=[^\W_])=(?=[^\W_]))*"
)
_LINK = re.compile(r"www\.|https?:|ftp:|mailto:", re.IGNORECASE)
_MOST_EPOCHS = 20


def markdown_of(report: Report) -> str:
    """Return a report as Markdown."""
    parts = [part for section in report.sections for part in written(section)]
    parts.append(f"Made by dlmon {inline(__version__)}.")
    return "\n\n".join(parts) + "\n"


def inline(text: str) -> str:
    """Return a text without any Markdown meaning, for a line or a cell of a table."""
    text = " ".join(text.split())
    if _PLAIN.fullmatch(text) and not _LINK.search(text):
        return text
    # Readers differ in how they take these two in a code span of a cell.
    return f"`{text.replace('`', chr(39)).replace('|', '¦')}`"


def written(section: Section) -> Iterator[str]:
    """Yield the parts of a section; charts are left out."""
    heading = getattr(section, "heading", "")
    if heading and not isinstance(section, (OverTime, Bars)):
        yield f"### {inline(heading)}"
    match section:
        case Heading():
            yield f"## {inline(section.text)}"
            yield from (inline(fact) for fact in section.facts if fact)
        case Note():
            yield from _note(section)
        case Figures():
            yield from _table(Table(("", ""), section.rows))
        case Table():
            yield from _table(section, _MOST_EPOCHS if section.heading == "Epochs" else None)
        case Bars():
            yield from _bars(section)
        case Code():
            yield _code(section.lines)
        case LineChart() | OverTime():
            return


def _note(note: Note) -> Iterator[str]:
    first, *rest = map(inline, note.sentences) if note.sentences else ("",)
    if note.kind == "list":
        yield "\n".join(f"- {inline(item)}" for item in note.sentences)
    elif note.kind == "warning":
        yield from (f"⚠ {sentence}" for sentence in (first, *rest))
    elif first:
        yield f"**{first}**" if note.kind == "verdict" else first
        yield from rest


def _bars(section: Bars) -> Iterator[str]:
    yield f"### {inline(section.heading)}"
    if section.are_parts:
        parts = tuple((bar.label, bar.text) for bar in section.bars)
        yield from _table(Table(("part", "time"), parts, (False, True)))
        return
    rows = tuple(
        ("▶" if bar.kind == "this" else "", bar.label, bar.text, bar.details)
        for bar in section.bars
    )
    yield from _table(Table(("", "", section.per, ""), rows, (False, False, True, False)))


def _code(lines: Sequence[str]) -> str:
    """Return lines as a code block with a fence longer than any in the lines."""
    longest = max((len(run) for line in lines for run in re.findall("`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    return "\n".join([fence, *lines, fence])


def _table(table: Table, most: int | None = None) -> Iterator[str]:
    numeric = table.numeric or (False,) * len(table.headings)
    lines = [
        _row(table.headings),
        _row(("---:" if is_number else "---" for is_number in numeric), as_is=True),
        *(_row(row) for row in table.rows[:most]),
    ]
    yield "\n".join(lines)
    left_out = table.left_out + max(0, len(table.rows) - (most or len(table.rows)))
    if left_out:
        yield f"{left_out:,} more are left out here."


def _row(cells: Iterable[str], as_is: bool = False) -> str:
    return "| " + " | ".join(cell if as_is else inline(cell) for cell in cells) + " |"
