"""The charts of the live screen: one time axis, panned, zoomed and read by keys and mouse."""

import re

from fakes.recorded import folded, recorded_session
from fakes.screens import drag, of_this_boot

from dlmon.records import Output
from tui.live.output_pane import OutputPane
from tui.widgets.chart import Chart

CHARTS = ("#throughput", "#cpu", "#chart-0")

WIDE, NARROW = (120, 40), (80, 24)
# In columns of whole seconds, the charts of WIDE show more than the last minute.
MINUTE = "last 01:44"
# Seven minutes: 40 epochs of 10 s.
LONG = {"epochs": 50, "ended": 40}


def titles(shown):
    """Return the figures at the right of each chart's title."""
    return [shown.titles(chart)[0].rpartition("─ ")[2] for chart in CHARTS]


def seen(shown):
    """Return what is shown of the part of the run that is on the charts."""
    return shown.titles("#throughput")[1]


def cursors(shown):
    """Return the columns at which the charts draw a cursor."""
    return {shown.screen.query_one(chart, Chart)._picture.cursor for chart in CHARTS}


def instants(shown):
    """Return the instants that the titles name."""
    return {match for title in titles(shown) for match in re.findall("at ([0-9:]+)", title)}


def begins(shown):
    """Return how many epochs are marked, and which is the first."""
    marks = shown.screen.query_one("#throughput", Chart)._picture.marks
    return [label for _, label in marks]


# ---- the cursor ----


async def test_the_titles_show_the_values_at_the_cursor(show_session):
    async with show_session(recorded_session("training")) as shown:
        assert titles(shown)[1].startswith("39 %")
        await shown.press("home", "left", "home")
        throughput, cpu, gpu = titles(shown)
        assert throughput == "at 00:00  no batch"
        assert cpu.startswith("at 00:00  ")
        assert gpu.startswith("at 00:00  ")
        assert not cpu.startswith("at 00:00  39 %")
        await shown.press("end")
        assert re.fullmatch("at 00:1[4-7]  5,[0-9]{3} samples/s", titles(shown)[0])


async def test_a_click_sets_the_cursor_in_any_chart(show_session):
    async with show_session(recorded_session("training")) as shown:
        for chart, cell in (("#throughput", 3), ("#cpu", 5), ("#chart-0", 4)):
            # The border and the labels stand before the first cell.
            await shown.pilot.click(chart, offset=(1 + Chart.AXIS_WIDTH + cell, 3))
            await shown.pilot.pause()
            assert cursors(shown) == {2 * cell}
            run, count = shown.screen.run, shown.screen.plot_columns
            column_s = shown.screen.window.axis(run, count).column_ns / 1e9
            assert instants(shown) == {f"00:{int(2 * cell * column_s):02}"}


async def test_the_cursor_stays_at_its_instant_while_the_run_goes_on(show_session, clock):
    records = of_this_boot(recorded_session("training", **LONG))
    clock.now_ns = folded(records).last_t
    async with show_session(records) as shown:
        await shown.press("left", "shift+left", "shift+left")
        instant, before = instants(shown), cursors(shown)
        clock.advance(24)
        await shown.tick()
        assert instants(shown) == instant
        assert cursors(shown) != before
        # It would have left at the left by now, and holds the charts instead.
        clock.advance(300)
        await shown.tick()
        assert instants(shown) == instant
        assert "paused" in seen(shown)
        await shown.press("escape")
        assert seen(shown) == MINUTE


# ---- panning and zooming ----


async def test_one_zooms_through_the_views_and_back(show_session):
    minute, half, ten_seconds = MINUTE, "last 52 s", "last 10 s"
    async with show_session(recorded_session("training", **LONG)) as shown:
        names = []
        for key in ("z", "z", "z", "z", "minus", "plus", "plus", "plus", "equals_sign"):
            await shown.press(key)
            names.append(seen(shown))
        # Of seven minutes, ten show them all.
        whole = "whole run"
        there = [whole, ten_seconds, half, minute]
        assert names == [*there, whole, minute, half, ten_seconds, names[-1]]
        assert names[-1] == f"{ten_seconds}, nothing finer to show"
        for _ in range(4):
            await shown.press("minus")
        assert seen(shown) == f"{whole}, nothing more to show"
        await shown.press("f")
        assert seen(shown) == whole


async def test_panning_back_pauses_and_following_goes_on(show_session):
    async with show_session(recorded_session("training", **LONG)) as shown:
        newest = begins(shown)
        await shown.press("comma", "comma")
        assert re.fullmatch("paused at 0[0-9]:[0-9]{2} – 0[0-9]:[0-9]{2}, f follows", seen(shown))
        assert begins(shown) != newest
        await shown.press("full_stop", "full_stop")
        assert begins(shown) == newest
        for key in ("f", "end", "escape"):
            await shown.press("home")
            assert begins(shown)[0] == "1"
            await shown.press(key)
            assert begins(shown) == newest
            assert "paused" not in seen(shown)


async def test_dragging_moves_all_charts_together(show_session):
    async with show_session(recorded_session("training", **LONG)) as shown:
        before = shown.screen.window.axis(shown.screen.run, shown.screen.plot_columns)
        await shown.pilot.mouse_down("#cpu", offset=(20, 3))
        await drag(shown.pilot, "#cpu", (30, 3))
        await shown.pilot.mouse_up("#cpu", offset=(30, 3))
        await shown.pilot.pause()
        after = shown.screen.window.axis(shown.screen.run, shown.screen.plot_columns)
        assert before.start_ns - after.start_ns == 20 * before.column_ns
        assert cursors(shown) == {None}
        assert "paused" in seen(shown)


async def test_y_lets_the_throughput_begin_above_0_and_says_so(show_session):
    async with show_session(recorded_session("training", **LONG)) as shown:
        await shown.press("y")
        assert seen(shown) == f"{MINUTE}, y from 4.8k, not 0"
        assert shown.rows("#throughput")[-2].startswith(" 4.8k")
        # An area from there would say that it is so much.
        assert not shown.screen.query_one("#throughput", Chart)._picture.area
        await shown.press("y")
        assert shown.rows("#throughput")[-2].startswith("    0")


# ---- the log ----


async def test_with_the_log_open_the_keys_scroll_it_and_leave_the_charts_alone(show_session):
    records = recorded_session("training")
    last = folded(records).last_t
    records += [Output(last + n, "stdout", f"line {n}") for n in range(100)]
    async with show_session(records, size=NARROW) as shown:
        await shown.press("l")
        assert "z Zoom" not in shown.footer
        rows = shown.rows("OutputPane")
        assert rows[-1].endswith("line 99")
        await shown.press("up", "up")
        assert shown.rows("OutputPane")[-1].endswith("line 97")
        await shown.press("pageup")
        page = shown.screen.query_one(OutputPane).size.height - 1
        assert shown.rows("OutputPane")[-1].endswith(f"line {97 - page}")
        await shown.press("home")
        assert shown.rows("OutputPane")[0].endswith("Epoch 1/3")
        await shown.press("pagedown", "down", "end", "left")
        assert shown.rows("OutputPane") == rows
        assert cursors(shown) == {None}
        charts = shown.rows("#cpu")
        await shown.press("escape")
        await shown.settle()
        assert "Throughput" in shown.text
        assert shown.rows("#cpu") != charts
        assert any("⣿" in row for row in shown.rows("#cpu"))
