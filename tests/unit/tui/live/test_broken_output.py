"""Lines of output that are longer than their pane."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from tui.live.output_pane import split_line


@pytest.mark.parametrize(
    ("text", "width", "parts"),
    [
        ("", 10, [""]),
        ("short", 10, ["short"]),
        ("GPU will not be used.", 10, ["GPU will", "not be", "used."]),
        ("GPU will not", 8, ["GPU will", "not"]),
        # An indent and columns are part of what was printed.
        ("  loss  0.123  acc  0.9", 14, ["  loss  0.123 ", "acc  0.9"]),
        # A path is broken rather than most of a row left empty.
        ("in /a/path/without/a/blank", 12, ["in /a/path/w", "ithout/a/bla", "nk"]),
        ("漢字 漢字漢字", 6, ["漢字", "漢字漢", "字"]),
    ],
)
def test_a_line_is_broken_at_a_blank_unless_that_is_far_off(text, width, parts):
    assert split_line(text, width) == parts


@given(st.text(st.sampled_from("ab 漢\u0301"), max_size=60), st.integers(2, 20))
def test_nothing_of_a_line_is_lost_but_the_blanks_where_it_is_broken(text, width):
    parts = split_line(text, width)
    assert all(cell_len(part) <= width for part in parts)
    assert re.fullmatch(" ?".join(map(re.escape, [*parts, ""])), text)
