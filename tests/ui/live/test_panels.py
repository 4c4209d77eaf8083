"""The text panels of the live screen: what they say, in how many rows, at any width."""

from dataclasses import replace

import pytest
from fakes.recorded import folded, recorded_session
from fakes.scripts import script_session
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from textual import events
from textual.app import App, ComposeResult
from textual.widgets import Static

from dlmon.figures import units
from dlmon.figures.session.headline import headline_of
from dlmon.figures.session.progress import WAITING, step_of
from dlmon.figures.session.time_breakdown import TIME_FILLS
from dlmon.log.label import Label
from dlmon.records import (
    SCRIPT_PHASE,
    Epoch,
    FailureKind,
    Model,
    Notice,
    Output,
    Phase,
    Status,
    StepParts,
    TimePart,
)
from dlmon.render.ascii import plain
from dlmon.session.gaps import Gap, GapKind
from dlmon.session.limits.evidence import Evidence, Limit, LimitKind
from dlmon.session.reasons import NOTHING_SEEN, TOO_SHORT, WATCHED, WATCHED_TOO
from tui.live.comparison import EpochHeadline
from tui.live.epochs import EpochTable
from tui.live.layout import Panel, Panels, RunContent
from tui.live.output_pane import OutputPane
from tui.live.session_lines import BreakdownLine, LimitLine, ProgressLine, TopLine
from tui.widgets.lines import Lines, cut_inside, wrapped

TRAINING = folded(recorded_session("training")).snapshot()
COMPLETED = folded(recorded_session()).snapshot()
FAILED = folded(recorded_session(status="failed")).snapshot()
WHOLE_RUN = folded(
    recorded_session("training", workload="mnist-mlp-small", epochs=10, step_us=700)
).snapshot()
FOREIGN = folded(recorded_session("training", foreign=True)).snapshot()
EARLY = folded(recorded_session("compiling")).snapshot()
WAITS_FOR_DATA = Limit(
    (
        Evidence(
            "data-wait",
            "41 %",
            ("7.2 of 17.5 ms a step waiting for the next batch", "GPU 0 busy 38 %"),
            "use more loader workers: 2 used, 14 cores idle",
        ),
    ),
)
WITHOUT_ADVICE = Limit(
    (
        Evidence(
            "idle",
            "",
            ("the steps wait for nothing that is measured",),
        ),
    ),
)
NOT_CLEAR = Limit(
    measured=(
        (LimitKind.CPU, "this run 1.1 of 4 cores"),
        (LimitKind.CPU, "other programs 0.1 cores"),
        (LimitKind.CPU, "busiest thread 50 % of a core"),
    ),
)
LIMITS = (None, WAITS_FOR_DATA, WITHOUT_ADVICE, NOT_CLEAR)
NEAREST, BEFORE = "1.017× as slow as published GTX 1060", "1.111× as fast as the run before"
DISK_FULL = (
    "the disk that holds the log is full: make room on it; no training stops, and its epochs are "
    "kept until they can be written"
)
WIDE_TEXT = "漢字かな交じり文 한국어 👩🏽‍🚀🇯🇵❤️ é " * 5


class PanelApp(App[None]):
    """One panel in the width of the screen, with the rest of the height below it."""

    def __init__(self, panel: Lines) -> None:
        super().__init__()
        self.panel = panel

    def compose(self) -> ComposeResult:
        yield self.panel


def texts(panel, width, height):
    """Return what a panel draws, row by row."""
    return ["".join(text for text, _ in row).rstrip() for row in panel.draw(width, height)]


def shown(panel, *what, width=80, height=1):
    panel.show(*what)
    return texts(panel, width, height)


def seen(panel):
    """Return the rows of a panel on a screen."""
    return [panel.render_line(y).text.rstrip() for y in range(panel.size.height)]


def output(*lines, first=0):
    return tuple(Output(number, "stdout", text) for number, text in enumerate(lines, first))


# ---- breaking a sentence ----


def test_a_sentence_is_broken_between_words_and_a_word_only_where_it_must_be():
    assert wrapped("one two three", 7, 3) == ["one two", "three"]
    assert wrapped("abcdefghij", 4, 3) == ["abcd", "efgh", "ij"]
    assert wrapped("one two three", 7, 1) == ["one…"]
    assert wrapped("abcdefghij", 4, 1) == ["abc…"]
    assert wrapped("", 7, 3) == wrapped("one", 0, 3) == wrapped("one", 7, 0) == []


@given(st.text(max_size=200), st.integers(0, 50), st.integers(0, 5))
def test_no_line_of_a_broken_text_is_too_wide(text, width, most):
    lines = wrapped(text, width, most)
    assert len(lines) <= most
    assert all(cell_len(line) <= width for line in lines)


# ---- the figure that is compared ----


def test_the_time_of_one_epoch_has_no_spread_and_says_that_it_compiled():
    for nearest, second in (("first epoch with compile", BEFORE), (NEAREST, BEFORE)):
        first, after = shown(EpochHeadline(), TRAINING, nearest, BEFORE, width=36, height=2)
        assert (first, after) == ("10.7 s   compile included", second)
    assert "±" in shown(EpochHeadline(), COMPLETED, "", width=70, height=2)[0]


def test_a_published_figure_is_called_so_where_the_word_fits():
    for width, nearest in ((36, NEAREST), (35, "1.017× as slow as GTX 1060")):
        assert shown(EpochHeadline(), TRAINING, NEAREST, width=width, height=2)[1] == nearest


def test_a_difference_is_left_out_where_what_it_is_from_has_no_room():
    unclear = "throughput: no clear difference from the run before"
    for width, row in ((60, unclear), (36, "")):
        assert shown(EpochHeadline(), COMPLETED, "", unclear, width=width, height=2)[1] == row


# ---- every panel, at every size ----


def panels():
    """Return every panel in the states that draw most differently."""
    snapshots = [TRAINING, COMPLETED, FAILED, WHOLE_RUN, FOREIGN, EARLY]
    made = []
    for snapshot in [*snapshots, *(replace(TRAINING, limit=limit) for limit in LIMITS)]:
        headline, top = EpochHeadline(), TopLine()
        limit, progress = LimitLine(), ProgressLine()
        table, pane = EpochTable(), OutputPane()
        headline.show(snapshot, NEAREST, BEFORE)
        top.show(snapshot, "running")
        limit.show(headline_of(snapshot, True))
        progress.show(snapshot, None)
        table.show(snapshot.epochs)
        pane.show((*snapshot.output, *output(WIDE_TEXT, "x" * 5000, first=1)), snapshot.notices)
        made.extend((headline, top, limit, progress, table, pane))
    return made


PANELS = panels()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(1, 200), st.integers(1, 40))
def test_no_panel_draws_more_than_it_has_room_for(width, height):
    for panel in PANELS:
        rows = panel.draw(width, height)
        assert len(rows) <= height, panel
        assert all(cell_len("".join(text for text, _ in row)) <= width for row in rows), panel


# ---- the headline ----


@pytest.mark.parametrize("reached", ["importing", "compiling"])
def test_a_run_that_is_over_awaits_nothing(reached):
    ended = folded(recorded_session(reached)).snapshot()
    texts = [
        *shown(EpochHeadline(), ended, "", "", "failed", width=78, height=2),
        *shown(EpochTable(), ended.epochs, False),
        *shown(OutputPane(), (), (), False),
        *shown(LimitLine(), headline_of(ended, False)),
    ]
    assert not any("yet" in text or "once" in text for text in texts)
    if reached == "importing":
        assert texts[0] == "–  the run ended before the model was built"


def test_inference_is_headed_by_the_time_of_a_batch():
    options = {**TRAINING.header.options, "mode": "inference"}
    header = replace(TRAINING.header, options=options)
    inference = replace(TRAINING, header=header, seconds_per_epoch=None)
    first, *_ = shown(EpochHeadline(), inference, "", width=70, height=2)
    assert first.startswith(f"{inference.step_ms.mean:.2f} ms ± ")
    assert f"   mean, p95 {units.milliseconds(inference.step_ms.p95)}" in first


# ---- the first line ----


def test_the_first_line_leaves_out_what_has_no_room_but_never_phase_and_time():
    values = (TRAINING, "running", "", Label("my-run", "warm restarts " * 20), "gpu1")
    (row,) = shown(TopLine(), *values, width=60)
    assert row.startswith('cifar10-cnn  "my-run"  gpu1')
    assert row.endswith("  training  epoch 2/3  00:18")
    (row,) = shown(TopLine(), *values, width=500)
    assert '"my-run"  gpu1  GPU 0 NVIDIA GTX 1060 6GB  batch 100' in row
    assert "warm restarts" in row


# ---- what limits it ----


def limited(limit, width, height=2):
    headline = headline_of(replace(TRAINING, limit=limit), True)
    return shown(LimitLine(), headline, width=width, height=height)


def test_what_limits_it_says_what_it_waits_for():
    assert limited(None, 80) == [
        "▌ NOT YET KNOWN  it takes 5 readings of the machine in steady training",
        "▌                → wait a few seconds",
    ]
    early = replace(TRAINING, limit=None, samples_per_second=None)
    assert shown(LimitLine(), headline_of(early, True), width=80, height=2) == [
        "▌ NOT YET KNOWN  shown once training is steady",
        "▌                → wait a few seconds",
    ]
    over = shown(LimitLine(), headline_of(early, False), width=118)
    assert over == ["▌ NOT KNOWN  too short to measure  → run it for longer"]


def test_where_no_reading_speaks_for_a_step_none_is_made_up():
    assert limited(WITHOUT_ADVICE, 118) == [
        "▌ WAITING  the steps wait for nothing that is measured",
    ]
    assert limited(NOT_CLEAR, 80) == [
        "▌ NOT CLEAR  this run 1.1 of 4 cores, other programs 0.1 cores",
        "▌            → profile its next steps (P, dlmon profile)",
    ]


# ---- progress ----


def after_an_epoch(epochs=None, doing=SCRIPT_PHASE):
    """Return a script that does something else since an epoch ended."""
    records = script_session(steps=100, validated=True)
    last = max(number for number, each in enumerate(records) if isinstance(each, Epoch))
    seen = [
        replace(each, epochs=epochs) if isinstance(each, Model) else each
        for each in [*records[: last + 1], Phase(records[last].end, doing)]
    ]
    return folded(seen).snapshot(records[last].end + 1_000_000_000)


@pytest.mark.parametrize(
    ("epochs", "doing", "said"),
    [
        (None, SCRIPT_PHASE, "epoch 10 is over; the script trains nothing now"),
        (10, SCRIPT_PHASE, "epoch 10 of 10 is over; the script trains nothing now"),
        (None, "validating", "epoch 10 is over; validating"),
    ],
)
def test_after_an_epoch_that_may_be_the_last_no_bar_or_time_says_that_the_script_ends(
    epochs, doing, said
):
    assert shown(ProgressLine(), after_an_epoch(epochs, doing), None, width=78) == [said]


@pytest.mark.parametrize(
    "known", [{"pause": Gap(0, 37_000_000_000, GapKind.BETWEEN)}, {"overdue_s": 37.0}]
)
def test_a_run_that_may_hang_in_the_next_epoch_is_not_said_to_train_nothing(known):
    snapshot = replace(after_an_epoch(10), **known)
    assert step_of(snapshot) == "no step for 37 s"


def test_what_went_wrong_is_shown_in_full_at_80_columns():
    rows = shown(ProgressLine(), TRAINING, DISK_FULL, width=78, height=3)
    assert " ".join(rows) == DISK_FULL
    assert len(rows) == 2
    # Why a run failed stands above all panels.
    assert shown(ProgressLine(), FAILED, None, width=78, height=3) == ["failed after 18.4 s"]


# ---- epochs ----


def test_the_first_choice_is_the_newest_slow_epoch_else_the_newest():
    table, (first, second, third) = EpochTable(), COMPLETED.epochs
    table.show(COMPLETED.epochs, True, "epoch", {first.begin, second.begin})
    table.move(1)
    assert table.chosen == second
    table.move(-1)
    assert table.chosen == first
    table.move(-1)
    assert table.chosen == first
    table.choose(None)
    table.show(COMPLETED.epochs)
    table.move(-1)
    assert table.chosen == third


# ---- output ----


@given(st.text(max_size=200), st.integers(1, 60))
def test_the_ends_of_any_line_fit(text, width):
    assert cell_len(cut_inside(text, width)) <= width


START = tuple(
    Output(t, "stderr", f"I0000 00:00:1763650560.1 12 gpu_device.cc:{t}] Created device")
    for t in range(6)
)


def test_what_libraries_print_at_the_start_is_one_line_and_whole_in_the_log():
    lines = (*START[:2], Output(2, "stdout", "loading data"), *START[3:])
    pane = OutputPane()
    rows = shown(pane, lines, (), True, None, width=60, height=8)
    assert rows == ["5 start-up messages (in the log: l)", "loading data"]
    pane.show(lines, (), True, None, False)
    assert len(texts(pane, 60, 8)) == 6


def test_after_the_start_nothing_is_folded_and_a_single_message_is_shown_itself():
    rows = shown(OutputPane(), START, (), True, 2, width=60, height=8)
    assert rows[0] == "3 start-up messages (in the log: l)"
    assert len(rows) == 4
    assert "gpu_device.cc:0" in shown(OutputPane(), START[:1], (), width=60, height=8)[0]


def test_an_alert_that_is_longer_than_the_panel_begins_with_what_happened():
    alert, pane = Notice(20, "alert: no batch for 60 s (usually 200 ms)"), OutputPane()
    rows = shown(pane, output("line"), (alert,), width=28, height=1)
    assert rows == ["▲ alert: no batch for 60 s"]
    assert texts(pane, 28, 2) == [*rows, "  (usually 200 ms)"]


class ScrolledApp(PanelApp):
    """An output pane of five rows."""

    CSS = "OutputPane { height: 7; border: solid white; }"

    @property
    def note(self):
        return self.panel._border_subtitle.plain


async def test_scrolled_back_it_stays_in_place_and_says_how_much_is_newer():
    app = ScrolledApp(OutputPane())
    async with app.run_test(size=(42, 20)) as pilot:
        lines = output(*(f"line {n}" for n in range(20)))
        app.panel.show(lines, ())
        await pilot.pause()
        app.panel.scroll_lines(-12)
        assert seen(app.panel) == [f"line {n}" for n in range(3, 8)]
        assert app.note == "12 newer below"
        app.panel.show((*lines, *output("line 20", "line 21", first=20)), ())
        assert seen(app.panel) == [f"line {n}" for n in range(3, 8)]
        assert app.note == "14 newer below"
        # The oldest lines go where there are many.
        lines = (*lines, *output("line 20", "line 21", first=20))
        app.panel.show((*lines[2:], *output("line 22", "line 23", first=22)), ())
        assert seen(app.panel) == [f"line {n}" for n in range(3, 8)]
        assert app.note == "16 newer below"
        app.panel.show(lines, ())
        app.panel.scroll_lines(100)
        assert seen(app.panel)[-1] == "line 21"
        assert app.note == ""
        lines = lines[:20]
        app.panel.show((*lines, *output("the newest", first=20)), ())
        assert seen(app.panel)[-1] == "the newest"
        await pilot._post_mouse_events([events.MouseScrollUp], app.panel, offset=(3, 3))
        assert app.note == "3 newer below"
        # It ends at the oldest line that is kept.
        app.panel.scroll_lines(-100)
        app.panel.show(lines[8:], ())
        assert seen(app.panel) == [f"line {n}" for n in range(8, 13)]


# ---- where the time went ----


def test_the_longest_pause_is_explained_and_the_one_at_the_cursor_instead():
    second = 10**9
    gaps = (
        Gap(0, round(1.2 * second), GapKind.BETWEEN, 0),
        Gap(5 * second, 8 * second, GapKind.OPENING, 1, meanwhile={"cpu_pct": 1.0}),
    )
    paused = replace(TRAINING, time_breakdown={TimePart.TRAINING: 19.5}, gaps=gaps)
    longest = "Longest pause  3.00 s at the start of epoch 2: CPU 1 %"
    assert shown(BreakdownLine(), paused, width=116, height=3)[1:] == [longest]
    here = "Pause here  1.20 s after epoch 1; the machine was not read meanwhile"
    at_start = (second, 2 * second)
    assert shown(BreakdownLine(), paused, at_start, width=116, height=3)[1:] == [here]
    # What a step is made of stands between them, where that was measured.
    parts = StepParts(1, 1, 100, forward_us=30, backward_us=50)
    measured = replace(paused, judged_parts=parts)
    _, step, last = shown(BreakdownLine(), measured, width=116, height=3)
    bar = "▓" * 18 + "▒" * 29 + "▚" * 12
    assert step == f"Step  {bar}  ▓ forward 30 %  ▒ backward 50 %  ▚ your code 20 %"
    assert last == longest
    assert len(shown(BreakdownLine(), measured, width=116, height=1)) == 1
    # Where a panel has them, they aren't repeated; of a narrow legend the smallest are left out.
    assert shown(BreakdownLine(), measured, None, False, width=116, height=3)[1:] == [longest]
    assert shown(BreakdownLine(), measured, width=40, height=2)[1].endswith("backward 50 %")
    # In the one row that a small terminal has for it, it takes the place of the bar.
    assert shown(BreakdownLine(), paused, at_start, width=76, height=1) == [here]


def test_where_a_panel_takes_the_parts_of_a_step_over_the_time_needs_no_row_for_them():
    parts = StepParts(1, 1, 100, forward_us=30, backward_us=50)
    measured, line = replace(TRAINING, judged_parts=parts, gaps=()), BreakdownLine()
    for with_step, rows in ((True, 2), (False, 1)):
        line.show(measured, None, with_step)
        assert line.rows_needed(116) == rows


@pytest.mark.parametrize("width", [76, 116, 196])
def test_all_that_the_bar_of_the_time_shows_is_named_beside_it(width):
    parts = (TimePart.STARTUP, TimePart.COMPILING, TimePart.TRAINING, TimePart.OPENINGS)
    parts = (*parts, TimePart.VALIDATION, TimePart.CHECKPOINT)
    spent_s = dict(zip(parts, (9.0, 5.0, 60.0, 8.0, 4.0, 14.0), strict=True))
    for is_over in (False, True):
        run = folded(recorded_session()).snapshot(is_over=True) if is_over else TRAINING
        row = shown(BreakdownLine(), replace(run, time_breakdown=spent_s), width=width, height=1)
        _, bar, legend = row[0].split("  ", 2)
        assert {*bar} == {*legend} & {*"█▓▒░▞▚·"}


@pytest.mark.parametrize(
    "others",
    [
        (TimePart.STARTUP, TimePart.COMPILING, TimePart.VALIDATION, TimePart.STALLS),
        (TimePart.STARTUP, TimePart.LOADING, TimePart.COMPILING, TimePart.EVALUATION),
        (TimePart.STARTUP, TimePart.VALIDATION, TimePart.BETWEEN_STEPS, TimePart.CHECKPOINT),
    ],
)
def test_parts_that_often_stand_in_one_bar_have_fills_of_their_own(others):
    parts = (*others, TimePart.TRAINING, TimePart.UNKNOWN)
    assert len({plain(TIME_FILLS[part]) for part in parts}) == len(parts)


# ---- of a run that failed, is over, or never trained ----

WITHOUT_LIMIT = replace(COMPLETED, limit=None, samples_per_second=None)


def rows_of(snapshot, running=False, width=118, height=2):
    line = LimitLine()
    line.show(headline_of(snapshot, running))
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
        "▌ FAILED  the script ended with exit code 1, its last output: ValueError: no such file"
    ]


def test_what_the_interpreter_says_of_its_script_is_said_once():
    why = "can't open file '/w/nosuch.py': [Errno 2] No such file or directory"
    error = f"the script ended with exit code 2: {why}"
    said = failed(error, FailureKind.UNKNOWN, [f"python: {why}"])
    assert rows_of(said) == [f"▌ FAILED  {why}"]


@pytest.mark.parametrize(("batch_size", "tries"), [(64, True), (1, False), (None, False)])
def test_out_of_memory_a_smaller_batch_is_advised_where_there_is_one(batch_size, tries):
    model = replace(FAILED.model, batch_size=batch_size)
    rows = rows_of(failed("memory ran out", FailureKind.OUT_OF_MEMORY, ["x"], model=model))
    held = "GPU 0 last held 4.7 of 6.0 GiB, without the allocation that failed"
    memory = f"▌ OUT OF MEMORY  memory ran out, {held}"
    assert rows == [memory, *([f"▌ → use a smaller batch than {batch_size}"] * tries)]


def test_memory_of_a_gpu_that_ran_out_is_explained_in_place_of_the_error():
    error = (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total "
        "capacity of 79.10 GiB of which 1.20 GiB is free."
    )
    first, second, *_ = rows_of(failed(error, FailureKind.OUT_OF_MEMORY, [error]))
    assert first.startswith("▌ OUT OF MEMORY  2.0 GiB asked for")
    assert "1.2 GiB of 79.1 GiB free on GPU 0" in f"{first} {second}"


def test_a_run_that_is_over_and_has_no_figure_says_why():
    assert rows_of(WITHOUT_LIMIT) == [
        f"▌ NOT KNOWN  {TOO_SHORT}, 10 batches and 3 seconds of training are needed",
        "▌            → run it for longer",
    ]
    stopped = replace(WITHOUT_LIMIT, batches=0)
    assert rows_of(stopped) == ["▌ NOT KNOWN  the run ended before its first step"]


def test_for_a_script_that_never_trained_it_is_shown_what_is_watched():
    silent = folded(script_session(seconds=0)).snapshot()
    assert rows_of(silent, running=True)[0] == f"▌ STARTING 0:00  {WAITING}"
    late = replace(silent, elapsed_s=61.0)
    assert rows_of(late, running=True)[1].strip("▌ ").startswith(WATCHED[:40])
    assert rows_of(silent)[0] == f"▌ NOT KNOWN  {NOTHING_SEEN}"


async def test_why_a_script_trained_nothing_is_shown_in_full_once_it_is_over(show_session):
    why = f"{NOTHING_SEEN}: {WATCHED}, {WATCHED_TOO}"
    result = replace(COMPLETED.result, why={"samples_per_second": why})
    async with show_session(script_session(seconds=0, result=result), size=(80, 24)) as shown:
        said = shown.rows("LimitLine")
        assert len(said) == 4
        words = " ".join(" ".join(row.strip("▌ ") for row in said).split())
        assert words == f"NO TRAINING SEEN {why} → let its loop call dlmon.step(), if it trains"


class PanelsAlone(App[None]):
    def compose(self) -> ComposeResult:
        with Panels():
            yield from (Static(id=panel) for panel in Panel)


async def test_a_panel_grows_with_its_rows_though_no_other_comes_or_goes():
    async with PanelsAlone().run_test(size=(120, 40)) as pilot:
        panels = pilot.app.query_one(Panels)
        content = RunContent(step_rows=4, has_loss=True)
        panels.show(content)
        await pilot.pause()
        step = panels.query_one(f"#{Panel.STEP}")
        before = step.size.height
        panels.show(replace(content, step_rows=5))
        await pilot.pause()
        assert step.size.height == before + 1
