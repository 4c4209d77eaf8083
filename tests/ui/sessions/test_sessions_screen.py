"""The screen of recorded sessions: what it shows of each, how one gets to one and back."""

import re
import threading
from inspect import get_annotations

import pytest
from fakes.recorded import (
    BEGIN_WALL,
    recorded_session,
    write_log,
)
from fakes.screens import OneScreen, Shown, of_this_boot, screen_text, until, until_read
from fakes.sessions import DEADLINE_S
from fakes.sweeps import completed, plan_of

from dlmon.log.directory import list_sessions
from dlmon.log.label import Label, write_label
from dlmon.options.settings import remembered
from dlmon.records import Began, Closed, Ended, Slot
from dlmon.sweep.log import SweepWriter, list_sweeps, new_header
from tui.messages import (
    Compare,
    Delete,
    Export,
    GoBack,
    Rename,
    Replay,
    ShowSession,
    ShowSweep,
)
from tui.sessions.session_list import SessionList
from tui.sessions.sessions_screen import SessionsScreen

pytestmark = pytest.mark.usefixtures("utc")

HOUR_S = 3600


def vars_of(message):
    return {name: getattr(message, name) for name in get_annotations(type(message))}


class ShownSessions(Shown):
    """A screen of the sessions of a directory, and what it asked for."""

    def __init__(self, log_dir, **options):
        self.reads = 0
        self._log_dir = log_dir
        super().__init__(SessionsScreen(self._read, **options))

    def _read(self):
        self.reads += 1
        return list_sessions(self._log_dir)

    @property
    def shown(self):
        return [message.log for message in self.asked(ShowSession)]

    @property
    def resumed(self):
        return [message.path for message in self.asked(ShowSweep)]

    def asked_for(self, kind):
        """Return what was asked of the app by messages of this kind."""
        return [vars_of(message) for message in self.asked(kind)]

    @property
    def left(self):
        return len(self.asked(GoBack))

    async def begin(self):
        await until_read(self.pilot)

    async def settle(self):
        await until_read(self.pilot)

    def rows(self, selector):
        return [row for row in super().rows(selector) if row]

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


async def test_without_sessions_it_says_how_to_make_one(shown):
    async with shown.on((80, 24)):
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
    async with shown.on((80, 24)) as pilot:
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
    async with shown.on((80, 24)):
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
    async with shown.on((80, 24)) as pilot:
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


def with_sweeps(log_dir, **options):
    return ShownSessions(log_dir, read_sweeps=lambda: list_sweeps(log_dir), **options)


async def test_the_runs_of_a_sweep_stand_below_it_and_each_is_shown_in_detail(log_dir, swept):
    shown = with_sweeps(log_dir)
    name = swept.header.id
    async with shown.on((200, 40)):
        _, after, sweep, run, before = shown.rows("#sessions")
        assert [row[0] for row in (after, sweep, run, before)] == [" ", " ", "╰", " "]
        assert run.endswith("5.66 s per run  batch 32")
        assert "mnist-mlp-small" in sweep
        assert sweep.endswith("1 of 2, batch 32, 64")
        assert "sweep mnist-mlp-small" in sweep
        assert "stopped: 1 of 2" in sweep
        await shown.press("down", "down")
        assert shown.rows("#details")[0] == f"a-run  batch 32, a run of {name}"
        await shown.press("up")
        *rows, log = shown.rows("#details")
        assert rows == [
            name,
            "1 of 2 combinations done; Enter resumes it",
            "2 runs: mnist-mlp-small × batch 32, 64",
        ]
        assert log.startswith("log     ")


async def test_the_figure_of_a_run_of_a_sweep_is_whole_where_room_is_little(log_dir, swept):
    shown = with_sweeps(log_dir)
    async with shown.on((60, 24)):
        run = next(row for row in shown.rows("#sessions") if row.startswith("╰"))
        assert run.endswith("5.66 s per run")


async def test_enter_asks_whether_a_sweep_goes_on_and_shows_a_session(log_dir, swept):
    shown = with_sweeps(log_dir)
    async with shown.on((120, 40)):
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
    return [entry.header.id for entry in shown.screen.query_one(SessionList).shown_rows]


async def test_one_sorts_by_the_next_column_and_the_other_way_round(shown, log_dir):
    write_three(log_dir)
    async with shown.on((120, 40)):
        await shown.press("o")
        assert firsts(shown) == ["newest", "failed-one", "oldest"]
        assert "by what" in shown.text
        assert "▲what" in shown.rows("#sessions")[0]
        await shown.press("i")
        assert firsts(shown) == ["oldest", "newest", "failed-one"]
        assert "by what reversed" in shown.text
        await shown.press("greater_than_sign", "o", "o", "o")
        assert "by loss" in shown.text
        await shown.press(*["less_than_sign"] * 5)
        assert firsts(shown) == ["newest", "failed-one", "oldest"]
        assert "▼when" in shown.rows("#sessions")[0]


async def test_a_click_on_a_column_sorts_by_it_and_the_highlight_stays_on_its_row(shown, log_dir):
    write_three(log_dir)
    async with shown.on((80, 24)) as pilot:
        await shown.press("down")
        heading = shown.rows("#sessions")[0]
        for times, ids in enumerate(
            (["oldest", "newest", "failed-one"], ["newest", "oldest", "failed-one"])
        ):
            await pilot.click("#sessions", offset=(heading.index("result") + 1, 1))
            await pilot.pause()
            assert firsts(shown) == ids, times
            assert shown.highlighted == "failed-one"


# ---- marks ----


def marked(shown):
    return [row.split("●")[0] + row.split()[-1] for row in shown.rows("#sessions") if "●" in row]


async def test_space_marks_a_session_and_goes_on_to_the_next(shown, log_dir):
    write_three(log_dir)
    async with shown.on((80, 24)):
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
    async with shown.on((80, 24)):
        await shown.press("down", "space", "o", "slash", *"cnn", "enter")
        (log_dir / "newest" / "session.jsonl").unlink()
        write(log_dir, "brand-new", -1)
        await shown.press("ctrl+l")
        assert firsts(shown) == ["brand-new", "failed-one"]
        assert "1 marked, 2 of 3 recorded" in shown.text
        assert "by what" in shown.text
        assert [row[2] for row in shown.rows("#sessions")[1:]] == [" ", "●"]
        (log_dir / "failed-one" / "session.jsonl").unlink()
        await shown.press("ctrl+l")
        assert "marked" not in shown.text


async def test_a_sweep_is_marked_with_its_runs(log_dir, swept):
    shown = with_sweeps(log_dir)
    async with shown.on((140, 40)):
        await shown.press("down", "v", "space", "c")
        assert shown.app.asked == []
        assert [row[2] for row in shown.rows("#sessions")[1:]] == [" ", "●", "●", " "]
        await shown.press("x")
        assert "Delete 1 session and 1 sweep?" in shown.text


# ---- what is done with them ----


async def test_sessions_are_compared_replayed_and_reported(shown, log_dir):
    write_three(log_dir)
    logs = {name: log_dir / name / "session.jsonl" for name in ("newest", "failed-one")}
    async with shown.on((120, 40), notifications=True):
        for name in ("space Mark", "c Compare", "/ Filter", "x Delete", "q Back"):
            assert f" {name} " in shown.text
        await shown.press("v", "w")
        assert shown.asked_for(Replay) == [{"logs": [logs["newest"]]}]
        assert shown.asked_for(Export) == [{"format": "html", "logs": [logs["newest"]]}]
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
    async with shown.on((80, 24)):
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


# ---- columns ----


async def test_columns_are_chosen_and_the_choice_is_kept(shown, log_dir):
    write_three(log_dir)
    async with shown.on((120, 40)):
        heading = " ".join(shown.rows("#sessions")[0].split())
        await shown.press("V")
        assert "● when" in shown.text
        assert "shown if there is room and a value" in shown.text
        await shown.press("space")
        assert "● when" not in shown.text
        await shown.press("escape")
        assert " ".join(shown.rows("#sessions")[0].split()) == heading
        assert remembered("hidden-columns") == ""
        await shown.press("V", "space", "end", "space", "enter")
        heading = " ".join(shown.rows("#sessions")[0].split())
        assert heading == "what epochs device host samples/s loss result"
        assert SessionsScreen(list).table.hidden == {"started", "loss curve"}


async def test_sessions_are_sorted_by_how_fast_they_were_beside_the_run_before(shown, log_dir):
    for number, step_us in enumerate((20_000, 10_000, 12_000)):
        records = recorded_session(
            session_id=f"run-{number}", begin_wall=BEGIN_WALL + 60 * number, step_us=step_us
        )
        write_log(log_dir, records)
    async with shown.on((120, 40)):
        await until(shown.pilot, lambda: "2.00× as fast" in shown.text)
        shown.app.screen.table.sort_by("change")
        assert [row.header.id for row in shown.app.screen.table.shown_rows] == [
            *("run-1", "run-2", "run-0"),
        ]


# ---- deleting ----


async def test_a_session_is_deleted_once_that_is_confirmed(shown, log_dir):
    write_three(log_dir)
    async with shown.on((80, 24)):
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
    async with shown.on((80, 24)):
        await shown.press("space", "space", "slash", *"mnist", "enter", "x")
        assert "Delete 2 sessions?" in shown.text
        # One of them is filtered out of the list.
        assert re.search(r"Chosen newest .*\n.* failed-one .*\n.*Delete permanently", shown.text)
        await shown.press("y")
        (asked,) = shown.asked_for(Delete)
        assert sorted(log.parent.name for log in asked["logs"]) == ["failed-one", "newest"]


async def test_what_runs_or_may_run_is_not_deleted(shown, log_dir, growing_log):
    write_log(log_dir, recorded_session("training", session_id="elsewhere"))
    growing_log(of_this_boot(recorded_session("training", session_id="runs")))
    async with shown.on((120, 24)):
        await shown.press("x", "down", "x")
        sentences = {notification.message for notification in shown.app._notifications}
        assert sentences == {
            "runs is running: stop it first",
            "elsewhere may be running on tower: delete it there",
        }
        assert shown.app.asked == []
