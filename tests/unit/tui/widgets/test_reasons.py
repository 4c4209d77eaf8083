"""Reasons where there is little room."""

from tui.widgets.lines import without_detail


def test_a_reason_loses_its_details_first():
    why = "no GPU: no NVIDIA driver: libnvidia-ml.so.1 was not found"
    cut = {80: why, 40: "no GPU: no NVIDIA driver", 20: "no GPU", 3: "no GPU"}
    assert {width: without_detail(why, width) for width in cut} == cut
