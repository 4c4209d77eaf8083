"""The live screen of a run that failed: the traceback has the room of the charts."""

import re
from dataclasses import replace

import pytest
from fakes.states import STATES

from dlmon.records import FailureKind, Output, Result
from tui.live.failure_pane import FailurePane
from tui.live.output_pane import OutputPane

RECORDS = STATES["failed-with-traceback"].records
RAISED = "raise MissingImage(name) from error"
ERROR = "data.MissingImage: n02119789_[b]4[/].JPEG is in no archive"
SMALL, MIDDLE, LARGE = (80, 24), (120, 40), (200, 60)


def with_output(*lines, **fields):
    """Return the records of a run that failed after it printed these lines."""
    *rest, result = [record for record in RECORDS if not isinstance(record, Output)]
    assert isinstance(result, Result)
    return [*rest, *(Output(result.t, "stderr", line) for line in lines), replace(result, **fields)]


async def test_the_traceback_is_shown_whole_and_the_charts_if_there_is_room(show_session):
    async with show_session(RECORDS) as shown:
        for size, has_charts in ((SMALL, False), (MIDDLE, True), (LARGE, True)):
            await shown.resize(*size)
            rows = shown.rows(FailurePane)
            raised = next(n for n, row in enumerate(rows) if RAISED in row)
            assert rows[raised + 1] == ERROR
            assert rows[0] == "data.py:31 in read"
            # The loss and the output are what may tell why; the machine is beside them.
            assert ("─ Loss  O shows accuracy ─" in shown.text) is has_charts
            assert ("─ Output ─" in shown.text) is has_charts
            assert ("─ GPU 0 ─" in shown.text) is (size == LARGE)
            assert "─ GPU 0 memory ─" not in shown.text
            assert not re.search("Throughput|Seconds per epoch|Step times", shown.text)


async def test_keys_scroll_it_and_the_log_still_opens(show_session):
    deep = [f'  File "/home/ada/resnet/f{n}.py", line {n}, in f' for n in range(60)]
    lines = ["Traceback (most recent call last):", *deep, "ValueError: no"]
    async with show_session(with_output(*lines), size=SMALL) as shown:
        assert "ValueError: no" in shown.screen.query_one(FailurePane)._rows[-2][0][0]
        assert "Loss" not in shown.text
        await shown.press("home")
        assert "f0.py:0 in f" in shown.text
        await shown.press("down", "pagedown")
        assert "f0.py:0 in f" not in shown.text
        await shown.press("end")
        assert "At the end: loss 1.0514" in shown.text
        await shown.press("l")
        assert isinstance(shown.screen.maximized, OutputPane)
        assert "ValueError: no" in shown.text
        await shown.press("l")
        assert "At the end: loss 1.0514" in shown.text


async def test_a_chart_key_without_charts_says_why(show_session):
    async with show_session(RECORDS, size=SMALL) as shown:
        await shown.press("z")
        (toast,) = shown.app._notifications
        assert toast.message == "a larger window has room for the charts"


async def test_it_is_shown_alone_as_any_pane(show_session):
    async with show_session(RECORDS, size=MIDDLE) as shown:
        await shown.press("tab", "enter")
        assert isinstance(shown.screen.maximized, FailurePane)
        assert "─ Loss " not in shown.text
        assert shown.screen.maximized.outer_size.height > 30
        await shown.press("enter")
        assert "─ Loss " in shown.text


async def test_a_resize_gives_the_charts_their_room_back(show_session):
    async with show_session(RECORDS, size=SMALL) as shown:
        await shown.pilot.resize_terminal(*MIDDLE)
        assert "─ Loss " in shown.text
        await shown.pilot.resize_terminal(*SMALL)
        assert "─ Loss " not in shown.text
        assert ERROR in shown.text


async def test_of_a_process_that_is_not_python_the_last_output_is_shown(show_session):
    lines = [f"epoch {n} [red]done[/]" for n in range(100)]
    killed = with_output(*lines, failure=FailureKind.KILLED, error="it was killed by SIGKILL")
    async with show_session(killed, size=MIDDLE) as shown:
        assert "─ Last output ─" in shown.text
        assert "epoch 99 [red]done[/]" in shown.text
        assert "At the end: loss 1.0514, host memory " in shown.text


async def test_a_run_that_did_not_fail_has_no_such_pane(show_session):
    async with show_session(STATES["completed"].records) as shown:
        assert not shown.screen.query_one(FailurePane).display


@pytest.mark.parametrize(
    ("repeatable", "rows"), [(True, ["▌ → mend it, then run it again (a)"]), (False, [])]
)
async def test_what_can_be_run_again_is_to_be_mended_first(show_session, repeatable, rows):
    async with show_session(RECORDS, repeatable=repeatable) as shown:
        assert shown.rows("LimitLine")[1:] == rows


async def test_an_exception_without_a_traceback_shows_its_last_output_once(show_session):
    async with show_session(with_output("out of luck"), size=LARGE) as shown:
        assert shown.text.count("out of luck") == 1
