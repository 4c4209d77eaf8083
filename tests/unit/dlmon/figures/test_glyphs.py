"""The characters that everything is drawn with."""

from dataclasses import fields

import pytest
from fakes.glyphs import drawn_in_ascii

from dlmon.figures.glyphs import ASCII, UNICODE, Glyphs, glyphs_in_use, under_way

NAMES = [field.name for field in fields(Glyphs) if field.name != "is_ascii"]


@pytest.mark.parametrize("name", NAMES)
def test_each_glyph_has_one_of_ascii(name):
    assert getattr(ASCII, name).isascii()
    assert not getattr(UNICODE, name).isascii()


def test_there_are_as_many_markers_of_series_in_both():
    assert len(ASCII.series) == len(UNICODE.series) == len(set(ASCII.series))


def test_the_set_is_chosen_once_for_all_that_is_drawn():
    assert glyphs_in_use() is UNICODE
    with drawn_in_ascii():
        assert glyphs_in_use() is ASCII
    assert glyphs_in_use() is UNICODE


def test_what_is_under_way_ends_in_the_points_of_the_set():
    assert under_way("importing") == "importing …"
    with drawn_in_ascii():
        assert under_way("importing") == "importing ..."
