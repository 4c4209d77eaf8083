"""The comparison over the whole screen: one row is chosen, and all that is known of it is shown."""

from dataclasses import replace

from fakes.recorded import BEGIN_WALL, recorded_session
from fakes.states import STATES, on_stage

from tui.live.comparison import ComparisonBars
from tui.live.comparison_screen import ComparisonScreen
from tui.live.live_screen import LiveScreen
from tui.live.replay_screen import ReplayScreen
from tui.messages import Replay
from tui.widgets.tables import SectionLines

NARROW, WIDE = (80, 24), (120, 40)


def shown(state="training", view="compare", size=NARROW):
    """Show a state; the stage holds what is seen."""
    return on_stage(state, view, size)


def rows(stage, kind):
    widget = stage.app.screen.query_one(kind)
    return [widget.render_line(y).text.rstrip() for y in range(widget.size.height)]


async def click_row(stage, label):
    """Click a row of the comparison where it stands on the screen."""
    bars = stage.app.screen.query_one(ComparisonBars).content_region
    (y,) = (y for y, row in enumerate(rows(stage, ComparisonBars)) if label in row)
    await stage.pilot.click(offset=(bars.x + 5, bars.y + y))
    await stage.settle()


def title(stage):
    """Return the title above the details: the row that is chosen."""
    return stage.app.screen.query_one(SectionLines)._border_title.plain


def details(stage):
    return " ".join(" ".join(rows(stage, SectionLines)).replace("┃", "").split())


async def test_a_key_leads_to_all_that_is_known_of_the_rows_and_another_one_back():
    async with shown("completed", "live") as stage:
        for key in ("c", "q", "escape"):
            await stage.press("c")
            assert isinstance(stage.app.screen, ComparisonScreen)
            assert "NVIDIA GTX 1060" in title(stage)
            await stage.press(key)
            assert isinstance(stage.app.screen, LiveScreen)


async def test_up_and_down_choose_a_row_whose_device_and_share_of_its_peak_are_shown():
    async with shown() as stage:
        await stage.press("home")
        assert "NVIDIA GTX 1080 Ti" in title(stage)
        assert any(row.startswith("▸ NVIDIA GTX 1080 Ti") for row in rows(stage, ComparisonBars))
        assert "of its peak 26 %" in details(stage)
        assert "3,584 cores, 1,480 to 1,582 MHz, 11 GB GDDR5X, 484 GB/s" in details(stage)
        assert "yansongsong.cn" in details(stage)
        await stage.press("down")
        assert "NVIDIA GTX 1060" in title(stage)
        await stage.press("up", "up")
        assert "NVIDIA GTX 1080 Ti" in title(stage)


async def test_a_click_on_a_row_of_the_live_screen_shows_that_row():
    async with shown("training", "live", WIDE) as stage:
        await click_row(stage, "NVIDIA GTX 1060")
        assert "NVIDIA GTX 1060" in title(stage)
        await click_row(stage, "Colab GPU")
        assert "Colab GPU" in title(stage)


async def test_a_click_shows_the_same_row_where_the_live_screen_leaves_out_earlier_runs():
    twelve = tuple(
        recorded_session(
            session_id=f"202611{20 - day:02}-145600-cifar10-cnn-{day:04}",
            begin_wall=BEGIN_WALL - day * 86_400,
            step_us=18_000 + 500 * day,
        )
        for day in range(1, 13)
    )
    async with shown(replace(STATES["training"], earlier=twelve), "live", WIDE) as stage:
        await click_row(stage, "Intel i7-9700K")
        assert "Intel i7-9700K" in title(stage)


async def test_the_first_run_of_a_script_has_no_bars_and_the_key_says_why(monkeypatch):
    said = []
    monkeypatch.setattr(LiveScreen, "notify", lambda screen, text, **how: said.append(text))
    async with shown("own-script", "live") as stage:
        assert not stage.app.screen.query_one(ComparisonBars).display
        await stage.press("c")
        assert isinstance(stage.app.screen, LiveScreen)
        assert said == ["No earlier run to compare with."]


async def test_a_first_run_shows_its_own_figures_and_no_key_that_does_nothing():
    async with shown() as stage:
        assert "NO EARLIER RUN" in stage.text
        assert "throughput 5,500 samples/s median step 18.00 ms" in details(stage)
        assert "Keep as base" not in stage.text
        await stage.press("home")
        assert "Keep as base" in stage.text


async def test_a_row_that_does_not_compare_is_not_chosen_and_it_says_why(monkeypatch):
    said = []
    monkeypatch.setattr(ComparisonScreen, "notify", lambda screen, text, **how: said.append(text))
    async with shown("training", "live", WIDE) as stage:
        await stage.press("c", "end", "enter")
        assert isinstance(stage.app.screen, ComparisonScreen)
        assert said[0].startswith("not compared with ")


async def test_what_was_chosen_once_is_compared_with_from_then_on():
    async with shown("earlier-runs", "live", WIDE) as stage:
        assert "the run before" in stage.text
        await stage.press("c", "down", "enter")
        # The screen stays, with that run as base, and the key has nothing more to do.
        assert title(stage).startswith("base run of 18 Nov 14:56 ")
        assert not stage.app.screen.check_action("compare_with", ())
        await stage.press("c")
        assert isinstance(stage.app.screen, LiveScreen)
        assert "◆ 18 Nov 14:56" in stage.text
        assert " as run of 18 Nov 14:56" in stage.text
        # Another screen of this workload compares with it as well, and begins on its row.
        follower = stage.app.screen.shown_session
        stage.app.post_message(Replay([follower.path]))
        await stage.pilot.pause()
        await stage.app.workers.wait_for_complete()
        assert isinstance(stage.app.screen, ReplayScreen)
        assert stage.app.screen._comparison.reference[0] == "20261118-145600-cifar10-cnn-0002"
        await stage.press("q", "c")
        assert title(stage).startswith("base run of 18 Nov 14:56 ")
        # This run's own row goes back to the run before.
        await stage.press("down")
        assert title(stage) == "this run"
        await stage.press("enter", "q")
        assert "the run before" in stage.text
