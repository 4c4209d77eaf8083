"""The parts of a result that fit beside each other."""

import pytest

from tui.widgets.lines import least_part, whole_parts


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


def test_the_band_of_a_figure_goes_before_its_unit():
    text = "stopped: 10.66 s ± 0.01 per epoch"
    assert whole_parts(text, 33) == text
    assert whole_parts(text, 30) == "stopped: 10.66 s per epoch"
    assert least_part(f"{text}; too short") == "stopped: 10.66 s per epoch"
