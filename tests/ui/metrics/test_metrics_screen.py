"""The screen of every metric: what has a chart, several runs, the filter, one chart alone."""

import re

import pytest
from fakes.recorded import recorded_session, write_log
from fakes.screens import OneScreen, screen_text, until
from fakes.states import on_stage

from dlmon.cli.start import Start
from dlmon.records import Metrics
from dlmon.session.follower import SessionFollower
from tui.app import DlmonApp
from tui.live.live_screen import LiveScreen
from tui.live.replay_screen import ReplayScreen
from tui.messages import ShowMetrics
from tui.metrics.curve_chart import CurveChart
from tui.metrics.metrics_screen import MetricsScreen

MARKUP = "[b]loss[/x] [@click=app.quit]"


@pytest.fixture
def open_metrics(tmp_path):
    """Return a function that makes the app with recorded runs over each other."""

    def make(*runs, called="run"):
        logs = [write_log(tmp_path, records, f"run-{n}") for n, records in enumerate(runs)]
        names = [f"{called}-{number}" for number in range(len(runs))]
        return OneScreen(MetricsScreen([*map(SessionFollower, logs)], names, reads=True))

    return make


def names(app):
    """Return what the charts that are seen are of."""
    return [
        name for name, chart in app.screen._charts.items() if chart in app.screen._visible_charts
    ]


async def begin(app, pilot):
    await pilot.pause()
    await app.workers.wait_for_complete()
    for _ in range(4):
        app.screen.tick()
        await pilot.pause()


async def test_a_metric_that_comes_later_gets_a_chart_and_its_name_is_no_markup(tmp_path):
    header, *rest = recorded_session("training")
    log = write_log(tmp_path, [header, *rest], "run")
    follower = SessionFollower(log)
    app = OneScreen(MetricsScreen([follower], ["run"], reads=True))
    async with app.run_test(size=(120, 40)) as pilot:
        await begin(app, pilot)
        before = len(app.screen.query(CurveChart))
        follower.session.add(Metrics(follower.session.last_t + 1, {MARKUP: 0.5}))
        await begin(app, pilot)
        assert len(app.screen.query(CurveChart)) == before + 1
        await pilot.press("slash", *"[b]lo")
        await begin(app, pilot)
        assert "[b]loss[/x] [@click" in screen_text(app)


async def test_runs_lie_over_each_other_from_their_own_first_batch(open_metrics):
    late = [*recorded_session(step_us=36_000)]
    app = open_metrics(recorded_session(), late)
    async with app.run_test(size=(120, 40)) as pilot:
        await begin(app, pilot)
        text = screen_text(app)
        assert "━━ run-0" in text
        assert "⠒ ⠒ run-1" in text
        throughput = next(line for line in text.splitlines() if "Throughput" in line)
        assert re.search(r"[1-9],\d{3} · [1-9],\d{3} ", throughput)
        await pilot.press("left", "home")
        await begin(app, pilot)
        assert "at 00:00" in screen_text(app)


async def test_long_names_of_runs_leave_its_row_to_the_time_that_is_seen(open_metrics):
    app = open_metrics(recorded_session(), recorded_session(), called="a-name-of-a-run-" * 4)
    async with app.run_test(size=(80, 24)) as pilot:
        await begin(app, pilot)
        first, second, *_ = screen_text(app).splitlines()
        assert first.count("a-name-of-a-run") == 2
        assert first.rstrip().endswith("whole run")
        assert second.startswith("╭")


async def test_a_run_without_a_quantity_takes_no_unit_from_the_others(open_metrics):
    app = open_metrics(recorded_session("importing"), recorded_session())
    async with app.run_test(size=(120, 40)) as pilot:
        await begin(app, pilot)
        throughput = next(line for line in screen_text(app).splitlines() if "Throughput" in line)
        assert re.search(r"– · [1-9],\d{3} samples", throughput)


async def test_the_filter_keeps_what_has_all_words(open_metrics):
    app = open_metrics(recorded_session())
    async with app.run_test(size=(120, 40)) as pilot:
        await begin(app, pilot)
        await pilot.press("slash", *"gpu pow")
        await begin(app, pilot)
        assert names(app) == ["GPU 0 power"]
        await pilot.press("enter")
        assert names(app) == ["GPU 0 power"]
        await pilot.press("slash", "z")
        await begin(app, pilot)
        assert "no metric has such a name" in screen_text(app)
        await pilot.press("escape")
        await begin(app, pilot)
        assert len(names(app)) > 5


async def test_enter_shows_the_chosen_chart_alone_and_escape_all_again(open_metrics):
    app = open_metrics(recorded_session())
    async with app.run_test(size=(120, 40)) as pilot:
        await begin(app, pilot)
        count = len(names(app))
        await pilot.press("tab", "enter")
        await begin(app, pilot)
        assert names(app) == ["accuracy"]
        (alone,) = app.screen._visible_charts
        assert alone.size.width > 110
        assert alone.size.height > 30
        await pilot.press("escape")
        await begin(app, pilot)
        assert len(names(app)) == count
        assert app.asked == []


async def test_one_cursor_reads_all_charts_and_escape_undoes_before_it_leaves(open_metrics):
    app = open_metrics(recorded_session())
    async with app.run_test(size=(120, 40)) as pilot:
        await begin(app, pilot)
        await pilot.press("left")
        await begin(app, pilot)
        drawn = {
            chart._picture.cursor for chart in app.screen._visible_charts if chart.is_on_screen
        }
        assert len(drawn) == 1
        assert None not in drawn
        await pilot.press("escape")
        assert app.screen.window.cursor_ns is None
        assert app.asked == []
        await pilot.press("escape")
        await pilot.pause()
        assert len(app.asked) == 1


async def test_it_is_opened_live_and_in_replay(tmp_path):
    for view, kind in (("live", LiveScreen), ("replay", ReplayScreen)):
        async with on_stage("training", view) as stage:
            await stage.press("m")
            assert isinstance(stage.app.screen, MetricsScreen)
            assert "Loss" in stage.text
            await stage.press("q")
            assert isinstance(stage.app.screen, kind)


async def test_sessions_are_followed_until_the_screen_is_left(tmp_path):
    logs = [write_log(tmp_path, recorded_session(session_id=name), name) for name in ("a-0", "a-1")]
    app = DlmonApp(Start(tmp_path, log=logs[0]))
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        await app.workers.wait_for_complete()
        app.screen.post_message(ShowMetrics(logs))
        await until(pilot, lambda: isinstance(app.screen, MetricsScreen))
        followers = app.screen._sources
        await begin(app, pilot)
        assert "a-0" in screen_text(app)
        await pilot.press("q")
        await until(pilot, lambda: not isinstance(app.screen, MetricsScreen))
        assert all(follower._is_closed for follower in followers)


async def test_the_arrows_choose_a_chart_and_read_values_where_the_grid_scrolls(open_metrics):
    app = open_metrics(recorded_session())
    async with app.run_test(size=(80, 24)) as pilot:
        await begin(app, pilot)
        first, _, below = app.screen._visible_charts[:3]
        assert app.screen.query_one("#charts").max_scroll_y > 0
        assert "←→ Cursor" in screen_text(app).splitlines()[-1]
        await pilot.press("down")
        assert app.screen.focused is below
        await pilot.press("up", "left", "home")
        await begin(app, pilot)
        assert app.screen.focused is first
        assert "at 00:" in screen_text(app)
