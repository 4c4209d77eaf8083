"""The columns of the recent sessions."""

from types import SimpleNamespace

import pytest

from tui.home.recent_list import RecentList

NAME = "train.py --epochs 10 --workers 2 --width 64"
RESULT = "0.65 s ± 0.09 per epoch"


def session(name, result):
    header = SimpleNamespace(wall=0.0)
    entry = SimpleNamespace(header=header)
    return SimpleNamespace(
        **dict.fromkeys(("result", "speed_or_result"), result),
        name=name,
        speed="",
        change_text="",
        losses=(2.0, 1.0),
        entry=entry,
        is_bad=False,
    )


@pytest.mark.parametrize(("width", "whole"), [(76, False), (116, True), (196, True)])
def test_names_have_the_room_that_results_leave_before_their_warnings(width, whole):
    recent = RecentList(lambda: 60.0)
    recent.sessions = [
        session(NAME, RESULT),
        session("a.py", f"{RESULT}; too short, stalls, CPU shared, busy at the start"),
    ]
    first, second = ("".join(text for text, _ in recent.row_of(index, width)) for index in range(2))
    assert (NAME in first) is whole
    assert RESULT in first
    assert ("busy" in second) is (width == 196)
