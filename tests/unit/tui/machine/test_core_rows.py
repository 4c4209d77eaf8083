"""Cores in even rows: bars where there is room, columns where there are many."""

import pytest
from fakes.glyphs import drawn_in_ascii

from dlmon.records import Cpu
from tui.machine.core_rows import CoreRows, bars_in_a_row, core_bands, core_rows_wanted
from tui.widgets.lines import row_width


def drawn(cores, width, height, ascii=False):
    widget = CoreRows()
    widget._cores = tuple(cores)
    with drawn_in_ascii(ascii):
        rows = widget.draw(width, height)
    assert len(rows) <= height
    assert all(row_width(row) <= width for row in rows)
    return ["".join(text for text, _ in row).rstrip() for row in rows]


def test_two_cores_have_a_long_bar_each():
    assert drawn([50, 100], 34, 4) == [
        "core  0  50 % ━━━━━━━━━━",
        "core  1 100 % ━━━━━━━━━━━━━━━━━━━━",
    ]


def test_many_cores_have_their_numbers_alone():
    assert drawn([50] * 8, 68, 2)[0].startswith("  0  50 % ━━╸      1  50 % ")
    assert drawn([50] * 8, 60, 8)[7].startswith("core  7  50 % ━━━")


def test_bars_stand_in_even_rows():
    assert bars_in_a_row(8, 78, 3) == 3
    assert bars_in_a_row(8, 78, 2) == 4
    assert bars_in_a_row(6, 78, 2) == 3
    assert bars_in_a_row(8, 34, 1) == 0


def test_a_bar_moves_by_half_a_cell():
    (one,), (same,), (longer,) = (drawn([pct], 34, 1) for pct in (40, 41, 42))
    assert one.replace("40", "41") == same
    assert longer == same.replace("41", "42") + "╸"


@pytest.mark.parametrize("ascii", [False, True])
@pytest.mark.parametrize("size", [(34, 3), (34, 8), (50, 6), (50, 10), (78, 4), (110, 12)])
@pytest.mark.parametrize("cores", [1, 2, 6, 8, 16, 24, 64, 96, 128, 192, 256])
def test_every_core_has_a_place(cores, size, ascii):
    rows = drawn([100] * cores, *size, ascii=ascii)
    if "%" in rows[0] and "above" not in rows[0]:
        assert "".join(rows).count("%") == cores
        return
    if "above" in rows[0]:
        assert rows == [f"{cores} cores, {cores} of them above 90 %"]
        assert core_bands(cores, *size).rows(cores) > size[1]
        return
    labelled = [row for row in rows if row.split()[0].isdigit() and len(row.split()) > 1]
    firsts = [int(row.split()[0]) for row in labelled]
    bands = core_bands(cores, *size)
    assert firsts == list(range(0, cores, bands.in_a_row))
    cells = sum(len("".join(row.split()[1:])) for row in labelled)
    assert cells == (-(-cores // 2) if bands.dense else cores)


def test_columns_are_as_tall_as_their_cores_are_busy():
    levels = [0, 50, 100] * 8
    assert drawn(levels, 34, 2) == [
        "     █  █   █  █  █   █  █  █",
        " 0 ▁██▁██▁█ █▁██▁██▁ ██▁██▁██",
    ]
    (row,) = drawn(levels, 34, 1)
    assert row == " 0 ▁▅█▁▅█▁▅ █▁▅█▁▅█▁ ▅█▁▅█▁▅█"


def test_in_ascii_a_core_is_a_digit():
    (row,) = drawn([0, 50, 100] * 8, 34, 1, ascii=True)
    assert row == " 0 05905905 90590590 59059059"


def test_columns_stand_in_groups_of_eight_and_in_round_numbers():
    bands = core_bands(256, 78, 4)
    assert (bands.in_a_row, bands.dense, bands.grouped) == (64, False, True)
    assert core_bands(256, 50, 8).in_a_row == 32


def test_cores_without_any_room_are_counted():
    assert drawn([100, *[0] * 255], 36, 1) == ["256 cores, 1 of them above 90 %"]


def test_few_cores_take_more_rows_where_they_have_a_room_of_their_own():
    assert core_rows_wanted(8, 50, 10) == 3
    assert core_rows_wanted(8, 50, 10, roomy=True) == 8
    assert core_rows_wanted(0, 50, 10) == 1


def test_without_a_reading_the_reason_is_shown():
    widget = CoreRows()
    assert widget.draw(20, 1) == [(("no reading yet", ("lines--muted",)),)]
    widget.show(Cpu(why={"cores": "denied"}))
    assert widget.draw(20, 1) == [(("denied", ("lines--bad",)),)]
