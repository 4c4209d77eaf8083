"""Where a process is, in words."""

import pytest

from dlmon.figures.session.stack_lines import stack_text
from dlmon.records import Frame, SeenAt, Stack

SAVE = Frame("/home/ada/run/train.py", 88, "save")
TORCH = Frame("/venv/lib/python3.11/site-packages/torch/serialization.py", 944, "_save")
TOP = Frame("/home/ada/run/train.py", 5, "<module>")


def stack(*places, looks=56, due=56):
    return Stack(3 * 10**9, 0, looks, due, places)


@pytest.mark.parametrize(
    ("seen", "text"),
    [
        (
            stack(SeenAt(52, TORCH, SAVE)),
            "train.py:88 in save → torch/serialization.py in _save (52 of 56 samples)",
        ),
        (stack(SeenAt(56, TOP, TOP)), "train.py:5 (56 of 56 samples)"),
        (stack(SeenAt(56, TORCH)), "torch/serialization.py:944 in _save (56 of 56 samples)"),
        (
            stack(SeenAt(30, SAVE, SAVE), SeenAt(26, TOP, TOP)),
            "train.py:88 in save (30 of 56 samples), train.py:5 (26)",
        ),
        (
            stack(SeenAt(8, SAVE, SAVE), looks=8),
            "train.py:88 in save (8 of 8 samples); 8 of 56 samples were taken: code that is not "
            "Python's held its lock at the others",
        ),
        (stack(), "where it was could not be seen"),
    ],
)
def test_a_pause_is_said_with_the_line_of_the_script_and_what_that_called(seen, text):
    assert stack_text(seen) == text
