"""What a session is doing, as a screen says it."""

import pytest

from dlmon.figures.phases import phase_text


@pytest.mark.parametrize(
    ("phase", "text"),
    [("training", "training"), ("opening", "starting"), ("closing", "finishing"), (None, "")],
)
def test_a_phase_is_said_in_plain_words(phase, text):
    assert phase_text(phase) == text
