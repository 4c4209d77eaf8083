"""The cards of machines that are played from their recordings: their keys, and one in full."""

import re
from contextlib import asynccontextmanager
from functools import partial

import pytest
from fakes.recorded import recorded_host
from fakes.screens import Clock, Shown, dlmon_app_with, screen_text, until

from dlmon.cli.start import Sources
from dlmon.remote.host_replay import HostReplay
from dlmon.session.replay import ReplaySource
from tui.hosts.hosts_screen import HostReplayScreen
from tui.live.replay_screen import ReplayScreen
from tui.sessions.sessions_screen import SessionsScreen

pytestmark = pytest.mark.usefixtures("utc")

SIZES = [(80, 24), (120, 40), (200, 60)]


@pytest.fixture
def clock():
    return Clock(10**12)


def write_recordings(log_dir, count, **more):
    """Write recordings of so many hosts, each begun two seconds after the one before."""
    kinds = (2, 8, 0, 1)
    return [
        recorded_host(
            log_dir, f"gpu{number + 1}", begin_s=2 * number, gpus=kinds[number % 4], **more
        )
        for number in range(count)
    ]


class Played(Shown):
    def __init__(self, replay, clock):
        super().__init__(HostReplayScreen(replay))
        self.replay, self.clock = replay, clock

    async def begin(self):
        await until(self.pilot, lambda: self.replay.ahead_share is None)
        await self.settle()

    async def settle(self):
        await until(self.pilot, lambda: self.replay.read_share is None)
        for _ in range(2):
            self.screen.tick()
            await self.pilot.pause()


@pytest.fixture
def play(tmp_path, clock):
    @asynccontextmanager
    async def begin(hosts=4, size=(120, 40), **more):
        played = Played(HostReplay(write_recordings(tmp_path, hosts, **more), clock=clock), clock)
        async with played.on(size):
            yield played

    return begin


@pytest.mark.parametrize("count", [4, 32])
async def test_it_looks_right(play, text_snapshot, count):
    pictures = []
    async with play(count, SIZES[0], seconds=20) as played:
        await played.press("space", "colon", "2", "3", "enter")
        for size in SIZES:
            await played.pilot.resize_terminal(*size)
            await played.settle()
            title = f" {count} hosts, {size[0]}×{size[1]} "
            pictures.append(f"{title:═^{size[0]}}\n{played.text}\n")
    assert "".join(pictures) == text_snapshot


async def test_hosts_that_begin_later_are_one_row(play):
    async with play(32, SIZES[0], seconds=20) as played:
        await played.press("space", "colon", "2", "3", "enter")
        (row,) = (row for row in played.text.splitlines() if "begin" in row)
        assert " ".join(row.split()) == "gpu13 and 19 more begin from 14:56:24 on"
        assert "32 hosts" in played.text
        assert "20 not started" in played.text


async def test_marks_are_gone_to_and_named_with_their_host(play):
    async with play(2) as played:
        await played.press("space", "n")
        assert re.search(r"gpu[12]: GPU \d is throttled", played.line)
        await played.press("N", "N")
        assert played.line.rstrip().endswith("no mark before this one")


async def test_arrows_move_the_highlight_and_home_and_end_the_moment(play):
    async with play(4) as played:
        await played.press("space", "right", "down", "end")
        assert played.screen.chosen_host.name == "gpu4"
        assert played.replay.now() == played.replay.end_ns
        await played.press("home")
        assert played.screen.chosen_host.name == "gpu4"
        assert played.replay.now() == played.replay.start_ns
        await played.press("ctrl+home")
        assert played.screen.chosen_host.name == "gpu1"


# ---- in the app ----


@pytest.fixture
def app_of(tmp_path, clock):
    """Return what makes the app whose replays are played by the clock of the test."""
    sources = Sources(
        replay=partial(ReplaySource, clock=clock),
        host_replay=lambda logs, names: HostReplay(logs, names, clock),
    )
    return lambda **more: dlmon_app_with(sources)(tmp_path, **more)


async def test_a_host_opens_in_full_at_that_moment_and_the_cards_go_on_where_it_was_left(
    app_of, tmp_path
):
    app = app_of(replayed=tuple(write_recordings(tmp_path, 2)))
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, HostReplayScreen))
        cards = app.screen
        await pilot.press("space", "colon", "1", "2", "enter")
        await until(pilot, lambda: "00:12" in screen_text(app).splitlines()[-2])
        await pilot.press("right", "enter")
        await until(pilot, lambda: isinstance(app.screen, ReplayScreen))
        # It was begun two seconds later.
        await until(pilot, lambda: "paused, 1×    00:10" in screen_text(app))
        assert "gpu2" in screen_text(app).splitlines()[0]
        await pilot.press("g")
        await until(pilot, lambda: screen_text(app).startswith(" gpu2   Intel i7-9700K"))
        await pilot.press("g")
        await until(pilot, lambda: isinstance(app.screen, ReplayScreen))
        await pilot.press("colon", "2", "0", "enter")
        await until(pilot, lambda: "paused, 1×    00:20" in screen_text(app))
        await pilot.press("q")
        await until(pilot, lambda: app.screen is cards)
        await until(pilot, lambda: "paused, 1×    00:22" in screen_text(app))
        await pilot.press("left", "enter")
        await until(pilot, lambda: isinstance(app.screen, ReplayScreen))
        await until(pilot, lambda: "paused, 1×    00:22" in screen_text(app))
        await pilot.press("q")
        await until(pilot, lambda: app.screen is cards)
        await pilot.press("q")
    assert app.return_code == 0


async def test_marked_recordings_are_played_together_from_the_sessions(app_of, tmp_path):
    write_recordings(tmp_path, 2)
    app = app_of()
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("r")
        await until(pilot, lambda: "2 recorded" in screen_text(app))
        await pilot.press("space", "space", "v")
        await until(pilot, lambda: isinstance(app.screen, HostReplayScreen))
        await until(pilot, lambda: "2 hosts" in screen_text(app))
        await pilot.press("q")
        await until(pilot, lambda: isinstance(app.screen, SessionsScreen))
