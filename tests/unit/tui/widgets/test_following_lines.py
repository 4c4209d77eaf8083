"""Rows that scroll: which of them a click is on."""

from tui.widgets.tables import ScrollingLines


def test_a_line_has_the_row_that_is_painted_there_until_the_next_paint():
    lines = ScrollingLines()
    assert lines.index_at(0, 100) is None
    lines.in_view(100, 10)
    lines._first = -3
    assert [lines.index_at(line, 100) for line in (-1, 0, 9, 10)] == [None, 0, 9, None]
    lines.in_view(100, 10)
    lines._first = 90
    lines.in_view(100, 10)
    assert lines.index_at(0, 100) == 90


def test_a_row_that_is_gone_since_the_paint_is_none():
    lines = ScrollingLines()
    lines.in_view(100, 10)
    assert [lines.index_at(line, 5) for line in (4, 5)] == [4, None]
    assert lines.index_at(0, 0) is None
