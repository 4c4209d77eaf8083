"""The characters that sentences, tables and drawings are made of: Unicode's, or ASCII's alone."""

from __future__ import annotations

from contextvars import ContextVar

from dlmon.records.record import record


@record(frozen=True)
class Glyphs:
    """One set of characters.

    What has more than one shape, such as a line of braille dots, asks `is_ascii`.
    """

    is_ascii: bool = False
    plus_minus: str = "±"
    times: str = "×"
    ellipsis: str = "…"
    warning: str = "▲"
    dot: str = "●"
    cross: str = "✗"
    # What is highlighted, and what is best, in a list.
    pointer: str = "▸"
    best: str = "▶"
    descending: str = "▼"
    ascending: str = "▲"
    # A choice between values.
    to_left: str = "◂"
    to_right: str = "▸"
    # A row that belongs to the one above it, and the last of these.
    branch: str = "├"
    last_branch: str = "╰"
    # Bars and what is left of them, and the thumb of what scrolls.
    bar: str = "━"
    half_bar: str = "╸"
    track: str = "─"
    thumb: str = "┃"
    # Parts of a whole in one bar: the three largest, and the rest.
    parts: str = "█▓▒░"
    # Charts: their lines, ticks, marks and what is shaded.
    line: str = "─"
    vertical: str = "│"
    tick: str = "┴"
    mark: str = "┊"
    shade: str = "╌"
    full_cell: str = "⣿"
    # A chart's gridlines: along it, up and down, and where both meet.
    grid: str = "┈┊┼"
    # The cursor at the left and at the right side of a cell, and what it reads.
    cursor: str = "▏▕"
    read: str = "●"
    stall: str = "▲"
    alert: str = "⚑"
    series: str = "●◆■▲▼★"
    levels: str = "▁▂▃▄▅▆▇█"


UNICODE = Glyphs()
ASCII = Glyphs(
    is_ascii=True,
    plus_minus="+-",
    times="x",
    ellipsis="...",
    warning="!",
    dot="*",
    cross="x",
    pointer=">",
    best=">",
    descending="v",
    ascending="^",
    to_left="<",
    to_right=">",
    branch="|",
    last_branch="`",
    bar="=",
    half_bar="-",
    track=".",
    thumb="|",
    parts="#=+-",
    line="-",
    vertical="|",
    tick="+",
    mark="|",
    shade="~",
    full_cell="#",
    grid="  +",
    cursor="||",
    read="o",
    stall="!",
    alert="A",
    series="o*#@%&",
    levels="0123456789",
)

_in_use: ContextVar[Glyphs] = ContextVar("glyphs", default=UNICODE)


def use_glyphs(glyphs: Glyphs) -> None:
    """Have all that is drawn from here on drawn with a set: the app says so when it is made."""
    _in_use.set(glyphs)


def glyphs_in_use() -> Glyphs:
    """Return the set that is drawn with."""
    return _in_use.get()


def under_way(doing: str) -> str:
    """Write what takes a while with points behind it, as in "importing …"."""
    return f"{doing} {glyphs_in_use().ellipsis}"
