"""The replay of a session: its keys, its last line, and what it offers."""

from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest
from fakes.recorded import recorded_session, write_log
from fakes.screens import Clock, Shown, until
from fakes.states import STATES
from textual import events

from dlmon.records import Notice
from dlmon.session.marks import Mark, MarkKind
from dlmon.session.replay import ReplaySource
from tui.live.replay_screen import ReplayScreen
from tui.messages import GoBack
from tui.screens.playback import _with_ticks

RECORDS = recorded_session(epochs=3)


class Played(Shown):
    def __init__(self, log):
        self.clock = Clock(10**12)
        self.source = ReplaySource(log, self.clock)
        super().__init__(ReplayScreen(self.source))

    async def begin(self):
        await self.pilot.pause()
        await until(self.pilot, lambda: self.source.ahead_share is None)
        assert self.source.at_end
        await self.pilot.press("home")
        await self.pass_s(0)

    async def pass_s(self, seconds):
        self.clock.advance(seconds)
        self.screen.tick()
        await self.pilot.pause()


@pytest.fixture
def play(tmp_path):
    @asynccontextmanager
    async def begin(records=RECORDS, size=(120, 40)):
        played = Played(write_log(tmp_path, records))
        async with played.on(size):
            yield played

    return begin


async def test_the_last_line_says_where_it_is_and_how_fast_it_plays(play):
    async with play() as played:
        assert played.line.split()[:3] == ["replay", "1×", "00:00"]
        assert played.line.endswith("00:32")
        assert "space Pause" in played.footer
        # It plays on under another screen, whose help promises no question before leaving.
        await played.press("question_mark")
        assert "space  Pause" in played.text
        assert "asks first" not in played.text.partition("On this screen")[0]
        await played.pass_s(1.0)
        await played.press("escape")
        await played.pass_s(1.0)
        assert "00:02" in played.line
        await played.press("right_square_bracket", "right_square_bracket")
        assert "replay 5×" in played.line
        await played.press(*["left_square_bracket"] * 9)
        assert "replay 0.25×" in played.line
        await played.press("space")
        await played.pass_s(2.0)
        assert played.line.split()[:3] == ["paused,", "0.25×", "00:02"]
        assert "space Play" in played.footer
        await played.press("q")
        (left,) = played.app.asked
        assert isinstance(left, GoBack)


async def test_keys_go_to_marks_times_and_both_ends(play):
    async with play() as played:
        await played.press("space", "n", "n")
        assert played.line.endswith("end of epoch 1")
        assert "  replay: training  epoch 2/3  " in played.text.splitlines()[0]
        # The run is past: no time is left of it.
        assert " left, ends " not in played.text
        await played.press("n")
        assert played.line.endswith("end of epoch 2")
        await played.press("N")
        assert played.line.endswith("end of epoch 1")
        await played.press("N", "N")
        assert played.line.endswith("no mark before this one")
        await played.press("colon")
        assert "Go to a time from 00:00 to 00:32" in played.text
        await played.press("0", ":", "1", "9", "enter")
        assert "00:19" in played.line
        before = played.source.position_ns
        await played.press("colon", *"abc", "enter")
        assert "say a time such as 12m30s" in played.text
        await played.press("escape")
        assert played.source.position_ns == before
        await played.press("end")
        assert "completed" in played.text.splitlines()[0]
        # Where the log has the screen, they scroll that.
        await played.press("l", "home")
        assert played.source.at_end
        await played.press("l", "home")
        assert "00:00" in played.line
        assert "completed" not in played.text


async def test_at_its_end_it_says_so_and_space_plays_it_again(play):
    async with play() as played:
        await played.press("end")
        assert played.line.split()[:2] == ["replay", "ended"]
        assert "space Play" in played.footer
        await played.press("space")
        # The time before the first step is left out.
        assert played.line.split()[:2] == ["replay", "1×"]
        begun_s = (played.source.position_ns - played.source.start_ns) / 1e9
        first_s = (played.source._index.session.training_start - played.source.start_ns) / 1e9
        assert begun_s == pytest.approx(first_s)
        assert "space Pause" in played.footer


async def test_epochs_and_stalls_are_ticks_on_the_slider(play):
    async with play() as played:
        assert played.line.count("│") == 3
        assert "!" not in played.line


def test_a_stall_is_a_tick_on_the_slider_and_too_many_epochs_are_none():
    stall, epochs = Mark(50, MarkKind.STALL, 2.0), [Mark(n, MarkKind.EPOCH, n) for n in range(90)]
    player = SimpleNamespace(marks=[*epochs, stall], start_ns=0, end_ns=100)
    bar = "".join(text for text, _ in _with_ticks((("─" * 20, ""),), player, 0.25))
    assert bar == "─" * 5 + "●" + "─" * 4 + "!" + "─" * 9


async def test_a_time_that_is_typed_at_once_is_gone_to(play):
    """Enter has priority: it must not overtake what was typed before."""
    async with play() as played:
        await played.press("space")
        for key in ("colon", "1", "9", "s", "enter"):
            character = {"colon": ":", "enter": "\r"}.get(key, key)
            played.app.post_message(events.Key(key, character))
        await until(played.pilot, lambda: "00:19" in played.line)


async def test_nothing_is_offered_that_a_run_alone_can_do(play):
    async with play(size=(200, 40)) as played:
        offered = {active.binding.action for active in played.screen.active_bindings.values()}
        assert not offered & {"stop", "detach", "again", "stop_and_again"}
        for word in ("Pause", "Speed", "To mark", "Go to", "Quit"):
            assert word in played.footer
        await played.press("s", "d", "a")
        assert played.app.screen is played.screen


async def test_a_key_of_a_run_that_goes_on_says_why_it_does_nothing(play):
    async with play() as shown:
        await shown.press("s")
        assert [notification.message for notification in shown.app._notifications] == [
            "this is a replay: nothing runs that could be stopped or left"
        ]


async def test_a_run_that_hung_shows_its_source_when_it_hung(play):
    records = STATES["stalled"].records
    until = Notice(records[-1].t + 10 * 10**9, "it still hangs")
    async with play([*records, until]) as played:
        played.source.seek(records[-1].t + 10**9)
        await played.press("space")
        assert "▶ 88  torch.save(" in played.text
        await played.press("home")
        assert "▶ 88  torch.save(" not in played.text


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_before_the_end_of_a_run_that_failed_the_charts_are_there(play, size):
    async with play(STATES["failed-with-traceback"].records, size) as played:
        await played.press("space", "end")
        assert "─ Traceback ─" in played.text
        await played.press("home")
        assert "─ Traceback ─" not in played.text
        assert "STARTING" in played.text
