"""The machines of one run: a card each, opened from the live screen."""

from dataclasses import replace

import pytest
from fakes.recorded import recorded_session, write_log
from fakes.screens import OneScreen, screen_text

from dlmon.records import Batches, Machine, Model, Node, Trainer
from dlmon.session.follower import SessionFollower
from tui.hosts.nodes_screen import NodesScreen
from tui.live.live_screen import LiveScreen
from tui.messages import ShowNodes
from tui.watch.watch_screen import WatchScreen


@pytest.fixture
def source(tmp_path):
    """A run whose second rank is on another machine."""
    header, *records = recorded_session("training", gpus=1, epochs=2)
    header = replace(header, node="n0", command=("python", "train.py"))
    samples = [one for one in records if isinstance(one, Machine)]
    model = next(one for one in records if isinstance(one, Model))
    first = Trainer(header.t, 0, 40, "torch", rank=0, world_size=2)
    beside = [
        Node(header.t, "n1", facts=replace(header.machine, cores=64)),
        replace(first, number=1000, rank=1, host="n1"),
        replace(model, trainer=1000),
        *(Node(one.t, "n1", machine=one) for one in samples),
        *(replace(one, trainer=1000) for one in records if isinstance(one, Batches)),
    ]
    follower = SessionFollower(write_log(tmp_path, [header, first, *records, *beside]))
    follower.poll()
    yield follower
    follower.close()


async def test_the_live_screen_offers_the_machines_of_a_run_on_several(source):
    app = OneScreen(LiveScreen(source))
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        await pilot.press("M")
        await pilot.pause()
        assert [type(request) for request in app.asked] == [ShowNodes]
        assert "2 processes on 2 machines" in screen_text(app)


async def test_each_machine_has_a_card_with_its_ranks_and_opens_in_full(source):
    app = OneScreen(NodesScreen(source))
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        text = screen_text(app)
        assert "2 machines  2 GPUs  2 processes" in text
        for title in ("╭─ n0 ", "╭─ n1 ", "rank 0", "rank 1"):
            assert title in text
        await pilot.press("right", "enter")
        await pilot.pause()
        assert isinstance(app.screen, WatchScreen)
        assert "64 cores" in screen_text(app)
        await pilot.press("q")
        await pilot.pause()
        assert isinstance(app.screen, NodesScreen)
