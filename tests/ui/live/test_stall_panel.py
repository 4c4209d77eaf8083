"""The live screen of a run that hangs: the source where it stands is below the headline."""

from dataclasses import replace

from fakes.states import SAVE, SIZES, STATES, on_stage

from dlmon.records import SourceLines, Stack
from tui.live.stall_panel import StallPanel

RECORDS = STATES["stalled"].records
MARKED = "▶ 88  torch.save({'model': net.state_dict(), 'optimizer':"


def with_source(**fields):
    return [replace(r, **fields) if isinstance(r, SourceLines) else r for r in RECORDS]


async def test_the_line_is_marked_between_its_neighbours(show_session):
    async with show_session(RECORDS) as shown:
        for size in SIZES:
            await shown.resize(*size)
            rows = shown.rows(StallPanel)
            assert rows[0] == f"  86  {SAVE[0].strip()}"
            assert rows[2].startswith(MARKED)
            assert any("state_dict()}, path)" in row for row in rows[2:4])
            assert rows[-1].startswith("mean CPU 4 % (this run 0.0 cores, all else 0.3)  GPU 0 %")
            title, below = shown.titles(StallPanel)
            assert title.startswith("/home/ada/resnet/train_resnet.py")
            assert below == "S all stacks"
            assert "─ 0 samples/s" in shown.text or size == SIZES[0]
            assert "  STALLED  epoch 2/3" in shown.text.splitlines()[0]


async def test_a_file_that_changed_is_said_to_have_changed(show_session):
    async with show_session(with_source(changed=True)) as shown:
        assert "─ the file changed since the run began ─" in shown.text


async def test_source_that_cannot_be_read_leaves_its_reason(show_session):
    why = {"lines": "it is not text"}
    async with show_session(with_source(lines=None, why=why)) as shown:
        assert "─ its source can't be read: it is not text ─" in shown.text
        assert shown.rows(StallPanel)[0].startswith("mean CPU 4 %")


async def test_once_the_run_goes_on_it_is_gone(show_session):
    going_on = [r for r in STATES["own-script"].records if not isinstance(r, Stack)]
    async with show_session(going_on) as shown:
        assert not shown.screen.query_one(StallPanel).display


async def test_of_an_interrupted_run_it_shows_where_that_stood():
    async with on_stage("stalled-and-over") as stage:
        assert MARKED in stage.text
        assert "S all stacks" not in stage.text


async def test_the_charts_show_how_the_run_went_before(show_session):
    async with show_session(RECORDS) as shown:
        for size in SIZES:
            await shown.resize(*size)
            assert "no value in this time" not in shown.text
            assert "─ ┴0:00─" in shown.text
