"""The screen of recorded sessions: what it shows of each, how one gets to one and back."""

import json
import re
import threading
from dataclasses import replace
from inspect import get_annotations

import pytest
from fakes.recorded import (
    BEGIN_WALL,
    recorded_machine,
    recorded_session,
    write_log,
)
from fakes.screens import OneScreen, of_this_boot, screen_text, until, until_read
from fakes.sessions import DEADLINE_S
from fakes.sweeps import completed, plan_of

from dlmon.log.directory import SessionEntry, list_sessions
from dlmon.log.label import Label, write_label
from dlmon.records import Began, Closed, Ended, Requirement, Slot
from dlmon.session.reasons import TOO_SHORT
from dlmon.sweep.log import SweepWriter, list_sweeps, new_header
from tui.requests import (
    Compare,
    Delete,
    Export,
    GoBack,
    KeepColumns,
    Rename,
    Replay,
    ShowSession,
    ShowSweep,
)
from tui.sessions.screen import SessionsScreen
from tui.sessions.session_list import COLUMNS, SessionList, matching

pytestmark = pytest.mark.usefixtures("utc")

HOUR_S = 3600


def vars_of(message):
    return {name: getattr(message, name) for name in get_annotations(type(message))}


class ShownSessions:
    """A screen of the sessions of a directory, and what it asked for."""

    def __init__(self, log_dir, **options):
        self.reads = 0
        self._log_dir = log_dir
        self.screen = SessionsScreen(self._read, **options)
        self.app = OneScreen(self.screen)

    def _read(self):
        self.reads += 1
        return list_sessions(self._log_dir)

    def _asked(self, kind):
        return [message for message in self.app.asked if isinstance(message, kind)]

    @property
    def shown(self):
        return [message.log for message in self._asked(ShowSession)]

    @property
    def resumed(self):
        return [message.path for message in self._asked(ShowSweep)]

    def asked_for(self, kind):
        """Return what was asked of the app by messages of this kind."""
        return [vars_of(message) for message in self._asked(kind)]

    @property
    def left(self):
        return len(self._asked(GoBack))

    async def begin(self, pilot):
        self.pilot = pilot
        await until_read(pilot)

    async def press(self, *keys):
        await self.pilot.press(*keys)
        await until_read(self.pilot)

    @property
    def text(self):
        return screen_text(self.app)

    def rows(self, selector):
        widget = self.screen.query_one(selector)
        rows = [widget.render_line(y).text.rstrip() for y in range(widget.size.height)]
        return [row for row in rows if row]

    @property
    def highlighted(self):
        entry = self.screen.query_one(SessionList).highlighted
        return entry.header.id if entry else None


@pytest.fixture
def shown(log_dir):
    return ShownSessions(log_dir)


def write(log_dir, session_id, hours_ago=0, **options):
    wall = BEGIN_WALL - hours_ago * HOUR_S
    records = recorded_session(session_id=session_id, begin_wall=wall, **options)
    return write_log(log_dir, of_this_boot(records))


def write_three(log_dir):
    write(log_dir, "oldest", 30, workload="mnist-mlp-small", step_us=700)
    write(log_dir, "failed-one", 2, status="failed")
    write(log_dir, "newest")


# ---- what it shows ----


async def test_sessions_are_listed_newest_first_and_one_of_them_is_shown_in_detail(shown, log_dir):
    write_three(log_dir)
    write(log_dir, "cut", 1, reached="training")
    async with shown.app.run_test(size=(220, 40)) as pilot:
        await shown.begin(pilot)
        heading, *rows = [" ".join(row.split()) for row in shown.rows("#sessions")]
        assert heading == "▼started workload epochs device status host samples/s loss time"
        host = list_sessions(log_dir)[0].header.host
        device = "NVIDIA GTX 1060 6GB"
        why = "memory ran out with batch size 100 (ResourceExhaustedError: OOM when allocating)"
        assert rows == [
            f"▸ 2026-11-20 14:56 cifar10-cnn 3 {device} completed {host} 5,500 0.6000 "
            "9.16 s ± 0.01 per epoch",
            f"2026-11-20 13:56 cifar10-cnn 3 interrupted {host} 1.0514 left no result",
            f"2026-11-20 12:56 cifar10-cnn 1 {device} failed {host} 5,500 1.0514 {why}",
            f"2026-11-19 08:56 mnist-mlp-small 3 {device} completed {host} 45,286 0.6000 "
            "5.66 s per run",
        ]
        assert shown.rows("#details") == [
            "newest",
            "cifar10-cnn  on NVIDIA GTX 1060 6GB  3 epochs  synthetic data",
            "9.16 s ± 0.01 per epoch",
            "5,500 ± 7 samples/s   18.0 ms per step   compile 1.50 s   took 32.2 s",
            str(log_dir / "newest" / "session.jsonl"),
        ]
        await shown.press("down", "down")
        assert shown.rows("#details")[0] == "failed-one"
        assert shown.rows("#details")[2].startswith("memory ran out with batch size 100 (Resource")


async def test_a_recorded_machine_is_listed_as_one_and_how_it_was_used(shown, log_dir):
    write_log(log_dir, recorded_machine(energy=True))
    async with shown.app.run_test(size=(180, 24)) as pilot:
        await shown.begin(pilot)
        used = "00:29 CPU 36 %, GPU 0 81 %, CPU 1.16 kJ, GPU 0 2.61 kJ"
        row = " ".join(shown.rows("#sessions")[1].split())
        assert row == f"▸ 2026-11-20 14:56 machine completed tower {used}"
        name, what, came, where = shown.rows("#details")
        assert name == "20261120-145600-machine-7f3a"
        assert what == "machine tower  Intel i7-9700K"
        assert " ".join(came.split()) == used
        assert where.endswith("session.jsonl")


@pytest.mark.parametrize(
    ("asked", "device", "name"),
    [
        ("gpu:0", "gpu:0", "NVIDIA GTX 1060 6GB"),
        ("cpu", "cpu", "Intel i7-9700K"),
        ("auto", "auto", ""),
    ],
)
async def test_of_a_session_without_a_result_the_device_that_was_asked_for_is_shown(
    shown, log_dir, asked, device, name
):
    header, *records = recorded_session("training", session_id="runs")
    header = replace(header, options={**header.options, "device": asked})
    write_log(log_dir, of_this_boot([header, *records]))
    async with shown.app.run_test(size=(80, 24)) as pilot:
        await shown.begin(pilot)
        assert f"  {device} " in shown.rows("#sessions")[1]
        on = f"on {name}  " if name else ""
        assert shown.rows("#details")[1] == f"cifar10-cnn  {on}3 epochs"
        await pilot.resize_terminal(120, 40)
        await shown.begin(pilot)
        assert f"  {name or device} " in shown.rows("#sessions")[1]


async def test_without_sessions_it_says_how_to_make_one(shown):
    async with shown.app.run_test(size=(80, 24)) as pilot:
        await shown.begin(pilot)
        text = "".join(shown.rows("#sessions"))
        assert text.startswith(" Nothing is recorded yet.")
        assert text.endswith("dlmon run cifar10-cnn")
        assert "Show" not in shown.text.splitlines()[-1]
        await shown.press("enter", "down", "pagedown", "o", "i", "space", "u", "x")
        assert shown.app.asked == []


# ---- keys and the mouse ----


async def test_a_click_highlights_and_a_double_click_shows(shown, log_dir):
    write_three(log_dir)
    # A log that is damaged is passed over.
    write(log_dir, "broken", 1).write_bytes(b"\x00not a log\n")
    async with shown.app.run_test(size=(80, 24)) as pilot:
        await shown.begin(pilot)
        await shown.press("up")
        assert shown.highlighted == "newest"
        await shown.press("pagedown", "down", "down")
        assert shown.highlighted == "oldest"
        await shown.press("ctrl+home")
        await pilot.click("#sessions", offset=(10, 3))
        await pilot.pause()
        assert shown.highlighted == "failed-one"
        assert shown.shown == []
        await pilot.click("#sessions", offset=(10, 9))  # below the last one
        assert shown.highlighted == "failed-one"
        await pilot.click("#sessions", offset=(10, 4), times=2)
        await pilot.pause()
        await shown.press("up", "enter")
        logs = [log_dir / name / "session.jsonl" for name in ("oldest", "failed-one")]
        assert shown.shown == logs


async def test_what_is_typed_filters_and_esc_clears_it_first(shown, log_dir):
    write_three(log_dir)
    async with shown.app.run_test(size=(80, 24)) as pilot:
        await shown.begin(pilot)
        await shown.press("slash", *"cnn FAIL")
        assert shown.highlighted == "failed-one"
        assert len(shown.rows("#sessions")) == 2
        assert "1 of 3 recorded" in shown.text
        await shown.press(*"zzq")
        assert shown.rows("#sessions") == [" No session matches that.", " Esc clears the filter."]
        assert shown.rows("#details") == []
        await shown.press("enter")
        assert "esc Clear" in shown.text
        assert shown.shown == []
        await shown.press("escape")
        assert shown.left == 0
        assert len(shown.rows("#sessions")) == 1 + 3
        await shown.press("escape", "q")
        assert shown.left == 2


async def test_sessions_are_read_once_and_again_when_one_comes_back(shown, log_dir):
    write_three(log_dir)
    async with shown.app.run_test(size=(80, 24)) as pilot:
        await shown.begin(pilot)
        await shown.press("down", "slash", *"cnn")
        await pilot.resize_terminal(120, 40)
        await pilot.pause()
        assert shown.reads == 1
        shown.app.push_screen(SessionsScreen(list))
        await pilot.pause()
        shown.app.pop_screen()
        await until_read(pilot)
        assert shown.reads == 2


async def test_while_the_sessions_are_read_the_screen_answers_and_shows_what_it_did(log_dir):
    begun, may_end = threading.Semaphore(0), threading.Semaphore(0)

    def read():
        entries = list_sessions(log_dir)
        begun.release()
        assert may_end.acquire(timeout=DEADLINE_S)
        return entries

    write_three(log_dir)
    screen = SessionsScreen(read)
    app = OneScreen(screen)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: begun.acquire(blocking=False))
        assert "Reading the sessions" in screen_text(app)
        may_end.release()
        await until_read(pilot)
        write(log_dir, "brand-new", -1)
        await pilot.press("ctrl+l")
        await until(pilot, lambda: begun.acquire(blocking=False))
        await pilot.press("down", "space", "up", "up")
        await pilot.pause()
        assert "1 marked, 3 recorded" in screen_text(app)
        assert screen.table.highlighted.header.id == "newest"
        may_end.release()
        await until_read(pilot)
        assert "1 marked, 4 recorded" in screen_text(app)
        assert screen.table.highlighted.header.id == "newest"
        assert [entry.header.id for entry in screen.table.marked] == ["failed-one"]


# ---- sweeps ----


@pytest.fixture
def swept(log_dir):
    """Return a sweep of two batch sizes of which one was run, among two other sessions."""
    header = new_header(plan_of({"batch_size": [32, 64]}), 1, BEGIN_WALL - 2.5 * HOUR_S)
    writer = SweepWriter.create(log_dir, header)
    write(log_dir, "before", 3)
    write(log_dir, "a-run", 2, workload="mnist-mlp-small", step_us=700)
    write(log_dir, "after")
    writer.write(Began(Slot(0, 0), "a-run", 1.0))
    writer.write(Ended(Slot(0, 0), completed(0.5), 2.0))
    writer.write(Closed("stopped", 3.0))
    writer.close()
    return writer


@pytest.fixture
def swept_twice(log_dir):
    """Return a sweep of two runs with another session between them, and one before it."""
    header = new_header(plan_of({"batch_size": [32, 64]}), 1, BEGIN_WALL - 2.5 * HOUR_S)
    writer = SweepWriter.create(log_dir, header)
    write(log_dir, "before", 3)
    for number, hours_ago in enumerate((2, 0)):
        write(log_dir, f"run-{number}", hours_ago, workload="mnist-mlp-small", step_us=700)
        writer.write(Began(Slot(number, 0), f"run-{number}", 1.0))
        writer.write(Ended(Slot(number, 0), completed(0.5), 2.0))
    write(log_dir, "between", 1)
    writer.write(Closed("completed", 3.0))
    writer.close()
    return writer


def with_sweeps(log_dir, **options):
    return ShownSessions(log_dir, read_sweeps=lambda: list_sweeps(log_dir), **options)


async def test_the_runs_of_a_sweep_stand_below_it_and_each_is_shown_in_detail(log_dir, swept):
    shown = with_sweeps(log_dir)
    name = swept.header.id
    async with shown.app.run_test(size=(200, 40)) as pilot:
        await shown.begin(pilot)
        _, after, sweep, run, before = shown.rows("#sessions")
        assert [row[0] for row in (after, sweep, run, before)] == [" ", " ", "╰", " "]
        assert run.endswith("5.66 s per run  batch 32")
        assert "mnist-mlp-small" in sweep
        assert sweep.endswith("sweep, 1 of 2: batch 32, 64")
        assert "stopped" in sweep
        await shown.press("down", "down")
        assert shown.rows("#details")[0] == f"a-run  batch 32, a run of {name}"
        await shown.press("up")
        assert shown.rows("#details") == [
            name,
            "2 runs: mnist-mlp-small × batch 32, 64",
            "1 of 2 combinations done; Enter resumes it",
            str(swept.path),
        ]


async def test_a_run_between_two_runs_of_a_sweep_does_not_break_its_tree(log_dir, swept_twice):
    shown = with_sweeps(log_dir)
    async with shown.app.run_test(size=(140, 40)) as pilot:
        await shown.begin(pilot)
        rows = shown.rows("#sessions")[1:]
        assert [row[0] for row in rows] == [" ", "├", "╰", " ", " "]
        assert [row.split()[-1] for row in rows[1:3]] == ["64", "32"]
        assert "sweep, 2 of 2" in rows[0]
        # Enter on the sweep would go on with it: the newest session is highlighted.
        assert rows[1][1] == "▸"
        await shown.press("slash", *"run-1")
        (alone,) = shown.rows("#sessions")[1:]
        assert alone[0] == " "
        # Its name finds a sweep with its runs; sorted by something else, no line joins them.
        await shown.press("ctrl+u", *swept_twice.header.id, "enter")
        assert len(shown.rows("#sessions")) == 1 + 3
        await shown.press("o")
        assert {row[0] for row in shown.rows("#sessions")[1:]} == {" "}


async def test_a_session_without_a_figure_says_why_in_the_list_and_in_full_below(shown, log_dir):
    header, *rest, result = recorded_session(session_id="short")
    why = {"seconds_per_epoch": f"{TOO_SHORT}, about 3 ms per batch: that takes 10 batches"}
    lacking = dict.fromkeys(why, Requirement.STEADY_STATE)
    result = replace(result, seconds_per_epoch=None, why=why, lacking=lacking)
    write_log(log_dir, of_this_boot([header, *rest, result]))
    write(log_dir, "left", 1, reached="training")
    async with shown.app.run_test(size=(120, 40)) as pilot:
        await shown.begin(pilot)
        _, short, left = shown.rows("#sessions")
        assert short.endswith("  too short to measure")
        assert left.endswith("left no result")
        assert why["seconds_per_epoch"] in shown.text


async def test_enter_asks_whether_a_sweep_goes_on_and_shows_a_session(log_dir, swept):
    shown = with_sweeps(log_dir)
    async with shown.app.run_test(size=(120, 40)) as pilot:
        await shown.begin(pilot)
        await shown.press("down")
        assert "⏎ Resume" in shown.text
        # Whoever presses Enter once too often trains nothing.
        for keys in (("enter", "enter"), ("enter", "escape"), ("enter", "q")):
            await shown.press(*keys)
            assert shown.resumed == []
        await shown.press("enter")
        assert "Train what is left: 1 run?" in shown.text
        await shown.press("y")
        assert (shown.resumed, shown.shown) == ([swept.path], [])
        await shown.press("down")
        assert "⏎ Show" in shown.text
        await shown.press("enter")
        assert shown.shown == [log_dir / "a-run" / "session.jsonl"]


# ---- order ----


def firsts(shown):
    """Return the ids in the order of their rows."""
    return [entry.header.id for entry in shown.screen.query_one(SessionList).shown]


async def test_one_sorts_by_the_next_column_and_the_other_way_round(shown, log_dir):
    write_three(log_dir)
    async with shown.app.run_test(size=(120, 40)) as pilot:
        await shown.begin(pilot)
        await shown.press("o")
        assert firsts(shown) == ["newest", "failed-one", "oldest"]
        assert "by workload" in shown.text
        assert "▲workload" in shown.rows("#sessions")[0]
        await shown.press("i")
        assert firsts(shown) == ["oldest", "newest", "failed-one"]
        assert "by workload reversed" in shown.text
        await shown.press("greater_than_sign", "o", "o")
        assert "by status" in shown.text
        assert firsts(shown) == ["newest", "oldest", "failed-one"]
        await shown.press(*["less_than_sign"] * 4)
        assert firsts(shown) == ["newest", "failed-one", "oldest"]
        assert "▼started" in shown.rows("#sessions")[0]


async def test_a_click_on_a_column_sorts_by_it_and_the_highlight_stays_on_its_row(shown, log_dir):
    write_three(log_dir)
    async with shown.app.run_test(size=(80, 24)) as pilot:
        await shown.begin(pilot)
        await shown.press("down")
        heading = shown.rows("#sessions")[0]
        for times, ids in enumerate(
            (["oldest", "newest", "failed-one"], ["newest", "oldest", "failed-one"])
        ):
            await pilot.click("#sessions", offset=(heading.index("time") + 1, 1))
            await pilot.pause()
            assert firsts(shown) == ids, times
            assert shown.highlighted == "failed-one"


# ---- marks ----


def marked(shown):
    return [row.split("●")[0] + row.split()[-1] for row in shown.rows("#sessions") if "●" in row]


async def test_space_marks_a_session_and_goes_on_to_the_next(shown, log_dir):
    write_three(log_dir)
    async with shown.app.run_test(size=(80, 24)) as pilot:
        await shown.begin(pilot)
        await shown.press("space", "space")
        assert len(marked(shown)) == 2
        assert shown.highlighted == "oldest"
        assert "2 marked, 3 recorded" in shown.text
        await shown.press("up", "space")
        assert "1 marked, 3 recorded" in shown.text
        await shown.press("escape")
        assert (marked(shown), shown.left) == ([], 0)
        await shown.press("escape")
        assert shown.left == 1


async def test_marks_order_and_filter_stay_when_the_list_is_read_again(shown, log_dir):
    write_three(log_dir)
    async with shown.app.run_test(size=(80, 24)) as pilot:
        await shown.begin(pilot)
        await shown.press("down", "space", "o", "slash", *"cnn", "enter")
        (log_dir / "newest" / "session.jsonl").unlink()
        write(log_dir, "brand-new", -1)
        await shown.press("ctrl+l")
        assert firsts(shown) == ["brand-new", "failed-one"]
        assert "1 marked, 2 of 3 recorded" in shown.text
        assert "by workload" in shown.text
        assert [row[2] for row in shown.rows("#sessions")[1:]] == [" ", "●"]
        (log_dir / "failed-one" / "session.jsonl").unlink()
        await shown.press("ctrl+l")
        assert "marked" not in shown.text


async def test_a_sweep_is_marked_with_its_runs(log_dir, swept):
    shown = with_sweeps(log_dir)
    async with shown.app.run_test(size=(140, 40)) as pilot:
        await shown.begin(pilot)
        await shown.press("down", "v", "space", "c")
        assert shown.app.asked == []
        assert [row[2] for row in shown.rows("#sessions")[1:]] == [" ", "●", "●", " "]
        await shown.press("x")
        assert "Delete 1 session and 1 sweep?" in shown.text


# ---- what is done with them ----


async def test_sessions_are_compared_replayed_and_reported(shown, log_dir):
    write_three(log_dir)
    logs = {name: log_dir / name / "session.jsonl" for name in ("newest", "failed-one")}
    async with shown.app.run_test(size=(120, 40), notifications=True) as pilot:
        await shown.begin(pilot)
        for name in ("space Mark", "c Compare", "/ Filter", "x Delete", "q Back"):
            assert f" {name} " in shown.text
        await shown.press("v", "w")
        assert shown.asked_for(Replay) == [{"logs": [logs["newest"]]}]
        assert shown.asked_for(Export) == [{"form": "html", "logs": [logs["newest"]]}]
        await shown.press("c", "space", "c")
        assert shown.asked_for(Compare) == []
        assert "mark two sessions" in shown.text
        await shown.press("space", "c", "w")
        # The older one is the base.
        asked = shown.asked_for(Compare)
        assert asked == [{"base": [logs["failed-one"]], "new": [logs["newest"]]}]
        assert len(shown.asked_for(Export)[1]["logs"]) == 2


# ---- names ----


async def test_a_session_is_given_a_name_and_a_note(shown, log_dir):
    write_three(log_dir)
    async with shown.app.run_test(size=(80, 24)) as pilot:
        await shown.begin(pilot)
        await shown.press("u", *"a[/x]", "enter")
        assert '"a[/x]" can\'t be a name' in shown.text
        await shown.press("escape", "u", "enter")
        assert shown.asked_for(Rename) == []
        await shown.press("u", *"batch 256", "tab", *"after [b]", "enter")
        log = log_dir / "newest" / "session.jsonl"
        label = Label("batch 256", "after [b]")
        assert shown.asked_for(Rename) == [{"log": log, "label": label}]
        write_label(log, label)
        await shown.press("ctrl+l")
        await shown.press("u", *["backspace"] * 9, "enter")
        assert shown.asked_for(Rename)[1:] == [{"log": log, "label": Label(None, "after [b]")}]


async def test_names_stand_in_the_list_and_in_the_details_and_are_found(shown, log_dir):
    write_three(log_dir)
    write_label(log_dir / "oldest" / "session.jsonl", Label("a rather long name", "slow"))
    (log_dir / "newest" / "label.json").write_text(
        json.dumps({"name": "\x1b]0;x\x07evil", "note": "[/x]"})
    )
    async with shown.app.run_test(size=(80, 24)) as pilot:
        await shown.begin(pilot)
        heading, newest, _, oldest = shown.rows("#sessions")
        assert heading.split() == ["▼started", "name", "workload", "status", "time"]
        assert "  evil  " in newest
        assert "  a rather lo…  " in oldest
        assert shown.rows("#details")[:2] == ["newest (evil)", "[/x]"]
        await shown.press("slash", *"rather slow", "enter")
        assert firsts(shown) == ["oldest"]
        assert shown.rows("#details")[:2] == ["oldest (a rather long name)", "slow"]


# ---- columns ----


async def test_columns_are_chosen_and_the_choice_is_kept(shown, log_dir):
    write_three(log_dir)
    async with shown.app.run_test(size=(120, 40)) as pilot:
        await shown.begin(pilot)
        heading = " ".join(shown.rows("#sessions")[0].split())
        await shown.press("V")
        assert "● started" in shown.text
        assert "those that have room are shown" in shown.text
        await shown.press("space")
        assert "● started" not in shown.text
        await shown.press("escape")
        assert " ".join(shown.rows("#sessions")[0].split()) == heading
        assert not shown.asked_for(KeepColumns)
        await shown.press("V", "space", "end", "space", "enter")
        heading = " ".join(shown.rows("#sessions")[0].split())
        assert heading == "workload epochs device status host samples/s time"
        assert shown.asked_for(KeepColumns) == [{"hidden": {"started", "loss"}}]


async def test_columns_that_a_person_took_out_stay_away(log_dir):
    write_three(log_dir)
    hidden = frozenset(COLUMNS) - {"workload"}
    shown = ShownSessions(log_dir, hidden=hidden)
    async with shown.app.run_test(size=(120, 40)) as pilot:
        await shown.begin(pilot)
        assert shown.rows("#sessions")[0].split() == ["workload", "time"]


@pytest.mark.parametrize(
    ("width", "headings"),
    [
        (200, "▼started workload batch epochs device status host samples/s loss time"),
        (140, "▼started workload batch epochs device status host samples/s loss time"),
        (110, "▼started workload batch epochs device status samples/s loss time"),
        (100, "▼started workload device status samples/s loss time"),
        (80, "▼started workload device status time"),
    ],
)
async def test_columns_without_room_are_left_out_in_order(shown, log_dir, width, headings):
    header, *records = recorded_session(session_id="one")
    header = replace(header, options={**header.options, "batch_size": 64})
    write_log(log_dir, of_this_boot([header, *records]))
    async with shown.app.run_test(size=(width, 24)) as pilot:
        await shown.begin(pilot)
        heading, row = shown.rows("#sessions")
        assert " ".join(heading.split()) == headings
        assert row.endswith("9.16 s ± 0.01 per epoch")
        for name in {"batch", "epochs", "samples/s", "loss"} & {*heading.split()}:
            right = heading.index(name) + len(name)
            assert row[right - 1].isdigit()
            assert row[right] == " "


async def test_the_throughput_of_unknown_samples_is_in_steps(shown, log_dir):
    *records, result = recorded_session(session_id="one")
    write_log(log_dir, of_this_boot([*records, replace(result, counts_steps=True)]))
    async with shown.app.run_test(size=(120, 24)) as pilot:
        await shown.begin(pilot)
        assert "5,500 steps" in shown.rows("#sessions")[1]


# ---- deleting ----


async def test_a_session_is_deleted_once_that_is_confirmed(shown, log_dir):
    write_three(log_dir)
    async with shown.app.run_test(size=(80, 24)) as pilot:
        await shown.begin(pilot)
        # A key that repeats itself confirms nothing.
        for answer in ("escape", "n", "q", "enter", "ctrl+c", "x"):
            await shown.press("delete")
            assert "Delete newest?" in shown.text
            await shown.press(answer)
        assert shown.app.asked == []
        await shown.press("y")
        asked = [{"logs": [log_dir / "newest" / "session.jsonl"]}]
        assert shown.asked_for(Delete) == asked


async def test_all_that_are_marked_are_deleted_shown_or_not(shown, log_dir):
    write_three(log_dir)
    async with shown.app.run_test(size=(80, 24)) as pilot:
        await shown.begin(pilot)
        await shown.press("space", "space", "slash", *"mnist", "enter", "x")
        assert "Delete 2 sessions?" in shown.text
        # One of them is filtered out of the list.
        assert re.search(r"Chosen failed-one\W+newest\W+Delete permanently", shown.text)
        await shown.press("y")
        (asked,) = shown.asked_for(Delete)
        assert sorted(log.parent.name for log in asked["logs"]) == ["failed-one", "newest"]


async def test_what_runs_or_may_run_is_not_deleted(shown, log_dir, growing_log):
    write_log(log_dir, recorded_session("training", session_id="elsewhere"))
    growing_log(of_this_boot(recorded_session("training", session_id="runs")))
    async with shown.app.run_test(size=(120, 24)) as pilot:
        await shown.begin(pilot)
        await shown.press("x", "down", "x")
        sentences = {notification.message for notification in shown.app._notifications}
        assert sentences == {
            "runs is running: stop it first",
            "elsewhere may be running on tower: delete it there",
        }
        assert shown.app.asked == []


# ---- many ----


@pytest.fixture(scope="module")
def entry():
    header, *_, result = recorded_session()
    return SessionEntry(header, None, "completed", result, None)


def many(entry, count, tmp_path):
    return [
        replace(
            entry,
            path=tmp_path / str(n),
            header=replace(entry.header, id=f"session {n}", wall=BEGIN_WALL + 60 * n),
        )
        for n in range(count)
    ]


def test_a_session_is_found_by_all_that_is_shown_of_it(entry, tmp_path):
    entries = many(entry, 3, tmp_path)
    assert matching(entries, "") == matching(entries, "CIFAR 2026-11-20 tower gtx") == entries
    assert matching(entries, "14:58 completed") == [entries[2]]
    assert matching(entries, "cifar nothing") == []
