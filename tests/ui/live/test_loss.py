"""The loss on the live screen: when it is seen, beside what, and what its title claims."""

import math
import re

from fakes.recorded import recorded_session
from hypothesis import given
from hypothesis import strategies as st

from dlmon.figures.report.curves import curve_of
from dlmon.records import Metrics
from dlmon.session.learning import Metric
from tui.drawing.time_axis import TimeAxis
from tui.metrics.curve_chart import picture_of
from tui.widgets.chart import ChartPicture, picture_rows

S = 1_000_000_000

NARROW = (80, 24)
CURVE = "[⠀-⣿ ]{8,12}"


def titles(shown):
    return [
        title for title in ("Epochs", "Loss", "Accuracy", "Output") if f"╭─ {title} " in shown.text
    ]


async def test_the_loss_stands_beside_the_epochs_as_soon_as_one_is_known(show_session):
    records = recorded_session("training")
    first = next(i for i, record in enumerate(records) if isinstance(record, Metrics))
    async with show_session(records[:first]) as shown:
        assert titles(shown) == ["Epochs", "Output"]
        shown.log.write(*records[first:])
        await shown.tick()
        await shown.pilot.pause()
        assert titles(shown) == ["Epochs", "Loss"]


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=6))
def test_any_finite_values_can_be_drawn(values):
    metric = Metric()
    for number, value in enumerate(values, 1):
        metric.add(0, number * S, value, "")
        metric.add_validation(number * S, value, "")
    axis = TimeAxis(start_ns=0, column_ns=S // 2, count=24, elapsed=24)
    picture = picture_of([(0, curve_of(metric, 0))], axis, ChartPicture(), "")
    drawn = [value for _, line in picture.lines for value in line if value is not None]
    assert all(map(math.isfinite, (*drawn, picture.top, picture.bottom)))
    assert len(picture_rows(picture, 30, 8, 6)) == 8


def newest_values():
    return [r for r in recorded_session("training") if isinstance(r, Metrics)][-1].values


async def test_where_its_chart_has_no_room_the_epochs_say_it(show_session):
    newest = newest_values()
    said = f" {newest['loss']:.4f} · val 1.8000  synthetic data ─╮"
    async with show_session(recorded_session("training"), size=NARROW) as shown:
        assert said in shown.text
        assert re.search(f"─ loss {CURVE}{re.escape(said)}", shown.text)
        await shown.press("O")
        assert titles(shown) == ["Accuracy"]
        await shown.press("o", "o")
        assert titles(shown) == ["Epochs"]
        said = re.escape(f"{newest['accuracy']:.4f} · val 0.3500  synthetic data ─╮")
        assert re.search(f"─ accuracy {CURVE} {said}", shown.text)


async def test_keys_exchange_it_for_the_output_or_another_metric_and_back(show_session):
    newest = newest_values()
    async with show_session(recorded_session("training")) as shown:
        assert f"─ {newest['loss']:.4f} · val 1.8000 ─╮" in shown.text
        assert "─ loss " not in shown.text
        assert "o Output" in shown.footer
        await shown.press("o")
        assert titles(shown) == ["Epochs", "Output"]
        assert re.search(f"─ loss {CURVE} {newest['loss']:.4f} · val 1.8000 ─", shown.text)
        assert "o Loss" in shown.footer
        await shown.press("O")
        assert titles(shown) == ["Epochs", "Accuracy"]
        assert "val 0.3500" in shown.text
        await shown.press("O")
        assert titles(shown) == ["Epochs", "Loss"]
        # The log takes the whole screen, and gives it back.
        await shown.press("l")
        assert titles(shown) == ["Output"]
        assert "tell_why" in shown.screen.active_bindings["o"].binding.action
        await shown.press("l")
        assert titles(shown) == ["Epochs", "Loss"]


async def test_a_run_that_failed_shows_its_last_words_first(show_session):
    async with show_session(recorded_session(status="failed")) as shown:
        assert titles(shown) == ["Epochs", "Output"]
        await shown.press("o")
        assert titles(shown) == ["Epochs", "Loss"]
