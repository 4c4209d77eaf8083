"""The parts of a result that fit beside each other."""

import pytest

from tui.widgets.lines import whole_parts


@pytest.mark.parametrize(
    ("width", "text"),
    [
        (60, "loss NaN; 0.1 s per epoch; too short"),
        (27, "loss NaN; 0.1 s per epoch"),
        (12, "loss NaN"),
        (7, "loss …"),
        (0, "…"),
    ],
)
def test_the_last_parts_give_way_and_no_word_is_cut(width, text):
    assert whole_parts("loss NaN; 0.1 s per epoch; too short", width) == text
