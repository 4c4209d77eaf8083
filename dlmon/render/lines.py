"""Write sections as lines of styled text, for a console and for a screen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import Literal

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from dlmon.figures.sections import Bars, Code, Figures, Heading, Level, Note, Section, Table
from dlmon.figures.value_axis import bar_lengths
from dlmon.render.wrap import shortened, wrapped

Style = Literal["", "dim", "strong", "good", "bad", "high"]
Line = tuple[tuple[str, Style], ...]

_GAP, _BELOW = "  ", "    "
_BAR, _BAR_CELLS = "█", 24
# Columns are dropped until a last column of words has at least this many cells.
_LEAST_OF_LAST = 32
# Of a last column that is cut, as many cells tell something.
_LEAST_OF_CUT = 8
_NOTE_STYLES: dict[str, Style] = {
    "verdict": "strong", "good": "good", "warning": "high", "list": "", "plain": "dim",
}  # fmt: skip
_MARKS = {"this": "▶", "earlier": "·", "own": "+"}
_CONSOLE_STYLES = {"strong": "bold", "good": "green", "bad": "red", "high": "yellow"}


def print_sections(console: Console, sections: Iterable[Section]) -> None:
    """Print sections in the width of the terminal; in a pipe, each row is one line."""
    for line in lines_of(sections, console.width if console.is_terminal else None):
        texts = ((text, _CONSOLE_STYLES.get(style, style)) for text, style in line)
        print_line(console, Text.assemble(*texts))


def print_line(console: Console, line: Text) -> None:
    """Print a line, wrapped at the width of the terminal; in a pipe, it stays whole."""
    console.print(line, soft_wrap=not console.is_terminal)


def lines_of(sections: Iterable[Section], width: int | None = None) -> Iterator[Line]:
    """Yield the lines of sections, with blank lines between them; charts are left out.

    They are broken at a width in cells, or nowhere without one.
    """
    before: Section | None = None
    for section in sections:
        heading = getattr(section, "heading", "")
        are_notes = isinstance(section, Note) and isinstance(before, Note)
        if before is not None and (heading or not are_notes):
            yield ()
        before = section
        if heading:
            yield ((heading, "dim"),)
        yield from _lines(section, width)


def _lines(section: Section, width: int | None) -> Iterator[Line]:
    match section:
        case Heading():
            yield ((section.text, "strong"),)
            yield from (((fact, "dim"),) for fact in section.facts)
        case Note():
            indent, style = _GAP if section.kind == "list" else "", _NOTE_STYLES[section.kind]
            for sentence in section.sentences:
                for part in _parts(sentence, width, len(indent)):
                    yield ((indent + part, style),)
        case Figures() if section.in_columns and width is not None:
            yield from _in_columns(section.rows, width)
        case Figures():
            yield from _rows(section.rows, width, styles=["dim"])
        case Bars() if section.are_parts:
            parts = [(f"{_GAP}{bar.label}", *bar.text.rsplit(", ", 1)) for bar in section.bars]
            yield from _rows(parts, width, (False, True, True))
        case Bars() if section.are_drawn:
            lengths, _ = bar_lengths([bar.value for bar in section.bars])
            drawn = zip(section.bars, lengths, strict=True)
            rows = [
                (bar.label, _BAR * round(length * _BAR_CELLS), bar.text) for bar, length in drawn
            ]
            yield from _rows(
                [("", "", section.per), *rows], width, (False, False, True), ["dim", ""]
            )
        case Bars():
            yield from _table(_table_of(section), width)
        case Table():
            yield from _table(section, width)
        case Code():
            yield from (((line, ""),) for line in section.lines)


def _in_columns(rows: Sequence[tuple[str, str]], width: int) -> Iterator[Line]:
    """Yield names and figures in columns, each read from top to bottom."""
    for count in range(1, len(rows) + 1):
        columns = [rows[first : first + count] for first in range(0, len(rows), count)]
        widths = [_widths(column) for column in columns]
        used = sum(sum(each) + len(_GAP) for each in widths) + len(_BELOW) * (len(columns) - 1)
        if used <= width or count == len(rows):
            break
    cells = [
        [_GAP.join(f"{text:<{most}}" for text, most in zip(row, each, strict=True)) for row in part]
        for part, each in zip(columns, widths, strict=True)
    ]
    for line in zip_longest(*cells, fillvalue=""):
        yield ((_BELOW.join(line).rstrip(), "dim"),)


def _table_of(section: Bars) -> Table:
    marks = [next(filter(None, map(_MARKS.get, bar.kind.split())), "") for bar in section.bars]
    rows = tuple(
        (mark, bar.label, bar.text, "; ".join(filter(None, (bar.session, bar.details))))
        for mark, bar in zip(marks, section.bars, strict=True)
    )
    levels: tuple[Level, ...] = tuple("strong" if mark == "▶" else "" for mark in marks)
    return Table(("", "", section.per, ""), rows, (False, False, True, False), levels=levels)


def _table(table: Table, width: int | None) -> Iterator[Line]:
    for heading in table.dropped if width is not None else ():
        if _width_of(table) <= (width or 0):
            break
        table = table.without(heading)
    rows = [table.headings, *table.rows]
    styles: list[Style] = ["dim", *(table.levels or [""] * len(table.rows))]
    yield from _rows(rows, width, table.numeric, styles, styles, is_cut=table.is_cut)
    if table.left_out:
        yield ((f"{_GAP}and {table.left_out:,} more", ""),)


def _width_of(table: Table) -> int:
    *widths, last = _widths([table.headings, *table.rows])
    is_words = not table.numeric or not table.numeric[-1]
    last = min(last, _LEAST_OF_LAST) if is_words else last
    return sum(widths) + len(_GAP) * len(widths) + last


def _widths(rows: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(cell_len, column)) for column in zip(*rows, strict=True)]


def _rows(
    rows: Sequence[Sequence[str]],
    width: int | None,
    numeric: Sequence[bool] = (),
    styles: Sequence[Style] = (),
    last_styles: Sequence[Style] = (),
    is_cut: bool = False,
) -> Iterator[Line]:
    """Yield rows with aligned columns; the last column is wrapped, or cut.

    Args:
        rows: the cells of each row.
        width: see `lines_of`.
        numeric: for each column, whether to align it right.
        styles: the style of each row except its last cell; a single one is for all rows.
        last_styles: the styles of the last cells.
        is_cut: keep each row on one line; the first cell, which people copy, is never cut.
    """
    widths, is_numeric = _widths(rows), numeric or [False] * len(rows[0])
    for number, row in enumerate(rows):
        cells = []
        for text, most, is_number in zip(row, widths, is_numeric, strict=True):
            blank = " " * (most - cell_len(text))
            cells.append(blank + text if is_number else text + blank)
        lead, last = "".join(cell + _GAP for cell in cells[:-1]), cells[-1].rstrip()
        style = styles[number % len(styles)] if styles else ""
        last_style = last_styles[number] if last_styles else ""
        if is_cut and width is not None:
            has_last = width - cell_len(lead) >= min(_LEAST_OF_CUT, cell_len(last))
            text = lead + last if has_last else lead.rstrip()
            yield ((shortened(text, max(width, widths[0])).rstrip(), style),)
            continue
        room = 0 if width is None else width - cell_len(lead)
        least = max(min(_LEAST_OF_LAST, cell_len(last)), *map(cell_len, last.split(" ")))
        if width is not None and room < least:
            # Without room beside the row, its last cell goes below, and whole words there.
            yield ((lead.rstrip(), style),)
            yield from (((_BELOW + part, last_style),) for part in _parts(last, width, len(_BELOW)))
            continue
        # A bar may begin with blanks, which wrapping would take away.
        fits = width is None or cell_len(last) <= room
        parts = [last] if is_numeric[-1] or fits else _parts(last, width, cell_len(lead))
        for part in parts or [""]:
            yield ((lead, style), (part, last_style)) if part else ((lead.rstrip(), style),)
            lead = " " * cell_len(lead)


def _parts(text: str, width: int | None, indent: int) -> list[str]:
    """Wrap a text that is indented by some cells."""
    return [text] if width is None else wrapped(text, width - indent)
