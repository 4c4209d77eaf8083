import pytest

from dlmon.figures.columns import matches


@pytest.mark.parametrize(
    ("typed", "is_found"),
    [
        ("loss", True),
        ("LOSS train", True),
        ("*/loss", True),
        ("train/*", True),
        ("step/*", True),
        ("tep/*", False),
        ("step/", True),
        ("step", True),
        ("loss val", False),
        ("[ab]*", False),
    ],
)
def test_a_word_is_a_part_and_a_pattern_is_a_text_or_what_follows_a_slash(typed, is_found):
    assert matches(("train/step/loss",), typed) is is_found
