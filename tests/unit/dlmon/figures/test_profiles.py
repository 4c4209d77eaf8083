"""A profile in words."""

import pytest

from dlmon.figures.profiles import profile_lines
from dlmon.records import Operation, Profile

MADE = Profile(
    t=9,
    request=1,
    begin=0,
    end=62_000_000,
    steps=5,
    profiler="torch",
    file="profile-1.json.gz",
    operations=(Operation("aten::" + "m" * 80, 5, 1_500, 40_000, 0.8), Operation("x", 1, 9, 0, 0)),
    idle=0.12,
    copying=0.03,
    communicating=0.0,
)


def test_a_profile_says_what_the_time_went_into_and_has_a_row_for_each_operation():
    first, heading, row, other = (line for line, _ in profile_lines(MADE))
    assert first == (
        "5 steps by PyTorch's profiler, 62.0 ms, the device idle 12 %, copying 3 %, "
        "communicating 0 %"
    )
    assert heading.split() == ["operation", "share", "calls", "host", "device"]
    assert row.split()[1:] == ["80.0", "%", "5", "1.50", "ms", "40.0", "ms"]
    assert row.split()[0].endswith("m…")
    assert other.split() == ["x", "0.0", "%", "1", "0.01", "ms", "–"]
    assert {len(heading), len(row), len(other)} == {90}


@pytest.mark.parametrize("width", [76, 116, 200])
def test_the_names_of_operations_are_cut_to_the_width(width):
    assert {len(line) for line, _ in profile_lines(MADE, width)[1:]} == {width}


def test_one_whose_trace_could_not_be_read_says_why():
    lost = Profile(9, 1, 0, 1, 5, "jax", why={"operations": "it is not a known kind of trace"})
    assert profile_lines(lost)[-1] == ("it is not a known kind of trace", False)
