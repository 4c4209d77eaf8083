"""What the first panel says of a run that failed, is over, or never trained."""

from dataclasses import replace

import pytest
from fakes.recorded import folded, recorded_session
from fakes.scripts import script_session

from dlmon.figures.progress import WAITING
from dlmon.records import FailureKind, Output, Status
from dlmon.session.reasons import NOTHING_SEEN, TOO_SHORT, WATCHED, WATCHED_TOO
from tui.live.lines import LimitLine

COMPLETED = folded(recorded_session()).snapshot()
FAILED = folded(recorded_session(status="failed")).snapshot()
WITHOUT_LIMIT = replace(COMPLETED, limit=None, samples_per_second=None)


def rows_of(snapshot, running=False, width=118, height=2):
    line = LimitLine()
    line.show(snapshot, running)
    return ["".join(text for text, _ in row).rstrip() for row in line.draw(width, height)]


def failed(error, kind, output=(), **changes):
    result = replace(FAILED.result, status=Status.FAILED, error=error, failure=kind)
    lines = tuple(Output(number, "stderr", text) for number, text in enumerate(output))
    return replace(FAILED, result=result, output=lines, **changes)


def test_a_script_that_gives_only_an_exit_code_is_shown_with_its_last_line():
    said = failed(
        "the script ended with exit code 1", FailureKind.UNKNOWN, ["ValueError: no such file", " "]
    )
    assert rows_of(said) == [
        "┃ Failed  the script ended with exit code 1",
        "┃ Output  ValueError: no such file",
    ]


@pytest.mark.parametrize(("batch_size", "tries"), [(64, True), (1, False), (None, False)])
def test_out_of_memory_a_smaller_batch_is_advised_where_there_is_one(batch_size, tries):
    model = replace(FAILED.model, batch_size=batch_size)
    rows = rows_of(failed("memory ran out", FailureKind.OUT_OF_MEMORY, ["x"], model=model))
    assert rows == ["┃ Failed  memory ran out", *(["┃ Try     use a smaller batch"] * tries)]


def test_a_run_that_is_over_and_has_no_figure_says_why():
    assert rows_of(WITHOUT_LIMIT) == [
        f"┃ What limited it  {TOO_SHORT}",
        "┃                  10 batches and 3 seconds of training are needed",
    ]
    stopped = replace(WITHOUT_LIMIT, batches=0)
    assert rows_of(stopped) == ["┃ What limited it  the run ended before its first step"]


def test_for_a_script_that_never_trained_it_is_shown_what_is_watched():
    silent = folded(script_session(seconds=0)).snapshot()
    assert rows_of(silent, running=True)[0] == f"┃ What limits it  {WAITING}"
    assert rows_of(silent, running=True)[1].strip("┃ ").startswith(WATCHED[:40])
    assert rows_of(silent)[0] == f"┃ What limited it  {NOTHING_SEEN}"


async def test_why_a_script_trained_nothing_is_shown_in_full_once_it_is_over(show_session):
    why = f"{NOTHING_SEEN}: {WATCHED}, {WATCHED_TOO}"
    result = replace(COMPLETED.result, why={"samples_per_second": why})
    async with show_session(script_session(seconds=0, result=result), size=(80, 24)) as shown:
        said = shown.rows("LimitLine")
        assert len(said) == 3
        words = " ".join(" ".join(row.strip("┃ ") for row in said).split())
        assert words == f"What limited it {why}"
