"""The machines of one run: a card each, opened from the live screen."""

from dataclasses import replace
from unittest import mock

import pytest
from fakes.recorded import folded, recorded_session, write_log
from fakes.screens import OneScreen, screen_text
from fakes.scripts import script_session
from rich.cells import cell_len

from dlmon.figures.session.ranks import COLUMNS, RankRow, why_no_ranks
from dlmon.records import Batches, Machine, Model, Node, Trainer
from dlmon.session.follower import SessionFollower
from tui.hosts.nodes_screen import NodesScreen
from tui.live.live_screen import LiveScreen
from tui.live.ranks_screen import RankList, RanksScreen
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


async def test_the_ranks_of_a_run_are_a_table_that_is_sorted_and_filtered(source):
    app = OneScreen(LiveScreen(source))
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        await pilot.press("W")
        await pilot.pause()
        assert isinstance(app.screen, RanksScreen)
        table = app.screen.table
        assert [(row.name, row.host) for row in table.shown_rows] == [
            ("rank 0", "n0"),
            ("rank 1", "n1"),
        ]
        assert "Ranks 2" in screen_text(app)
        assert [table.shown_rows[0].share, table.shown_rows[1].gpus] == [0.5, (0,)]
        await pilot.press("slash", *"n1", "enter")
        await pilot.pause()
        assert [row.name for row in table.shown_rows] == ["rank 1"]
        await pilot.press("escape", "q")
        await pilot.pause()
        assert isinstance(app.screen, LiveScreen)


async def test_each_machine_has_a_card_with_its_ranks_and_opens_in_full(source):
    app = OneScreen(NodesScreen(source))
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        text = screen_text(app)
        assert "2 machines   0 of 2 GPUs free   2 processes" in text
        for title in ("╭─ n0 ", "╭─ n1 ", "rank 0", "rank 1"):
            assert title in text
        await pilot.press("right", "enter")
        await pilot.pause()
        assert isinstance(app.screen, WatchScreen)
        assert "64 cores" in screen_text(app)
        await pilot.press("q")
        await pilot.pause()
        assert isinstance(app.screen, NodesScreen)


@pytest.mark.parametrize(
    ("known", "world_size", "running", "why"),
    [
        (0, None, True, "once their processes have trained a first batch: none has yet"),
        (1, 2, True, "1 of 2 processes trains so far: ranks are shown once another does"),
        (1, None, True, "one process trains: only a run of several has ranks to show"),
        (0, None, False, "no process was seen to train"),
    ],
)
def test_it_is_said_why_no_ranks_are_shown_and_when_they_may_be(known, world_size, running, why):
    session = folded(script_session(seconds=0))
    session.trainers.known.clear()
    for number in range(known):
        session.add(Trainer(1, number, 40, "torch", rank=number, world_size=world_size))
    assert why in why_no_ranks(session, running)


def rank(number, **changes):
    row = RankRow(
        f"rank {number}", number, "gpu-node-07", (number,), 1e4, 63.0, 31.0, 4e4, 0.1, False, 32.0
    )
    return replace(row, **changes)


@pytest.mark.parametrize(
    ("width", "gpus", "shown"),
    [
        (57, True, ["rank", "machine", "step", "data wait", "own work"]),
        (77, True, ["rank", "machine", "rate", "step", "data wait", "own work", "GPU memory"]),
        (117, True, [column.name for column in COLUMNS]),
        (57, False, ["rank", "machine", "step", "data wait", "own work"]),
        (77, False, ["rank", "machine", "rate", "step", "data wait", "own work", "share"]),
    ],
)
def test_what_matters_most_of_ranks_is_shown_whole_in_little_room(width, gpus, shown):
    table = RankList()
    rows = tuple(rank(number, **({} if gpus else {"gpus": ()})) for number in range(8))
    with mock.patch.object(table, "rearrange"):
        table.show(rows, "samples/s", "")
    assert [column.name for column in table.columns(width)] == shown
    table.shown_rows = rows
    for drawn in (table.heading(width), table.row_of(3, width)):
        assert sum(cell_len(text) for text, _ in drawn) <= width + table.GAP
