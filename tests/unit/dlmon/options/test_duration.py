import pytest

from dlmon.options.option import UnreadableOption
from dlmon.options.read import read_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90),
        ("10m", 600),
        ("2h", 7_200),
        ("1d", 86_400),
        ("1.5h", 5_400),
        ("366d", 31_622_400),
    ],
)
def test_a_number_and_its_unit_are_a_length_of_time(text, seconds):
    assert read_duration("--for", text) == seconds


NEEDS = "--for needs a length of time such as 90s, 10m, 2h"


@pytest.mark.parametrize(
    ("texts", "says"),
    [
        (("", "2", "h", "2 h", " 2h", "2h ", "2h\n", "2H", "2w", "2h30m", "-2h", "+2h"), NEEDS),
        (("1e3s", "nan", "infs", "٢h", ".5h", "2.h", "1_0s", "9" * 400 + "s"), NEEDS),
        (("0s", "0.5s", "0d", "367d", "999999999d"), '--for must be from 1s to 366d, not "{}"'),
    ],
)
def test_any_other_text_is_refused_with_examples(texts, says):
    for text in texts:
        with pytest.raises(UnreadableOption, match=says.format(text)):
            read_duration("--for", text)
