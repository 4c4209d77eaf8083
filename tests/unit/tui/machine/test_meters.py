"""Figures in rows: each whole, in one column or two."""

from dataclasses import replace

import pytest

from dlmon.figures.glyphs import ASCII, UNICODE
from dlmon.figures.machine import Figure
from tui.machine.meters import Meters, meter_rows, meter_rows_wanted
from tui.widgets.lines import MUTED, row_width

FIGURES = [
    Figure("memory", "5.1 of 32.0 GiB", 0.16),
    Figure("disk", "512 read  102 written KiB/s"),
    Figure("network", "103 in  205 out KiB/s"),
    Figure("swap", "0.0 of 2.0 GiB", 0.0),
]


def drawn(width, height, figures=FIGURES, stale=False):
    meters = Meters()
    meters._figures, meters._stale = tuple(figures), stale
    return meters.draw(width, height)


@pytest.mark.parametrize("width", range(40, 130))
def test_every_figure_is_whole_where_it_has_a_row(width):
    rows = drawn(width, meter_rows_wanted(len(FIGURES), width))
    text = "\n".join("".join(text for text, _ in row) for row in rows)
    assert all(row_width(row) <= width for row in rows)
    assert all(figure.value in text for figure in FIGURES)


def test_each_of_two_columns_has_names_as_long_as_its_own():
    first, second = ("".join(text for text, _ in row).rstrip() for row in drawn(70, 2))
    assert first == "memory  ━╸──────── 5.1 of 32.0 GiB  disk 512 read  102 written KiB/s"
    assert second.startswith("network 103 in  205 out KiB/s       swap ─")


def test_an_odd_number_of_figures_leaves_the_last_place_blank():
    rows = drawn(70, 2, FIGURES[:3])
    assert len(rows) == 2
    assert "network" in rows[1][0][0]


def test_stale_figures_are_muted():
    fresh = {style for row in drawn(70, 2) for _, style in row}
    assert len(fresh) > 2
    for row in drawn(70, 2, stale=True):
        assert {style for text, style in row if text.strip()} == {MUTED}


FULL = replace(
    FIGURES[0], value="30.1 of 32.0 GiB", fraction=0.94, level="high", word="nearly full"
)


def texts(figures, width, glyphs=UNICODE):
    return ["".join(text for text, _ in row) for row in meter_rows(figures, width, glyphs)]


def has_bar(row):
    return bool(set(row) & set("━╸─"))


@pytest.mark.parametrize("width", range(26, 60))
def test_no_bar_goes_because_one_value_has_a_word(width):
    usual = texts([replace(FULL, level="", word=""), FIGURES[3]], width)
    full = texts([FULL, FIGURES[3]], width)
    assert [has_bar(row) for row in full] == [has_bar(row) for row in usual]
    assert all("30.1 of 32.0 GiB" in rows[0] for rows in (usual, full))


@pytest.mark.parametrize(
    ("width", "text"),
    [
        (57, "30.1 of 32.0 GiB nearly full"),
        (50, "30.1 of 32.0 GiB!"),
        (31, "30.1 of 32.0 GiB!"),
        (30, "30.1 of 32.0 GiB"),
    ],
)
def test_a_word_gives_way_to_a_mark_and_that_to_the_bar(width, text):
    row, _ = texts([FULL, FIGURES[3]], width)
    assert row.rstrip().endswith(f" {text}")
    assert "━" in row


def test_what_is_cut_ends_in_plain_characters_where_those_are_asked_for():
    reason = Figure("disk", "no physical disk was found", known=False)
    assert texts([reason], 20) == ["disk no physical di…"]
    assert texts([reason], 20, glyphs=ASCII) == ["disk no physical... "]
