"""The picture of curves: logarithms, gaps, smoothing and colours."""

import pytest
from textual.color import Color

from dlmon.comparison.compared_run import Curve
from dlmon.statistics.series import Series
from tui.drawing.themes import OWN_THEMES
from tui.drawing.time_axis import TimeAxis
from tui.metrics.curve_chart import HUES, CurveStyle, picture_of, sign_of, smoothed, title_of
from tui.widgets.chart import ChartPicture

SECOND_NS = 1_000_000_000
LOG = CurveStyle(is_log=True)


def curve(*values, unit=""):
    """Return a curve with a value in each second; None is a gap, as of NaN."""
    series = Series()
    for second, value in enumerate(values):
        if value is not None:
            series.add(second * SECOND_NS, (second + 1) * SECOND_NS, value)
    return Curve(series, 0, unit=unit)


def picture(*values, style=LOG, unit=""):
    axis = TimeAxis(0, SECOND_NS, len(values), len(values))
    return picture_of([(0, curve(*values, unit=unit))], axis, ChartPicture(), "nothing", 0.0, style)


def test_decades_are_as_high_as_each_other_on_a_logarithmic_axis():
    drawn = picture(100.0, 10.0, 1.0)
    ((_, columns),) = drawn.lines
    assert columns == pytest.approx((2.0, 1.0, 0.0))
    assert [drawn.left_labels[0][:3], drawn.left_labels[1]] == ["105", "10"]


@pytest.mark.parametrize("gap", [None, 0.0, -1.0])
def test_what_has_no_logarithm_is_a_gap(gap):
    ((_, columns),) = picture(10.0, gap, 1.0).lines
    assert columns[1] is None
    assert None not in (columns[0], columns[2])


def test_a_curve_without_a_positive_value_says_so():
    assert picture(0.0, -1.0).reason == "no value above 0"
    assert picture(None, None).reason == "nothing"


def test_percentages_and_rates_keep_their_axis():
    ((_, columns),) = picture(50.0, 60.0, unit="%").lines
    assert columns == (50.0, 60.0)


def test_a_smoothed_curve_keeps_its_mean_and_its_gaps():
    noisy = (*(float(x % 2) for x in range(40)), None, 7.0)
    means = smoothed(noisy, 3)
    assert means[40] is None
    assert all(abs(mean - 0.5) <= 0.1 for mean in means[3:37])
    assert smoothed((1.0, 3.0), 3) == (2.0, 2.0)


def test_each_of_36_runs_has_a_colour_and_dashes_of_its_own():
    assert len({sign_of(number) for number in range(36)}) == 36


def luminance(color):
    parts = [part / 255 for part in color.rgb]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return sum(w * p for w, p in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.parametrize("theme", OWN_THEMES, ids=lambda theme: theme.name)
def test_every_colour_of_a_run_stands_out_from_the_background(theme):
    behind = luminance(Color.parse(theme.background))
    for hue in HUES:
        front = luminance(Color.parse(theme.variables[f"chart-{hue}"]))
        dark, light = sorted((behind, front))
        assert (light + 0.05) / (dark + 0.05) >= 4.5


def test_a_name_with_a_group_stays_as_it_was_given():
    assert title_of("loss") == "Loss"
    assert title_of("train/step") == "train/step"
