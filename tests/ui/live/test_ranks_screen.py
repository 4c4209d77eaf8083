"""The ranks of a run, opened from the live screen."""

from dataclasses import replace

import pytest
from fakes.recorded import folded, write_log
from fakes.screens import OneScreen, screen_text
from fakes.scripts import SECOND, script_session

from dlmon.figures.session.ranks import (
    RankRow,
    rank_rows,
    rank_table,
    ranks_in_words,
    step_split,
    why_no_ranks,
)
from dlmon.figures.value_axis import stacked_bar
from dlmon.records import Batches, Epoch, Model, Node, StepParts, Trainer
from dlmon.records.training import WAITS
from dlmon.session.follower import SessionFollower
from dlmon.session.limits.ranks import RankStep
from tui.live.live_screen import LiveScreen
from tui.live.ranks_screen import RankList, RankParts, RanksScreen
from tui.live.session_lines import BreakdownLine

NARROW, WIDE = (80, 24), (120, 40)
STEP = StepParts(0, steps=2, step_us=70_000, forward_us=2_000, backward_us=66_000)


def session_of(count, slow=None, measured=True):
    """Return the log of ranks on two hosts; the slow one waits 30 ms a step for its data."""
    header, *records = script_session(seconds=20, step_ms=35)
    header = replace(header, node="n0")
    trainer = next(record for record in records if isinstance(record, Trainer))
    of_rank = [record for record in records if isinstance(record, (Model, Batches, Epoch))]
    records = [record for record in records if record is not trainer]
    for number in range(count):
        host = "n1" if number >= count / 2 else None
        known = replace(trainer, number=number, rank=number, world_size=count, host=host)
        records.insert(0, known)
        if number:
            records += [replace(record, trainer=number) for record in of_rank]
        parts = replace(STEP, trainer=number or None)
        if number == slow:
            parts = replace(parts, wait_us=60_000, backward_us=6_000)
        ends = [known.t + second * SECOND for second in range(10)]
        records += [replace(parts, t=end) for end in ends] if measured else []
    return [header, *records, Node(header.t, "n1", facts=header.machine)]


def shown(tmp_path, records):
    follower = SessionFollower(write_log(tmp_path, records))
    follower.poll()
    return OneScreen(LiveScreen(follower))


async def open_ranks(app, pilot):
    await pilot.pause()
    await pilot.press("W")
    await pilot.pause()
    assert isinstance(app.screen, RanksScreen)
    return app.screen.table


def lines_with(app, text):
    return [line for line in screen_text(app).splitlines() if text in line]


@pytest.mark.parametrize("size", [NARROW, WIDE])
async def test_the_rank_that_the_others_wait_for_is_named_and_on_top(tmp_path, size):
    app = shown(tmp_path, session_of(4, slow=2))
    async with app.run_test(size=size) as pilot:
        table = await open_ranks(app, pilot)
        [said] = lines_with(app, "waits")[:1]
        assert said.strip().startswith(
            "▌ WAITING FOR RANK 2, 86 %  rank 2 on n1 waits 30.0 ms a step for data"
        )
        assert [row.name for row in table.shown_rows] == ["rank 2", "rank 0", "rank 1", "rank 3"]
        row = lines_with(app, "▸ 2")[0]
        assert "█" in row
        assert "░" not in row
        # The bars of the others are waiting, but for their own time.
        other = next(line for line in lines_with(app, "±0") if "░" in line and "n0" in line)
        assert other.count("░") > 5 * sum(map(other.count, "█▓▒"))
        assert "+30.0 ms" in row


async def test_the_parts_of_the_highlighted_rank_stand_beside_the_median(tmp_path):
    app = shown(tmp_path, session_of(4, slow=2))
    async with app.run_test(size=WIDE) as pilot:
        await open_ranks(app, pilot)
        parts = app.screen.query_one(RankParts)
        assert parts.border_title.startswith("A step of rank 2")
        [data] = [line for line in lines_with(app, "median 0.00 ms") if "data" in line]
        assert "30.0 ms" in data
        await pilot.press("down")
        await pilot.pause()
        assert parts.border_title.startswith("A step of rank 0")
        [waits] = [line for line in lines_with(app, "waits  ") if "median 30.0 ms" in line]
        assert "░" in waits


async def test_64_ranks_scroll_below_what_sums_them_up(tmp_path):
    app = shown(tmp_path, session_of(64))
    async with app.run_test(size=NARROW) as pilot:
        table = await open_ranks(app, pilot)
        text = screen_text(app)
        assert "ALL ALIKE  a step without waiting for others takes 35.0 ms" in text
        assert "64 processes on 2 machines" in text
        assert table.scrolls
        await pilot.press("end")
        await pilot.pause()
        assert lines_with(app, "▸ 63")


async def test_ranks_are_sorted_and_filtered(tmp_path):
    app = shown(tmp_path, session_of(4, slow=2))
    async with app.run_test(size=WIDE) as pilot:
        table = await open_ranks(app, pilot)
        await pilot.press("slash", *"n1", "enter")
        await pilot.pause()
        assert [row.name for row in table.shown_rows] == ["rank 2", "rank 3"]
        await pilot.press("i")
        assert [row.name for row in table.shown_rows] == ["rank 3", "rank 2"]
        await pilot.press("escape", "q")
        await pilot.pause()
        assert isinstance(app.screen, LiveScreen)


async def test_without_the_parts_of_steps_there_are_no_bars_and_no_empty_columns(tmp_path):
    app = shown(tmp_path, session_of(2, measured=False))
    async with app.run_test(size=WIDE) as pilot:
        table = await open_ranks(app, pilot)
        text = screen_text(app)
        assert "OWN TIME NOT KNOWN  too few steps are measured" in text
        assert not app.screen.query_one(RankParts).display
        headings = [column.name for column in table.columns(117)]
        assert headings == ["rank", "host", "data wait", "process"]


@pytest.mark.parametrize("measured", [True, False])
def test_the_live_screen_splits_the_step_of_rank_0_as_the_ranks_are_compared(measured):
    session = folded(session_of(4, slow=2, measured=measured))
    snapshot, first = session.snapshot(), rank_rows(session, session.snapshot())[0]
    split = step_split(snapshot, snapshot.judged_parts)
    assert (split is None) is not measured
    if split is not None:
        assert split.title == "A step of rank 0"
        times = {name: ms for name, ms, _ in split.rows}
        assert times[WAITS] == first.waits_ms
        assert sum(times.values()) == pytest.approx(first.own_ms + first.waits_ms)
        assert sum(share for *_, share in split.rows) == pytest.approx(1.0)
        drawn = BreakdownLine().rows(118, 3, snapshot)
        assert "for rank 2" in "".join(text for row in drawn for text, _ in row)


def test_the_report_has_the_same_figures():
    session = folded(session_of(4, slow=2))
    snapshot = session.snapshot()
    table = rank_table(session, snapshot)
    rows = [dict(zip(table.headings, row, strict=True)) for row in table.rows]
    assert rows[2]["own time"] == "35.0 ms"
    assert [row["vs median"] for row in rows] == ["±0", "±0", "+30.0 ms", "±0"]
    assert rows[0]["waits"] == "30.0 ms"
    assert table.levels[2] == "bad"
    assert "look for what rank 2 on n1 loads" in ranks_in_words(snapshot)[1][1]


def test_ranks_that_step_apart_are_said_to():
    session = folded(script_session(seconds=20, trainers=3, step_ms=20))
    for number in range(3):
        session.trainers.known[number] = replace(session.trainers.known[number], rank=number)
    title, (text, _) = ranks_in_words(session.snapshot())
    assert title == "NOT TOGETHER"
    assert text == "each steps alone: a step takes 20.0 ms to 22.0 ms"


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


def row_of(number, **changes):
    split = RankStep({"forward_us": 2.0, "rest_us": 30.0}, 31.0)
    values = {
        "gpus": (number,),
        "per_second": 1e4 + number * 1e3,
        "step_ms": 63.0 + number,
        "wait_ms": 31.0,
    }
    values |= {
        "memory_mib": 4e4,
        "busy_pct": 9.0,
        "pid": 4_242,
        "share": 0.1 + number / 100,
        "split": split,
        "apart_ms": 0.0,
    }
    values |= {"host": f"gpu-node-{number}", "holds_up": False, **changes}
    return RankRow(f"rank {number}", number, **values)


_FIRST = ("share", "process")


@pytest.mark.parametrize(
    ("width", "left_out"),
    [
        (57, {*_FIRST, "step", "GPU", "GPU memory", "rate", "GPU busy", "vs median", "waits"}),
        (77, {*_FIRST, "step", "GPU", "GPU memory", "rate", "GPU busy"}),
        (117, {*_FIRST, "step"}),
        (197, set()),
    ],
)
def test_what_matters_most_of_ranks_is_shown_whole_in_little_room(width, left_out):
    table = RankList()
    table.rearrange = lambda: None
    rows = tuple(map(row_of, range(8)))
    table.show(rows, "samples/s")
    everything = {column.name for column in table._columns}
    assert everything - {column.name for column in table.columns(width)} == left_out
    table.shown_rows = rows
    for drawn in (table.heading(width), table.row_of(3, width)):
        assert sum(len(text) for text, _ in drawn) <= width


def test_a_bar_has_its_parts_in_order_and_never_leaves_its_width():
    bar = stacked_bar([0.25, 0.00001, 0.5], [("█", "red"), ("█", "blue"), ("█", "green")], 20)
    assert [len(text) for text, _ in bar] == [5, 10]
    assert sum(len(text) for text, _ in stacked_bar([1.5], [("█", "red")], 20)) == 20
    # A part without a cell takes one of its larger neighbour, and moves no other end.
    marks = [(glyph, "") for glyph in "abcd"]
    bar = stacked_bar([0.6, 0.1, 0.02, 0.28], marks, 10)
    assert "".join(text for text, _ in bar) == "aaaaaabcdd"
