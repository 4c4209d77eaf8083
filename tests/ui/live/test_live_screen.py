"""The live screen: what it shows of a session, and what becomes of the session when one leaves."""

import asyncio
import gc
import re
from dataclasses import replace

import pytest
from fakes.recorded import (
    recorded_session,
    write_log,
)
from fakes.screens import OneScreen, of_this_boot, screen_text, until
from fakes.scripts import script_session
from textual.app import App
from textual.screen import Screen

from dlmon.protocol.control import NotControlled
from dlmon.records import (
    Epoch,
    Frame,
    Model,
    Notice,
    Operation,
    Output,
    ProcessStack,
    Profile,
    Result,
    Status,
    StopCause,
    ThreadStack,
)
from dlmon.session.follower import SessionFollower
from tui.live import live_screen
from tui.live.live_screen import LiveScreen
from tui.live.session_lines import ProgressLine

WIDE, NARROW = (120, 40), (80, 24)


def split_before(records, kind):
    """Return the records up to the first of a kind, and those from it on."""
    first = next(i for i, record in enumerate(records) if isinstance(record, kind))
    return records[:first], records[first:]


# ---- how a session stands ----


async def test_a_session_is_followed_from_its_first_record_to_its_last(show_session):
    records = recorded_session()
    begun, rest = split_before(records, Model)
    training, ended = split_before(rest, Result)
    async with show_session(begun) as shown:
        assert "building" in shown.rows("TopLine")[0]
        shown.log.write(*training)
        await shown.tick()
        assert "validating  epoch 3/3" in shown.rows("TopLine")[0]
        assert len([row for row in shown.rows("EpochTable") if row]) == 1 + 3
        shown.log.write(*ended)
        await shown.tick()
        assert "completed  epoch 3/3  00:32" in shown.rows("TopLine")[0]
        assert shown.rows("ProgressLine") == ["completed after 32.2 s"]
        assert shown.footer.startswith("l Log  q Quit")


async def test_at_its_end_it_says_who_stopped_it(show_session):
    *records, result = recorded_session()
    stopped = replace(result, status=Status.STOPPED, stopped_by=StopCause.TIME_LIMIT)
    async with show_session([*records, stopped]) as shown:
        assert shown.rows("ProgressLine") == ["stopped after 32.2 s: its time limit was near"]


async def test_a_notice_is_seen_where_there_is_no_room_for_the_output(show_session):
    records = recorded_session("training")
    async with show_session(records, size=NARROW) as shown:
        last = shown.follower.session.last_t
        shown.log.write(Notice(last, "throttling began: power limit"))
        await shown.tick()
        assert shown.rows("ProgressLine")[0].startswith("▲ throttling began: power limit")
        shown.log.write(Output(last + 16_000_000_000, "stdout", "later"))
        await shown.tick()
        assert shown.rows("ProgressLine")[0].startswith("step 250 of 500")


# ---- leaving ----


async def test_stop_is_said_once_and_offered_no_more(show_session):
    async with show_session(recorded_session("training"), size=NARROW) as shown:
        await shown.press("s", "s")
        assert shown.supervisor.words == ["stop"]
        assert shown.footer.startswith("l Log  q Quit")
        await shown.press("s", "d")
        assert shown.supervisor.words == ["stop"]
        assert shown.left == []


async def test_what_ends_a_run_is_asked_first_and_the_harmless_answer_is_the_default(show_session):
    async with show_session(recorded_session("training"), size=NARROW, repeatable=True) as shown:
        for asks, says in (
            ("s", "Stop this run?"),
            ("a", "cifar10-cnn is still training."),
            ("q", "cifar10-cnn is still training."),
        ):
            for key in ("enter", "q"):
                await shown.press(asks)
                assert says in shown.text
                await shown.press(key)
                assert shown.app.screen is shown.screen
        assert shown.supervisor.words == shown.left == []
        await shown.press("s")
        assert shown.footer == "s Stop it  esc Go on"
        await shown.press("escape", "q")
        assert shown.footer == "s Stop it  d Leave it running  esc Stay"
        await shown.pilot.click("#stay")
        await shown.press("q", "left", "enter")
        assert shown.supervisor.words == ["detach"]
        assert shown.left == [False]


@pytest.mark.parametrize(("reached", "ours"), [("result", True), ("training", False)])
async def test_what_is_over_or_not_ours_is_left_without_a_question(show_session, reached, ours):
    async with show_session(recorded_session(reached), size=NARROW, ours=ours) as shown:
        await shown.press("q")
        assert shown.left == [False]


async def test_an_attached_session_of_this_machine_is_stopped_by_a_signal(show_session):
    async with show_session(
        of_this_boot(recorded_session("training")), size=NARROW, ours=False
    ) as shown:
        await shown.press("s", "s")
        assert shown.log.was_terminated()
        assert shown.footer.startswith("l Log  q Quit")
        await shown.tick()
        await shown.press("q")
        assert shown.left == [True]


async def test_an_attached_session_of_another_machine_cant_be_stopped_here(show_session):
    async with show_session(recorded_session("training"), size=NARROW, ours=False) as shown:
        await shown.press("s", "s")
        assert [n.message for n in shown.app._notifications] == [
            "this session can't be stopped from here"
        ]
        assert "s Stop" in shown.footer
        await shown.press("q")
        assert shown.left == [False]


@pytest.fixture
def refused_later(monkeypatch):
    """Have a stop be refused, as by a host, once the function that this returns is called."""
    reasons = []
    refusal = property(lambda source: reasons[-1] if reasons else None)
    monkeypatch.setattr(SessionFollower, "why_not_stopped", refusal)
    return reasons.append


async def test_a_stop_that_is_refused_is_offered_again(show_session, refused_later):
    async with show_session(recorded_session("training"), size=NARROW) as shown:
        await shown.press("s", "s")
        await shown.tick()
        assert "stopping" in shown.text
        assert "s Stop" not in shown.footer
        refused_later("box: run-1 belongs to [another] user")
        await shown.tick()
        await shown.tick()
        assert [n.message for n in shown.app._notifications] == [
            "box: run-1 belongs to [another] user"
        ]
        assert "s Stop" in shown.footer
        assert shown.screen.stop_requested is False


@pytest.mark.parametrize("keys", [("a", "a"), ("s", "s", "q")], ids=["again", "quit"])
async def test_after_a_stop_that_is_refused_its_end_is_not_waited_for(
    show_session, refused_later, keys
):
    running, ended = split_before(recorded_session(), Result)
    async with show_session(running, size=NARROW, repeatable=True) as shown:
        await shown.press(*keys)
        assert shown.screen.stop_requested
        refused_later("box: no")
        await shown.tick()
        shown.log.write(*ended)
        await shown.tick()
        assert not shown.screen.shown_session.running
        assert shown.left == []


@pytest.mark.parametrize(("keys", "left"), [(("q", "s"), True), (("a", "a"), "again")])
async def test_after_stop_it_is_left_or_launched_again_when_the_session_has_ended(
    show_session, keys, left
):
    running, ended = split_before(recorded_session(status="stopped"), Result)
    async with show_session(running, size=NARROW, repeatable=True) as shown:
        await shown.press(*keys)
        assert shown.supervisor.words == ["stop"]
        assert shown.left == []
        shown.log.write(*ended)
        await shown.tick()
        assert shown.left == [left]


async def test_the_question_goes_away_when_the_session_ends_meanwhile(show_session):
    running, ended = split_before(recorded_session(), Result)
    async with show_session(running, size=NARROW) as shown:
        await shown.press("q")
        shown.log.write(*ended)
        await shown.tick()
        assert shown.app.screen is shown.screen
        assert "completed" in shown.rows("TopLine")[0]
        assert shown.left == []
        await shown.press("q")
        assert shown.left == [False]


async def test_detach_leaves_it_running_and_nothing_is_read_or_left_twice(show_session):
    async with show_session(recorded_session("training"), size=NARROW) as shown:
        await shown.press("d", "d", "q")
        shown.follower.poll = None
        await shown.tick()
        shown.screen.paint()
        assert set(shown.supervisor.words) == {"detach"}
        assert shown.left == [False]
        assert shown.screen.detached


# ---- sizes, and what is drawn ----


async def test_while_a_log_is_behind_nothing_old_is_shown_as_now(show_session, slow_reading):
    """As after a suspension of hours: the screen reads on, in slices of a record here."""
    slow_reading.finish()
    *records, result = recorded_session(status="completed")
    middle = len(records) // 2
    async with show_session(records[:middle], follow=slow_reading.follower) as shown:
        assert "training  epoch 2/3" in shown.rows("TopLine")[0]
        slow_reading.begin()
        shown.log.write(*records[middle:], result)
        shown.screen.tick()
        await shown.pilot.pause()
        top, progress = shown.rows("TopLine")[0], shown.rows("ProgressLine")[0]
        assert re.search(r"  reading the log: \d+ %$", top)
        assert "training" not in top
        assert re.fullmatch(r"reading the log: \d+ %; the screen shows 00:\d\d", progress)
        # A key is answered meanwhile.
        await shown.press("l")
        assert "l Back" in shown.footer
        slow_reading.finish()
        await until(shown.pilot, lambda: "completed" in shown.rows("TopLine")[0])
        assert shown.follower.snapshot().epochs[-1].epoch == 2


async def test_under_another_screen_it_reads_on_and_is_painted_once_it_is_seen_again(show_session):
    *records, last = recorded_session()
    async with show_session(records) as shown:
        shown.app.push_screen(Screen())
        await shown.pilot.pause()
        before = shown.rows("TopLine")
        shown.log.write(last)
        await shown.tick()
        assert shown.follower.status == "completed"
        assert shown.rows("TopLine") == before
        shown.app.pop_screen()
        await shown.pilot.pause()
        await shown.pilot.pause()
        assert "completed" in shown.rows("TopLine")[0]


async def test_what_is_read_while_the_app_ends_is_painted_nowhere(show_session, monkeypatch):
    """Some parts of the screen are gone then, and the reading of a long log may still go on."""
    ticks = []

    def tick_once_more(line):
        ticks.append(line)
        line.screen.tick()

    monkeypatch.setattr(ProgressLine, "on_unmount", tick_once_more, raising=False)
    async with show_session(recorded_session(reached="training")):
        pass
    assert ticks


# ---- where it is while no batch comes ----


async def test_the_stacks_of_all_processes_are_shown_copied_and_asked_for_again(
    show_session, monkeypatch
):
    asked = []
    line = Frame("/home/ada/[red]train.py", 88, "save")
    library = Frame("/usr/lib/python3/dist-packages/torch/serialization.py", 944, "save")

    async def answer(source, request):
        asked.append(request)
        if len(asked) > 1:
            raise NotControlled("it is not running any more")
        threads = (ThreadStack("MainThread", (*[library] * 30, line), line, trains=True),)
        return [ProcessStack(1, 1, 4312, threads, rank=0)]

    monkeypatch.setattr(SessionFollower, "ask", answer)
    copied = []
    async with show_session(recorded_session("training"), size=NARROW) as shown:
        monkeypatch.setattr(shown.app, "copy_to_clipboard", copied.append)
        await shown.press("S")
        await until(shown.pilot, lambda: "rank 0" in shown.text)
        assert "rank 0: [red]train.py:88 in save → torch/serialization.py" in shown.text
        assert "    … 30 frames in torch" in shown.text
        # Where there is room for all frames, none are folded.
        await shown.pilot.resize_terminal(80, 60)
        assert "    torch/serialization.py:944 in save" in shown.text
        await shown.press("A")
        assert f"    {library.file}:944 in save" in shown.text
        await shown.press("C")
        assert copied[0].splitlines()[-1] == "  ▶ /home/ada/[red]train.py:88 in save"
        await shown.press("S")
        await until(shown.pilot, lambda: "it is not running any more" in shown.text)
        await shown.press("q")
        assert "step 250 of 500" in shown.text
    assert asked == [{"ask": "stack"}] * 2


async def test_a_profile_is_shown_as_a_table_and_why_there_is_none(show_session, monkeypatch):
    asked = []

    async def answer(source, request):
        asked.append(request)
        if len(asked) > 1:
            raise NotControlled("a profile is being made already")
        operations = (Operation("aten::[mm]", 5, 1_500, 0, 0.8),)
        return [Profile(1, 1, 0, 62_000_000, 5, "torch", "profile-1.json.gz", 9, operations)]

    monkeypatch.setattr(SessionFollower, "ask", answer)
    async with show_session(recorded_session("training"), size=NARROW) as shown:
        await shown.press("P")
        await until(shown.pilot, lambda: "aten::[mm]" in shown.text)
        assert "5 steps by PyTorch's profiler, 12.4 ms a step" in shown.text
        await shown.press("P")
        await until(shown.pilot, lambda: "a profile is being made already" in shown.text)
    assert asked == [{"ask": "profile", "steps": 5}] * 2


async def test_one_who_asks_twice_at_once_or_leaves_at_once_reads_no_warning(
    show_session, monkeypatch, recwarn
):
    asked = []

    async def answer(source, request):
        asked.append(request)
        await asyncio.Event().wait()

    monkeypatch.setattr(SessionFollower, "ask", answer)
    async with show_session(recorded_session("training"), size=NARROW) as shown:
        await shown.press("P")
        screen = shown.app.screen
        asked.clear()
        screen.ask_processes()
        screen.ask_processes()
        await until(shown.pilot, lambda: asked)
        assert len(asked) == 1
        await shown.press("q")
    del screen
    gc.collect()
    assert [str(warned.message) for warned in recwarn] == []


async def test_a_key_that_can_do_nothing_says_why(show_session):
    async with show_session(recorded_session(), size=WIDE) as shown:
        await until(shown.pilot, lambda: "completed" in shown.text)
        told = {}
        for key in ("s", "d", "S", "P", "M", "W", "a"):
            shown.app.clear_notifications()
            await shown.press(key)
            [told[key]] = [one.message for one in shown.app._notifications]
        assert told["s"] == told["d"] == "the run is over"
        assert told["S"] == "the run is over, and no stack was recorded while it ran"
        assert told["P"] == "the run is over, and no profile was recorded while it ran"
        assert told["M"] == "this run is on one machine"
        assert told["W"] == "a workload trains in one process: it has no ranks"
        assert told["a"] == "it can't be run again from here: type its command again"
        await shown.press("l")
        shown.app.clear_notifications()
        await shown.press("z")
        [log] = [one.message for one in shown.app._notifications]
        assert log == "the log has the whole screen: l shows the charts again"
        # What does something says nothing.
        shown.app.clear_notifications()
        await shown.press("l", "z")
        assert not shown.app._notifications


# ---- a person's own script ----


async def test_it_is_named_by_what_counts_its_batches_and_to_stop_it_means_to_interrupt_it(
    show_session,
):
    async with show_session(script_session(), size=WIDE, repeatable=True) as shown:
        top = shown.rows("TopLine")[0]
        assert "PyTorch 2.13.0  batch 64" in top
        assert "training  epoch 11  " in top
        assert shown.rows("ProgressLine")[0].startswith("step 0 of 100")
        assert "data wait" in "\n".join(shown.rows("BreakdownLine"))
        await shown.press("s")
        assert "Stop this script?" in shown.text
        await shown.press("escape", "q")
        assert "Leave it running" in shown.text
        await shown.press("escape", "a")
        assert "train.py is still running." in shown.text
        assert "it may save if it handles SIGTERM; else as by Ctrl-C" in shown.text
        assert "series" not in shown.text
        await shown.press("escape", "question_mark")
        assert "s      Stop" in shown.text
        assert "current batch" not in shown.text.partition("On this screen")[0]
        assert shown.supervisor.words == []


async def test_what_is_typed_for_a_script_as_it_fails_does_not_run_it_again(
    show_session, monkeypatch
):
    *_, failed = recorded_session(status="failed")
    async with show_session(script_session(), size=WIDE, repeatable=True) as shown:
        for _ in range(3):
            await shown.tick()
        shown.log.write(failed)
        await shown.tick()
        assert "failed" in shown.rows("TopLine")[0]
        await shown.press("A", "d", "a", "enter")
        assert shown.left == []
        said = [one.message for one in shown.app._notifications]
        assert "it has just ended: press a once more in a few seconds to run it again" in said
        # A little later, the key is meant for the screen.
        monkeypatch.setattr(live_screen, "_TYPING_S", 0.0)
        await shown.press("a")
        assert shown.left == ["again"]


async def test_a_loop_whose_batches_have_no_size_is_in_steps(show_session):
    records = script_session(samples=None, steps=None)
    async with show_session(records, size=WIDE) as shown:
        assert "steps/s" in str(shown.titles("#throughput"))
        assert "samples/s" not in str(shown.titles("#throughput"))
        assert shown.rows("ProgressLine")[0].startswith("training  step 1,000")


async def test_of_a_loop_that_has_no_epochs_none_is_named(show_session):
    records = [
        replace(record, has_epochs=False) if isinstance(record, Model) else record
        for record in script_session(samples=None, steps=None)
        if not isinstance(record, Epoch)
    ]
    async with show_session(records, size=WIDE) as shown:
        assert "epoch" not in shown.rows("TopLine")[0]
        assert not shown.screen.query_one("EpochTable").display
        assert str(shown.titles("#comparison")[0]) == "Steps per second"
        assert "steps/s   measured" in "\n".join(shown.rows("EpochHeadline"))
        assert "┊1" not in shown.text


async def test_steps_that_were_said_show_how_far_a_loop_without_epochs_is(show_session):
    said = {"has_epochs": False, "steps": 4000, "length_from": "the script's --max-iters"}
    records = [
        replace(record, **said) if isinstance(record, Model) else record
        for record in script_session(samples=None, steps=None)
        if not isinstance(record, Epoch)
    ]
    async with show_session(records, size=WIDE) as shown:
        [row] = shown.rows("ProgressLine")
        assert row.startswith("step 1,000 of 4,000  training ")
        assert "run ~ 01:00 left, training ends " in row
        assert row.endswith(" by the script's --max-iters")
        await shown.pilot.resize_terminal(80, 24)
        await shown.pilot.pause()
        [row] = shown.rows("ProgressLine")
        assert row.startswith("step 1,000 of 4,000  ")
        assert "…" not in row
        assert "run ~ 01:00 left, training ends " in row


@pytest.mark.parametrize(
    ("width", "row"),
    [(80, "╰─ 204,800 tokens/s ─────── whole run ─╯"), (200, "204,800 tokens/s")],
)
async def test_tokens_per_second_stand_in_a_border_of_the_throughput_at_every_width(
    tmp_path, width, row
):
    log = write_log(tmp_path, script_session(tokens=64))
    app = OneScreen(LiveScreen(SessionFollower(log)))
    async with app.run_test(size=(width, 24)) as pilot:
        await pilot.pause()
        await pilot.pause()
        assert row in screen_text(app)


async def test_what_limits_a_run_and_what_to_do_have_a_row_each(show_session):
    async with show_session(recorded_session("training")) as shown:
        for size in ((80, 24), (80, 20), WIDE):
            await shown.resize(*size)
            limit, advice = shown.rows("LimitLine")
            assert "GPU-BOUND 97 %" in limit
            assert "→ a smaller model" in advice


async def test_what_is_painted_first_is_the_session_and_no_empty_frame(tmp_path, monkeypatch):
    painted, display = [], App._display

    def note(app, screen, renderable):
        painted.append(screen_text(app))
        display(app, screen, renderable)

    monkeypatch.setattr(App, "_display", note)
    follower = SessionFollower(write_log(tmp_path, recorded_session("training")))
    app = OneScreen(LiveScreen(follower))
    async with app.run_test(size=WIDE) as pilot:
        await until(pilot, lambda: "Throughput" in screen_text(app))
    shown = next(text for text in painted if "╭" in text)
    assert "cifar10-cnn" in shown
    assert "samples/s" in shown
