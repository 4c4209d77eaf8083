"""What of a row is repainted: all that differs, and little else."""

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len, set_cell_size
from textual.geometry import Region

from tui.widgets.rows import changed_regions

# As wide as a row may be: five runs of six wide characters.
WIDTH = 60
runs = st.tuples(st.text("ab 漢字", max_size=6), st.sampled_from([("quiet",), ("loud",)]))
rows = st.lists(runs, max_size=5).map(tuple)


def cells_of(row):
    """Return the character and the style of each cell, blanks to the width of the row."""
    cells = []
    for text, style in row:
        for character in text:
            cells += [(character, style)] * cell_len(character)
    return cells + [None] * (WIDTH - len(cells))


def alike(row, draw):
    """Return a row with some of its runs replaced by others of the same width."""
    return tuple(
        (set_cell_size(draw(runs)[0], cell_len(text)), style) if draw(st.booleans()) else run
        for run in row
        for text, style in [run]
    )


def assert_all_that_differs_is_repainted(before, after):
    regions = changed_regions(before, after, WIDTH)
    kept = set(range(WIDTH)).difference(*(range(part.x, part.right) for part in regions))
    old, new = cells_of(before), cells_of(after)
    assert all(old[cell] == new[cell] for cell in kept)
    assert all(part.height == 1 and part.right <= WIDTH for part in regions)


@given(rows, rows)
def test_all_that_differs_between_two_rows_is_repainted(before, after):
    assert_all_that_differs_is_repainted(before, after)


@given(rows, st.data())
def test_all_that_differs_within_runs_is_repainted(before, data):
    assert_all_that_differs_is_repainted(before, alike(before, data.draw))


def test_what_stands_between_two_differences_is_not_sent():
    before = (("1", ("quiet",)), (" compiling  steps ", ("loud",)), ("77", ("quiet",)))
    after = (("2", ("quiet",)), (" compiling  steps ", ("loud",)), ("78", ("quiet",)))
    assert changed_regions(before, after, WIDTH) == [Region(0, 0, 1, 1), Region(20, 0, 1, 1)]


def test_differences_near_each_other_are_sent_as_one():
    before = (("1", ("quiet",)), (" of ", ("loud",)), ("7", ("quiet",)))
    after = (("2", ("quiet",)), (" of ", ("loud",)), ("8", ("quiet",)))
    assert changed_regions(before, after, WIDTH) == [Region(0, 0, 6, 1)]
