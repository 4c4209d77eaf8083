"""The epochs of the live screen: a slow one is two keys away, alone on all charts and explained."""

import pytest
from fakes.recorded import recorded_session
from fakes.slow_epoch import with_slow_epoch

from dlmon.records import Epoch, Notice
from tui.live.epochs import EpochLine, EpochTable
from tui.live.session_lines import LimitLine

SLOW = with_slow_epoch(recorded_session("training", epochs=12, ended=10), 7)
(SLOW_EPOCH,) = (record for record in SLOW if isinstance(record, Epoch) and record.epoch == 7)


TAKEN_DOWN = "3.0 s at the start of epoch 8: TensorFlow takes down the last epoch's input pipeline"


@pytest.mark.parametrize(("size", "keys"), [((80, 24), ["enter"]), ((200, 60), ["down", "enter"])])
async def test_at_most_two_keys_lead_to_the_slow_epoch_alone_and_to_what_differed(
    show_session, size, keys
):
    at = next(n for n, record in enumerate(SLOW) if getattr(record, "t", 0) > SLOW_EPOCH.begin)
    notices = [
        Notice(SLOW_EPOCH.begin - 10**9, "before it"),
        Notice(SLOW_EPOCH.begin + 10**8, TAKEN_DOWN),
    ]
    async with show_session([*SLOW[:at], *notices, *SLOW[at:]], size=size) as shown:
        assert "Enter shows what differed" in shown.titles(EpochTable)[1]
        await shown.press(*keys)
        await shown.settle()
        said = " ".join(" ".join(shown.rows(EpochLine)).split())
        assert f"Notice in it: {TAKEN_DOWN}." in said
        assert "before it" not in said
        assert "Epoch 8 took 12.2 s, 3.00 s more than the usual 9.16 s: 1 stall took" in said
        assert "slowed by heat" in said
        axis = shown.screen.window.axis(shown.screen.run, shown.screen.plot_columns)
        assert 0 <= SLOW_EPOCH.begin - axis.start_ns < 10**9
        assert 0 <= axis.end_ns - SLOW_EPOCH.end < 2 * axis.column_ns * shown.screen.plot_columns
        assert "epoch 8 alone, Esc goes back" in shown.text
        # Not the whole run's beside the name of the epoch, but what its row says too.
        train_s = (SLOW_EPOCH.train_end - SLOW_EPOCH.begin) / 1e9
        assert f"epoch 8  {SLOW_EPOCH.samples / train_s:,.0f} " in shown.titles("#throughput")[0]


async def test_escape_goes_back_to_what_the_charts_showed(show_session):
    async with show_session(SLOW) as shown:
        before = shown.text
        await shown.press("enter")
        await shown.settle()
        alone = shown.text
        assert alone != before
        assert not shown.screen.query_one(LimitLine).display
        # The log hides it and gives it back.
        await shown.press("l")
        await shown.settle()
        assert "Epoch 8  took" not in shown.text
        await shown.press("l")
        await shown.settle()
        assert shown.text == alone
        # A cursor reads within it, and is what escape takes away first.
        await shown.press("left", "left")
        assert SLOW_EPOCH.begin <= shown.screen.window.cursor_ns < SLOW_EPOCH.end
        await shown.press("escape")
        assert shown.screen.window.cursor_ns is None
        assert shown.screen.window.length_ns is not None
        await shown.press("escape")
        await shown.settle()
        assert shown.text == before


async def test_another_epoch_is_shown_alone_as_one_goes_to_it(show_session):
    async with show_session(SLOW) as shown:
        await shown.press("enter", "up")
        await shown.settle()
        assert "Epoch 7  took 9.16 s, as usual. Nothing that is compared differed." in shown.text
        (row,) = (row for row in shown.rows(EpochTable) if "▸" in row)
        assert row.split()[:2] == ["▸", "7"]
        below = shown.rows(EpochTable).index(row) + 1
        await shown.pilot.click(EpochTable, offset=(6, below + 1))
        await shown.settle()
        assert "Epoch 8  took" in shown.text
        await shown.press("minus")
        await shown.settle()
        assert shown.screen.window.length_ns is None
        assert not shown.screen.query_one(EpochLine).display
        assert shown.screen.query_one(LimitLine).display
