"""The app: which screen it opens, how one gets from one to another, and its exit code."""

from functools import partial

import pytest
from fakes.recorded import recorded_session, write_log
from fakes.screens import FakeLaunch, of_this_boot, screen_text

import tui.app
from dlmon.job import Refused, Started
from dlmon.log import LogError
from dlmon.records import Result
from tui.app import DlmonApp
from tui.screens.home import HomeScreen
from tui.screens.live import LiveScreen
from tui.screens.watch import WatchScreen

ID = "20261120-145600-cifar10-cnn-7f3a"


@pytest.fixture
def running(growing_log):
    """A session that runs, and the records that end it."""
    *records, result = recorded_session(status="stopped")
    log = growing_log(of_this_boot(records))
    return log, result


@pytest.fixture
def launched(monkeypatch):
    """Put an answer of the supervisor in place; return the lifelines that were taken."""

    def put(answer, at_once=True):
        launches = []

        def launch(job):
            launches.append(FakeLaunch(answer))
            launches[-1].job = job
            if at_once:
                launches[-1].may_answer.set()
            return launches[-1]

        monkeypatch.setattr(tui.app, "launch", launch)
        return launches

    return put


def run(app, actions):
    """Run the app without a terminal, have `actions` done in it, and return its exit code."""
    app.run = partial(app.run, headless=True, size=(80, 24), auto_pilot=actions)
    return app.run_to_exit_code()


async def until(pilot, condition):
    """Wait until something has come about that a worker or a thread brings."""
    for _ in range(400):
        if condition():
            return
        await pilot.pause(0.01)
    raise AssertionError(f"in vain; the screen shows\n{screen_text(pilot.app)}")


def live(app):
    return isinstance(app.screen, LiveScreen)


# ---- how it is opened and left ----


async def test_without_arguments_it_opens_the_home_screen(log_dir, sensing):
    app = DlmonApp(log_dir)
    async with app.run_test() as pilot:
        await pilot.pause()
        assert isinstance(app.screen, HomeScreen)


def test_home_is_left_with_exit_code_0_and_without_a_word(log_dir, sensing, capsys):
    async def quit_at_once(pilot):
        await pilot.press("q")

    assert run(DlmonApp(log_dir), quit_at_once) == 0
    assert capsys.readouterr() == ("", "")


def test_watch_is_left_with_exit_code_0(log_dir, sensing):
    async def quit_at_once(pilot):
        await pilot.pause()
        assert isinstance(pilot.app.screen, WatchScreen)
        await pilot.press("q")

    assert run(DlmonApp(log_dir, watch_interval_s=0.5), quit_at_once) == 0
    assert [sensors.interval_s for sensors in sensing] == [0.5]


@pytest.mark.parametrize(
    ("status", "code", "out", "err"),
    [
        ("completed", 0, f"{ID} completed; recorded in ", ""),
        ("stopped", 1, f"{ID} stopped; recorded in ", ""),
        ("failed", 1, "", f"dlmon: {ID} failed: memory ran out with batch size 100"),
    ],
)
def test_a_session_that_is_over_decides_the_exit_code(log_dir, capsys, status, code, out, err):
    log = write_log(log_dir, recorded_session(status=status))

    async def look_and_quit(pilot):
        await until(pilot, lambda: f" {status} " in screen_text(pilot.app))
        await pilot.press("q")

    assert run(DlmonApp(log_dir, log), look_and_quit) == code
    said = capsys.readouterr()
    assert said.out.startswith(out)
    assert said.err.startswith(err)
    assert bool(said.out) == bool(out)
    assert bool(said.err) == bool(err)


def test_an_interrupted_session_is_exit_code_1(log_dir, capsys):
    log = write_log(log_dir, of_this_boot(recorded_session("training")))

    async def look_and_quit(pilot):
        await until(pilot, lambda: "interrupted" in screen_text(pilot.app))
        await pilot.press("q")

    assert run(DlmonApp(log_dir, log), look_and_quit) == 1
    assert capsys.readouterr().out == f"{ID} interrupted; recorded in {log}\n"


def test_a_session_that_is_left_running_says_how_to_come_back(log_dir, running, capsys):
    log, _ = running
    lifeline = FakeLaunch()

    async def leave_it(pilot):
        await pilot.pause()
        await pilot.press("q", "l")

    assert run(DlmonApp(log_dir, log.path, lifeline), leave_it) == 0
    assert lifeline.words == ["detach"]
    assert lifeline.released
    assert capsys.readouterr().out == f"{ID} is still running; dlmon attach {ID} shows it\n"


def test_a_session_that_was_attached_is_left_running(log_dir, running, capsys):
    async def quit_at_once(pilot):
        await pilot.pause()
        await pilot.press("q")

    assert run(DlmonApp(log_dir, running[0].path), quit_at_once) == 0
    assert "is still running" in capsys.readouterr().out


def test_a_session_that_was_stopped_here_is_exit_code_130(log_dir, running, capsys):
    log, result = running
    lifeline = FakeLaunch()

    async def stop_it(pilot):
        await pilot.pause()
        await pilot.press("s")
        assert lifeline.words == ["stop"]
        log.write(result)
        await until(pilot, lambda: " stopped " in screen_text(pilot.app))
        await pilot.press("q")

    assert run(DlmonApp(log_dir, log.path, lifeline), stop_it) == 130
    assert capsys.readouterr().out == f"{ID} stopped; recorded in {log.path}\n"


def test_whoever_stops_it_on_leaving_leaves_when_it_has_stopped(log_dir, running, capsys):
    log, result = running
    lifeline = FakeLaunch()

    async def stop_and_leave(pilot):
        await pilot.pause()
        await pilot.press("q", "s")
        assert pilot.app.is_running
        log.write(result)

    assert run(DlmonApp(log_dir, log.path, lifeline), stop_and_leave) == 130
    assert capsys.readouterr().out == f"{ID} stopped; recorded in {log.path}\n"


def test_whoever_doesnt_wait_for_the_stop_is_told_that_it_is_under_way(log_dir, running, capsys):
    log, _ = running

    async def stop_and_run(pilot):
        await pilot.pause()
        await pilot.press("q", "s", "q")

    assert run(DlmonApp(log_dir, log.path, FakeLaunch()), stop_and_run) == 130
    assert capsys.readouterr().out == f"{ID} is stopping; it is recorded in {log.path}\n"


def test_what_is_no_log_is_refused_before_anything_is_drawn(tmp_path):
    path = tmp_path / "session.jsonl"
    path.write_text("hello\n")
    with pytest.raises(LogError, match="is not a dlmon log"):
        DlmonApp(tmp_path, path)


# ---- from the home screen to a session and back ----


async def test_enter_trains_and_leaving_comes_back_home_with_the_result(
    log_dir, running, launched, sensing
):
    log, _ = running
    launches = launched(Started(ID, str(log.path)))
    app = DlmonApp(log_dir)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("enter")
        await until(pilot, lambda: live(app))
        assert [sensors.running for sensors in sensing] == [False]
        assert launches[0].job.workload == "cifar10-cnn"
        assert launches[0].job.log_dir == str(log_dir)
        assert not launches[0].job.outlives_viewer
        log.write(recorded_session()[-1])
        await until(pilot, lambda: " completed " in screen_text(app))
        assert not launches[0].released
        await pilot.press("q")
        await until(pilot, lambda: "last here: 9.16 s" in screen_text(app))
        assert isinstance(app.screen, HomeScreen)
        assert launches[0].released
        assert sensing[-1].running


async def test_a_session_left_running_from_home_comes_back_home(
    log_dir, running, launched, sensing
):
    log, _ = running
    launches = launched(Started(ID, str(log.path)))
    app = DlmonApp(log_dir)
    async with app.run_test() as pilot:
        await pilot.press("enter")
        await until(pilot, lambda: live(app))
        await pilot.press("q", "l")
        await until(pilot, lambda: isinstance(app.screen, HomeScreen))
        assert launches[0].words == ["detach"]
        assert launches[0].released
        await pilot.press("enter")
        await until(pilot, lambda: live(app))
        assert len(launches) == 2


def test_quitting_at_home_after_a_session_is_exit_code_0(log_dir, running, launched, sensing):
    launched(Started(ID, str(running[0].path)))

    async def train_detach_and_quit(pilot):
        await pilot.press("enter")
        await until(pilot, lambda: live(pilot.app))
        await pilot.press("d")
        await until(pilot, lambda: isinstance(pilot.app.screen, HomeScreen))
        await pilot.press("q")

    assert run(DlmonApp(log_dir), train_detach_and_quit) == 0


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        (Refused("GPU 3 is not there: this machine has 1 GPU", 2), "GPU 3 is not there"),
        (Started(ID, "/nowhere/session.jsonl"), "/nowhere/session.jsonl can't be read"),
    ],
)
async def test_what_could_not_be_started_is_told_at_home(
    log_dir, launched, sensing, answer, complaint
):
    launched(answer)
    app = DlmonApp(log_dir)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await pilot.press("enter")
        await until(pilot, lambda: complaint in screen_text(app))
        assert isinstance(app.screen, HomeScreen)
        launches = launched(answer)
        await pilot.press("enter")
        await until(pilot, lambda: launches)


async def test_a_machine_that_starts_no_more_processes_is_told_at_home(
    log_dir, monkeypatch, sensing
):
    def launch(job):
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(tui.app, "launch", launch)
    app = DlmonApp(log_dir)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await pilot.press("enter")
        await until(pilot, lambda: "Resource temporarily unavailable" in screen_text(app))


async def test_while_one_session_starts_no_second_one_is_started(
    log_dir, running, launched, sensing
):
    launches = launched(Started(ID, str(running[0].path)), at_once=False)
    app = DlmonApp(log_dir)
    async with app.run_test() as pilot:
        await pilot.press("enter", "enter", "enter")
        await until(pilot, lambda: launches)
        launches[0].may_answer.set()
        await until(pilot, lambda: live(app))
        assert len(launches) == 1


async def test_the_machine_is_watched_from_home_and_one_comes_back(log_dir, sensing):
    app = DlmonApp(log_dir)
    async with app.run_test() as pilot:
        await pilot.press("w")
        await pilot.pause()
        assert isinstance(app.screen, WatchScreen)
        await pilot.press("q")
        await pilot.pause()
        assert isinstance(app.screen, HomeScreen)
        assert [sensors.running for sensors in sensing] == [False, False, True]


async def test_no_two_samplers_run_when_a_session_starts_over_the_watch_screen(
    log_dir, running, launched, sensing
):
    launches = launched(Started(ID, str(running[0].path)), at_once=False)
    app = DlmonApp(log_dir)
    async with app.run_test() as pilot:
        await pilot.press("enter", "w")
        await until(pilot, lambda: launches and isinstance(app.screen, WatchScreen))
        launches[0].may_answer.set()
        await until(pilot, lambda: live(app))
        await pilot.pause()
        assert not any(sensors.running for sensors in sensing)
        await pilot.press("d")
        await until(pilot, lambda: isinstance(app.screen, WatchScreen))
        await pilot.press("q")
        await until(pilot, lambda: isinstance(app.screen, HomeScreen))
        assert [sensors.running for sensors in sensing].count(True) == 1


async def test_a_finished_session_is_shown_from_its_log_alone(log_dir):
    records = recorded_session()
    assert isinstance(records[-1], Result)
    app = DlmonApp(log_dir, write_log(log_dir, records))
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: "completed after 32.2 s" in screen_text(app))
