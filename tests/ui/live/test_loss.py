"""The loss on the live screen: when it is seen, beside what, and what its title claims."""

import math

from fakes.recorded import recorded_session
from fakes.screens import until
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


def titles(shown):
    return [
        title for title in ("Epochs", "Loss", "Accuracy", "Output") if f"╭─ {title} " in shown.text
    ]


async def test_the_loss_has_a_panel_as_soon_as_one_is_known(show_session):
    records = recorded_session("training")
    first = next(i for i, record in enumerate(records) if isinstance(record, Metrics))
    async with show_session(records[:first]) as shown:
        assert "Loss" not in titles(shown)
        shown.log.write(*records[first:])
        await shown.tick()
        await shown.pilot.pause()
        assert titles(shown) == ["Epochs", "Loss", "Output"]


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


async def test_keys_exchange_what_has_no_room_and_the_epochs_say_a_loss_without_its_chart(
    show_session,
):
    newest = newest_values()
    async with show_session(recorded_session("training"), size=NARROW) as shown:
        assert titles(shown) == ["Epochs", "Loss"]
        assert f"─ {newest['loss']:.4f} · val 1.8000 ─╮" in shown.text
        assert "─ loss " not in shown.text
        await shown.press("o")
        assert titles(shown) == ["Loss", "Output"]
        await shown.press("5", "o")
        assert titles(shown) == ["Epochs", "Output"]
        assert f"─ loss {newest['loss']:.4f} · val 1.8000 ─╮" in shown.text
        await shown.press("5")


async def test_another_metric_takes_its_place_and_the_log_gives_it_back(show_session):
    async with show_session(recorded_session("training")) as shown:
        # All have room.
        assert "o Output" not in shown.footer
        await shown.press("O")
        assert titles(shown) == ["Epochs", "Accuracy", "Output"]
        assert "val 0.3500" in shown.text
        await shown.press("l")
        assert titles(shown) == ["Output"]
        await shown.press("l")
        await until(shown.pilot, lambda: titles(shown) == ["Epochs", "Accuracy", "Output"])


async def test_the_key_of_another_metric_stands_in_no_place_of_the_times(show_session):
    async with show_session(recorded_session("training")) as shown:
        for size, is_said in (((120, 40), True), ((80, 24), False), ((200, 60), False)):
            await shown.resize(*size)
            assert ("╭─ Loss  O shows accuracy ─" in shown.text) is is_said
            assert shown.text.count("O shows") == is_said
