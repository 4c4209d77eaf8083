"""The screen of every metric: what has a chart, several runs, the filter, one chart alone."""

import re
from dataclasses import replace

import pytest
from fakes.recorded import recorded_session, write_log
from fakes.screens import OneScreen, screen_text, until
from fakes.scripts import script_session
from fakes.states import STATES, on_stage
from rich.cells import cell_len
from textual.geometry import Size

from dlmon.cli.start import Start
from dlmon.comparison.compared_run import Curve
from dlmon.figures.report.curves import metric_text, value_texts
from dlmon.metric_files.file_session import FileSource
from dlmon.metric_files.find import find_runs
from dlmon.records import Machine, Metrics
from dlmon.session.follower import SessionFollower
from dlmon.statistics.series import Series
from tui.app import DlmonApp
from tui.drawing.time_axis import TimeAxis
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
        # It comes before those of the machine, also for the arrow keys.
        shown = names(app)
        assert shown.index(MARKUP) < shown.index("throughput") < shown.index("CPU")
        assert [*app.screen.query(CurveChart)] == app.screen._visible_charts
        await pilot.press("slash", *"[b]lo")
        await begin(app, pilot)
        assert "[b]loss[/x] [@click" in screen_text(app)


@pytest.mark.parametrize("is_script", [True, False])
async def test_only_a_script_without_a_metric_is_told_how_to_report_one(open_metrics, is_script):
    run = script_session() if is_script else recorded_session("importing")
    app = open_metrics([record for record in run if not isinstance(record, Metrics)])
    async with app.run_test(size=(120, 40)) as pilot:
        await begin(app, pilot)
        assert ("dlmon.step(loss=loss)" in screen_text(app)) is is_script


@pytest.mark.parametrize(
    ("locked", "said"), [(True, "no metric yet: the loss comes"), (False, "no metric was reported")]
)
async def test_without_a_metric_that_is_said_above_what_the_machine_does(locked, said):
    state = replace(STATES["importing"], locked=locked)
    async with on_stage(state, "metrics") as stage:
        assert said in stage.text
        assert "no value" not in stage.text
        assert names(stage.app)[:2] == ["CPU", "memory"]


async def test_what_the_machine_keeps_steady_has_its_value_in_a_row_and_a_chart_if_searched(
    open_metrics,
):
    app = open_metrics(recorded_session())
    async with app.run_test(size=(120, 40)) as pilot:
        await begin(app, pilot)
        assert "steady: memory 5.1 GiB, GPU 0 memory 4.7 GiB" in screen_text(app)
        assert {"throughput", "GPU 0"} < {*names(app)}
        assert "memory" not in names(app)
        await pilot.press("slash", *"memory")
        await begin(app, pilot)
        assert names(app) == ["memory", "GPU 0 memory"]
        assert "steady" not in screen_text(app)


async def test_a_memory_that_differs_between_runs_has_its_chart(open_metrics):
    small = [
        replace(record, memory=replace(record.memory, used_mib=2_000))
        if isinstance(record, Machine)
        else record
        for record in recorded_session()
    ]
    app = open_metrics(recorded_session(), small)
    async with app.run_test(size=(120, 40)) as pilot:
        await begin(app, pilot)
        assert "memory" in names(app)
        assert "steady: GPU 0 memory 4.7 · 4.7 GiB" in screen_text(app)


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


async def test_long_names_of_runs_take_a_few_rows_and_are_cut_between_words(open_metrics):
    called = "a name of a run, --lr 0.1, " * 20 + "\u05d0\u05d1 \u754c\u754c"
    app = open_metrics(*[recorded_session()] * 4, called=called)
    async with app.run_test(size=(80, 24)) as pilot:
        await begin(app, pilot)
        lines = screen_text(app).splitlines()
        *legend, steady = lines[: next(y for y, line in enumerate(lines) if line.startswith("╭"))]
        assert steady.startswith(" steady: memory 5.1 · 5.1 · 5.1 · 5.1 GiB, ")
        assert 1 < len(legend) <= 3
        assert " ".join(legend).count(", …") == 4


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
        charts = [chart for chart in app.screen._visible_charts if chart.is_on_screen]
        # The large one has more columns.
        at_ns = {
            round(axis.start_ns + chart._picture.cursor * axis.column_ns, -9)
            for chart in charts
            for _, axis in [chart.axes]
        }
        assert len(at_ns) == 1
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


async def test_values_that_are_no_numbers_are_counted_in_the_border(tmp_path):
    follower = SessionFollower(write_log(tmp_path, recorded_session("training"), "run"))
    app = OneScreen(MetricsScreen([follower], ["run"], reads=True))
    async with app.run_test(size=(120, 40)) as pilot:
        await begin(app, pilot)
        t = follower.session.last_t
        for number, why in enumerate(("NaN", "infinite", "")):
            values = {"loss": None if why else 0.5}
            follower.session.add(Metrics(t + number + 1, values, why={"loss": why} if why else {}))
        await begin(app, pilot)
        assert "2 × NaN or infinite" in screen_text(app)


async def test_of_a_thousand_metrics_the_first_are_shown_and_that_is_said(tmp_path):
    follower = SessionFollower(write_log(tmp_path, recorded_session("training"), "run"))
    app = OneScreen(MetricsScreen([follower], ["run"], reads=True))
    async with app.run_test(size=(80, 24)) as pilot:
        await begin(app, pilot)
        names = [
            f"{name * 100}{n}"
            for n in range(1_000)
            for name in ("\u05d0\u05d1\u05d2", "\u754c", "loss")
        ]
        follower.session.add(Metrics(follower.session.last_t + 1, dict.fromkeys(names, 0.5)))
        await begin(app, pilot)
        assert "the first 16 metrics" in screen_text(app)
        assert all(len(line) <= 80 for line in screen_text(app).splitlines())


# ---- what is along the axes ----


def chart_of(app, name):
    return app.screen._charts[name]


async def test_x_draws_over_steps_then_epochs_then_time(open_metrics):
    app = open_metrics(recorded_session(), recorded_session(step_us=36_000))
    async with app.run_test(size=(120, 40)) as pilot:
        await begin(app, pilot)
        texts, ends = [], []
        for _ in range(3):
            await pilot.press("x")
            await begin(app, pilot)
            texts.append(screen_text(app))
            _, (_, slow) = chart_of(app, "loss")._picture.lines
            ends.append(max(x for x, value in enumerate(slow) if value is not None))
        assert "over steps" in texts[0]
        assert "over epochs" in texts[1]
        assert "over steps" not in texts[2]
        # Both did as many steps, but one took twice as long a step.
        columns = chart_of(app, "loss").plot_columns
        assert min(ends[:2]) > 0.8 * columns


async def test_the_cursor_and_a_part_are_named_in_steps(open_metrics):
    app = open_metrics(recorded_session())
    async with app.run_test(size=(120, 40)) as pilot:
        await begin(app, pilot)
        await pilot.press("x", "left", "home")
        await begin(app, pilot)
        assert "at 0 steps" in screen_text(app)
        await pilot.press("escape", "plus")
        await begin(app, pilot)
        assert re.search(r"over steps, [\d,]+ steps – [\d,]+ steps", screen_text(app))


async def test_runs_without_steps_have_no_axis_but_time_and_say_so(open_metrics, monkeypatch):
    said = []
    monkeypatch.setattr(MetricsScreen, "notify", lambda screen, text, **how: said.append(text))
    app = open_metrics(recorded_session("importing"))
    async with app.run_test(size=(120, 40)) as pilot:
        await begin(app, pilot)
        await pilot.press("x")
        await begin(app, pilot)
        assert "over steps" not in screen_text(app)
        assert said == ["these runs have no steps, epochs or tokens yet: x is the time"]


async def test_y_and_b_change_how_curves_are_drawn_and_say_so(open_metrics):
    app = open_metrics(recorded_session())
    async with app.run_test(size=(120, 40)) as pilot:
        await begin(app, pilot)
        await pilot.press("y", "b")
        await begin(app, pilot)
        assert "log y, light smoothing" in screen_text(app)
        # The curve as it was stays behind the smoothed one.
        styles = [style for style, _ in chart_of(app, "loss")._picture.lines]
        assert styles == ["$chart-throughput 40%", "$chart-throughput"]
        # What has a unit keeps its axis.
        assert len(chart_of(app, "loss")._picture.left_labels) == 3
        assert chart_of(app, "CPU")._picture.left_labels == ()
        await pilot.press("b", "b", "y")
        await begin(app, pilot)
        assert "smoothing" not in screen_text(app)
        assert "log y" not in screen_text(app)


# ---- what other programs have recorded ----


@pytest.fixture
def table(tmp_path):
    """Return the source of a table with groups of metrics, and no times."""
    path = tmp_path / "table.csv"
    groups = [f"{group}/{number}" for group in ("perf", "grad") for number in range(40)]
    lines = [",".join(["step", "train/loss", "val/loss", *groups])]
    lines += [",".join([str(step), "1", "2", *["3"] * 80]) for step in range(0, 100, 10)]
    path.write_text("\n".join(lines) + "\n")
    return FileSource(find_runs(path)[0])


async def test_a_file_without_times_is_drawn_over_steps_by_group_and_by_pattern(table):
    app = OneScreen(MetricsScreen([table], ["table"], reads=True))
    async with app.run_test(size=(120, 40)) as pilot:
        await begin(app, pilot)
        text = screen_text(app)
        assert "over steps" in text
        assert "21 more charts: / searches, groups grad/ perf/: g shows one" in text
        assert "train 1.0000 · ◆ val 2.0000" in text
        assert "Loss" in text
        await pilot.press("g")
        await begin(app, pilot)
        assert "group grad/" in screen_text(app)
        assert len(names(app)) == 40
        await pilot.press("g", "g", "slash", *"perf/*1")
        await begin(app, pilot)
        assert names(app) == ["perf/1", "perf/11", "perf/21", "perf/31"]


def test_a_number_is_never_cut_but_the_name_before_it():
    series = Series()
    series.add(0, 1, 0.6405)
    accuracy = Curve(series, 0, validations=((0, 0.35),), newest=0.6405)
    for width, title in ((37, "Accuracy"), (28, ""), (24, "")):
        chart = type("Sized", (CurveChart,), {"size": Size(width, 8)})()
        chart.show_curves("accuracy", [(0, accuracy)], TimeAxis(0, 1, 10, 0))
        name, _, right = chart._title_texts
        # Cut are the name, and whole values.
        assert right.removesuffix(" …").removesuffix(" ·").endswith(("val 0.3500", "0.6405"))
        assert name.startswith(title)
        assert cell_len(name) + cell_len(right) + 5 <= width


def test_a_throughput_is_the_mean_of_the_run_as_in_the_list_of_sessions():
    series = Series()
    series.add(0, 1, 5_419.0)
    rate, load = (Curve(series, 0, unit=unit) for unit in ("samples/s", "MiB"))
    steady = replace(rate, mean=5_500.0)
    assert value_texts("throughput", [rate], None) == ["last 5,419"]
    assert value_texts("throughput", [steady], None) == ["mean 5,500"]
    assert value_texts("throughput", [steady, rate], None) == ["mean 5,500", "–"]
    assert value_texts("throughput", [rate], [5_419.0]) == ["5,419"]
    assert value_texts("memory", [load], None) == ["5,419"]


def test_what_counts_epochs_or_steps_is_a_whole_number():
    assert metric_text("dlmon/epochs", 4.0) == "4"
    assert metric_text("train/step", 12_000.0) == "12,000"
    assert metric_text("epoch", 3.25) == "3.2500"
    assert metric_text("loss", 4.0) == "4.0000"


async def test_a_single_group_is_none_to_choose(tmp_path):
    path = tmp_path / "single.csv"
    path.write_text("step,loss,dlmon/epochs\n1,0.5,1\n2,0.25,2\n")
    source = FileSource(find_runs(path)[0])
    app = OneScreen(MetricsScreen([source], ["single"], reads=True))
    async with app.run_test(size=(120, 40)) as pilot:
        await begin(app, pilot)
        before = names(app)
        await pilot.press("g")
        await begin(app, pilot)
        assert names(app) == before
        assert "no two groups" in str([n.message for n in app._notifications])


async def test_a_run_has_the_name_that_its_file_tells(table):
    app = OneScreen(MetricsScreen([table], ["table"], reads=True))
    async with app.run_test(size=(120, 40)) as pilot:
        table.session.points.rename("wide net")
        await begin(app, pilot)
        assert "wide net" in screen_text(app)


async def test_the_name_in_the_file_is_found_though_the_chart_has_another(table):
    app = OneScreen(MetricsScreen([table], ["table"], reads=True))
    async with app.run_test(size=(120, 40)) as pilot:
        await begin(app, pilot)
        await pilot.press("slash", *"val/*")
        await begin(app, pilot)
        assert names(app) == ["loss"]


async def test_a_session_and_a_file_share_the_chart_of_the_loss(tmp_path, table):
    log = write_log(tmp_path, recorded_session(), "run")
    app = OneScreen(MetricsScreen([SessionFollower(log), table], ["run", "table"], reads=True))
    async with app.run_test(size=(120, 40)) as pilot:
        await begin(app, pilot)
        for _ in range(2):
            app.screen.paint()
            await pilot.pause()
        loss = next(line for line in screen_text(app).splitlines() if "Loss" in line)
        assert re.search(r"Loss .*\d · 1\.0000", loss)
