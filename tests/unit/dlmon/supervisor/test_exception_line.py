"""Which line of a script's output says why it ended."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlmon.supervisor.exception_line import LONGEST_LINE, exception_line

TRACEBACK = [
    "epoch 3",
    "Traceback (most recent call last):",
    '  File "fit.py", line 3, in <module>',
    "    train()",
]


@pytest.mark.parametrize(
    ("output", "line"),
    [
        ([*TRACEBACK, "RuntimeError: CUDA out of memory"], "RuntimeError: CUDA out of memory"),
        (
            [*TRACEBACK, "torch.OutOfMemoryError: CUDA out of memory.", "Tried 2 GiB", ""],
            "torch.OutOfMemoryError: CUDA out of memory.",
        ),
        ([*TRACEBACK, "AssertionError"], "AssertionError"),
        ([*TRACEBACK, "my.Stopped: enough", "cleaning up"], "my.Stopped: enough"),
        (["ValueError: no data", ""], "ValueError: no data"),
        (
            ["/usr/bin/python3: can't open file '/w/nosuch.py': [Errno 2] No such file"],
            "can't open file '/w/nosuch.py': [Errno 2] No such file",
        ),
        (["python: No module named nosuch"], "No module named nosuch"),
        (TRACEBACK, None),
        ([*TRACEBACK, "3 % done"], None),
        (["INFO: done"], None),
        (["Error: something"], "Error: something"),
        (["ValueError: handled", "epoch 2"], None),
        ([], None),
    ],
)
def test_the_exception_that_ended_a_script(output, line):
    assert exception_line(output) == line


def test_of_an_exception_that_came_of_another_the_last_counts():
    output = [
        *TRACEBACK, "KeyError: 'x'", "",
        "During handling of the above exception, another exception occurred:", "",
        *TRACEBACK[1:], "RuntimeError: no x",
    ]  # fmt: skip
    assert exception_line(output) == "RuntimeError: no x"


@given(st.lists(st.text(max_size=400) | st.sampled_from(TRACEBACK), max_size=8))
def test_any_output_gives_a_short_line_or_none(output):
    line = exception_line(output)
    assert line is None or 0 < len(line) <= LONGEST_LINE
