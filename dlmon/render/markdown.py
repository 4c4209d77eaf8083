"""A report as Markdown, for an issue or a README.

What isn't plainly words and figures stands in a code span, in which nothing means anything: no
link, no picture, no HTML, no mention of somebody.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from dlmon.figures.report.report import Report
from dlmon.figures.report.sections import (
    Bars,
    Chart,
    Code,
    Figures,
    Heading,
    Note,
    OverTime,
    Section,
    Table,
)

# Words and figures, with such signs between them as mean nothing on a page; nothing that would
# begin a list or draw a line.
_PLAIN = re.compile(
    r"(?![-+](?:[-+ ]|$)|\d+[.)](?: |$))(?:[^\W_]|[ .,;:%±×–…()'’▶·°²³✓⚠?+-]|/(?!/)|~(?!~)"
    # Of what people type, as fused=True; where more of them stand some readers mark the text.
    r"|(?<=[^\W_])=(?=[^\W_]))*"
)
_LINK = re.compile(r"www\.|https?:|ftp:|mailto:", re.IGNORECASE)
_MOST_EPOCHS = 20


def markdown_of(report: Report) -> str:
    """Return a report as Markdown."""
    parts = [part for section in report.sections for part in _written(section)]
    parts.append(f"Made by dlmon {inline(report.version)}.")
    return "\n\n".join(parts) + "\n"


def inline(text: str) -> str:
    """Return a text that means nothing but itself, in a line or in a cell of a table."""
    text = " ".join(text.split())
    if _PLAIN.fullmatch(text) and not _LINK.search(text):
        return text
    # Neither can be written in a code span of a cell so that every reader takes it the same way.
    return f"`{text.replace('`', chr(39)).replace('|', '¦')}`"


def _written(section: Section) -> Iterator[str]:
    """Yield the parts that a section is written as; charts have no place in a text."""
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
        case Chart() | OverTime():
            return


def _note(note: Note) -> Iterator[str]:
    first, *others = map(inline, note.sentences) if note.sentences else ("",)
    if note.kind == "list":
        yield "\n".join(f"- {inline(item)}" for item in note.sentences)
    elif note.kind == "warning":
        yield from (f"⚠ {sentence}" for sentence in (first, *others))
    elif first:
        yield f"**{first}**" if note.kind == "verdict" else first
        yield from others


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
    """Return lines as a block that ends where it should, whatever stands in them."""
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
