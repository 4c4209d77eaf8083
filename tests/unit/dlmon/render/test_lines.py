"""Sections as lines of a console and of a screen."""

from dataclasses import replace

import pytest

from dlmon.figures.sections import Bar, Bars, Figures, Heading, Note, Table
from dlmon.render.lines import lines_of

TABLE = Table(
    ("", "base", "new", "new/base", "95 % interval", "p", "n"),
    (("samples/s", "900", "950", "1.055×", "1.052× to 1.058×", "0.001", "2+2"),),
    (False, *(True,) * 6),
    dropped=("n", "p", "95 % interval"),
    levels=("good",),
)


def texts(*sections, width=None):
    return ["".join(text for text, _ in line).rstrip() for line in lines_of(sections, width)]


@pytest.mark.parametrize(
    ("width", "columns"),
    [
        (100, ["base", "new", "new/base", "95 % interval", "p", "n"]),
        (56, ["base", "new", "new/base", "95 % interval", "p"]),
        (48, ["base", "new", "new/base", "95 % interval"]),
        (32, ["base", "new", "new/base"]),
    ],
)
def test_columns_go_where_there_is_no_room_the_first_of_those_that_may_first(width, columns):
    heading, row = texts(TABLE, width=width)
    assert [cell.strip() for cell in heading.split("  ") if cell.strip()] == columns
    assert len(row) <= width


def test_a_row_has_the_style_of_its_level_and_headings_are_dim():
    heading, row = lines_of([TABLE])
    assert {style for _, style in heading} == {"dim"}
    assert {style for _, style in row} == {"good"}


def test_numbers_stand_at_the_right_and_a_wide_character_takes_two_cells():
    table = Table(("name", "n", "what"), (("漢", "1", "a"), ("b", "10", "c")), (False, True, False))
    assert texts(table) == ["name   n  what", "漢     1  a", "b     10  c"]


def test_a_last_cell_is_wrapped_beside_its_row_or_stands_below_where_there_is_no_room():
    words = "the published code sets no strategy for it"
    table = Table(("name", "what"), (("a-device", words),))
    assert texts(table, width=46) == [
        "name      what",
        "a-device  the published code sets no strategy",
        "          for it",
    ]
    assert texts(table, width=30) == [
        "name      what",
        "a-device",
        "    the published code sets no",
        "    strategy for it",
    ]
    assert texts(table)[1] == f"a-device  {words}"
    # Where each row is one line, its end is cut and its first cell never.
    one_line = replace(table, is_cut=True)
    assert texts(one_line, width=24)[1] == "a-device  the published…"
    assert texts(one_line, width=16)[1] == "a-device"
    assert texts(one_line, width=5)[1].startswith("a-devic")


def test_a_bar_has_a_mark_for_what_it_is():
    kinds = {"this": "", "earlier other": "id", "published own": "", "published": ""}
    bars = tuple(Bar(kind, 1.0, "1.00 s", kind, "note", (), id) for kind, id in kinds.items())
    assert texts(Bars("Comparison", bars, "per epoch")) == [
        "Comparison",
        "                  per epoch",
        "▶  this              1.00 s  note",
        "·  earlier other     1.00 s  id; note",
        "+  published own     1.00 s  note",
        "   published         1.00 s  note",
    ]


def test_sections_stand_apart_and_notes_in_a_row_do_not():
    sections = (
        Heading("a sweep"),
        Note(("sure",), "verdict"),
        Note(("take care",), "warning"),
        Figures("What", (("name", "text"),)),
        Note(("one", "two"), "list"),
    )
    assert texts(*sections) == [
        "a sweep", "", "sure", "take care", "", "What", "name  text", "", "  one", "  two",
    ]  # fmt: skip
