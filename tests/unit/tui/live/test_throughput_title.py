"""The throughput in its chart's border: what stays, what goes, and that it doesn't come and go."""

from dataclasses import replace

import pytest
from fakes.recorded import folded, recorded_session
from hypothesis import given
from hypothesis import strategies as st

from dlmon.figures.glyphs import UNICODE
from dlmon.records import SamplesPerSecond
from tui.live.time_charts import ThroughputTitle, at_cursor

TRAINING = folded(recorded_session("training")).snapshot()
# What the border has of an 80 and of a 120 columns wide screen.
AT_80, AT_120 = 34, 54


def measured(mean, band, stalls=0):
    rate = SamplesPerSecond(median=mean, mean=mean, standard_error=None, jitter=0, band=band)
    return replace(TRAINING, samples_per_second=rate, stalls=stalls)


def shown(snapshot, room):
    return ThroughputTitle().now(snapshot, room, UNICODE)


@pytest.mark.parametrize(
    ("snapshot", "room", "text"),
    [
        (measured(5_500, 8), AT_80, "5,500 ± 8 samples/s"),
        (measured(11_602, 5_476), AT_80, "11,602 samples/s"),
        (measured(11_602, 5_476, stalls=140), AT_80, "11,602 samples/s"),
        (measured(5_500, 8, stalls=1), AT_80, "5,500 ± 8 samples/s"),
        (measured(9_428, 9_900), AT_80, "~ 9,428 samples/s"),
        (measured(11_602, 5_476, stalls=140), AT_120, "11,602 ± 5,476 samples/s  140 stalls"),
        (measured(11_602, 5_476, stalls=140), 45, "11,602 samples/s  140 stalls"),
        (measured(5_500, 8), 24, "5,500 /s"),
    ],
)
def test_the_band_goes_first_then_the_stalls_and_the_unit_stays(snapshot, room, text):
    assert shown(snapshot, room) == ("Throughput", text)


@given(
    st.lists(st.tuples(st.integers(1_000, 99_999), st.integers(0, 99_999)), min_size=1),
    st.integers(0, 999),
)
def test_name_and_unit_stay_whatever_the_figures_are(readings, stalls):
    title = ThroughputTitle()
    for mean, band in readings:
        name, text = title.now(measured(mean, band, stalls), AT_80, UNICODE)
        assert name == "Throughput"
        assert "samples/s" in text
        assert len(name) + len(text) + 3 <= AT_80


def test_a_band_that_was_left_out_doesnt_come_back_for_a_digit_less():
    title, texts = ThroughputTitle(), []
    for band in (999, 1_001, 999, 1_001, 99, 8):
        texts.append(title.now(measured(8_000, band), AT_80, UNICODE)[1])
    assert texts == [
        "8,000 ± 999 samples/s",
        *["8,000 samples/s"] * 4,
        "8,000 ± 8 samples/s",
    ]
    assert title.now(measured(8_000, 1_001), AT_120, UNICODE)[1] == "8,000 ± 1,001 samples/s"


def test_at_the_cursor_the_extremes_go_first_then_the_unit_is_shortened():
    figure = "5,500 samples/s (4,000 to 6,000)"
    assert at_cursor("at 00:07", figure, 60) == ("Throughput", f"at 00:07  {figure}")
    assert at_cursor("at 00:07", figure, 40) == ("Throughput", "at 00:07  5,500 samples/s")
    assert at_cursor("at 00:07", figure, AT_80) == ("Throughput", "at 00:07  5,500 /s")
    assert at_cursor("at 00:07", figure, 20) == ("", "at 00:07  5,500 /s")
