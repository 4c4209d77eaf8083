"""The app: which screen it opens, how one gets from one to another, and its exit code."""

import re
import shutil
from functools import partial

import pytest
from fakes.recorded import BEGIN_WALL, recorded_session, write_log
from fakes.screens import (
    FakeSupervisor,
    dlmon_app_with,
    fake_machine,
    of_this_boot,
    screen_text,
    until,
    until_read,
)
from textual.command import CommandPalette

import dlmon.render.follow
from dlmon.cli.start import Sources
from dlmon.exit_codes import FAILED
from dlmon.log.label import Label, read_label, write_label
from dlmon.options.run_options import RunOptions
from dlmon.options.settings import Settings, remember
from dlmon.protocol.job import Refused, Started
from dlmon.records import Output
from dlmon.render.follow import follow
from tui.compare.compare_screen import CompareScreen
from tui.drawing.themes import theme_names
from tui.home.home_screen import HomeScreen
from tui.live.comparison import ComparisonBars
from tui.live.live_screen import LiveScreen
from tui.live.replay_screen import ReplayScreen
from tui.messages import TrainSeveral
from tui.palette import commands_of
from tui.screens.help import HelpScreen
from tui.screens.list_dialog import ThemesScreen
from tui.screens.session_controls import AgainScreen, QuitScreen
from tui.screens.starting import StartingScreen
from tui.sessions.sessions_screen import SessionsScreen
from tui.watch.watch_screen import WatchScreen
from workloads.catalog import WORKLOADS

ID = "20261120-145600-cifar10-cnn-7f3a"


@pytest.fixture
def running(growing_log):
    """A session that runs, and the records that end it."""
    *records, result = recorded_session(status="stopped")
    log = growing_log(of_this_boot(records))
    return log, result


class Launcher:
    """What starts a run in a test: it answers as was put in place, and notes the supervisors."""

    def put(self, answer, at_once=True):
        self.answer, self.at_once, self.launches = answer, at_once, []
        return self.launches

    def __call__(self, job):
        launched = FakeSupervisor(self.answer, job)
        if self.at_once:
            launched.may_answer.set()
        self.launches.append(launched)
        return launched


@pytest.fixture
def launcher():
    return Launcher()


@pytest.fixture
def launched(launcher):
    """Put an answer of the supervisor in place; return the supervisors that were started."""
    return launcher.put


@pytest.fixture
def dlmon_app(clock, sensing, launcher):
    """Return what makes the app, with sensors and a launcher that a test speaks for."""
    machine = partial(fake_machine, clock=clock)
    return dlmon_app_with(Sources(machine=machine, launch=launcher))


def run(app, actions):
    """Run the app without a terminal, have `actions` done in it, and return its exit code."""

    async def once_read(pilot):
        if app.start.log is not None:
            await until(pilot, lambda: live(app))
        await actions(pilot)

    app.run = partial(app.run, headless=True, size=(80, 24), auto_pilot=once_read)
    return app.run_to_exit_code()


@pytest.fixture
def own_state(tmp_path, monkeypatch):
    """Let what is remembered lie in a folder of this test's own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


def comparison(app):
    return app.screen.query_one(ComparisonBars)._bars


def live(app):
    return isinstance(app.screen, LiveScreen) and app.screen.is_mounted


# ---- how it is opened and left ----


@pytest.mark.parametrize(
    ("options", "screen"), [({}, HomeScreen), ({"watch_interval_s": 0.5}, WatchScreen)]
)
def test_home_and_watch_are_left_with_exit_code_0_and_without_a_word(
    dlmon_app, log_dir, sensing, capsys, options, screen
):
    async def quit_at_once(pilot):
        await until(pilot, lambda: isinstance(pilot.app.screen, screen))
        await until(pilot, lambda: pilot.app.screen.is_mounted)
        await pilot.press("q")

    assert run(dlmon_app(log_dir, **options), quit_at_once) == 0
    assert capsys.readouterr() == ("", "")
    assert not options or [sensors.interval_s for sensors in sensing] == [0.5]


@pytest.mark.parametrize(
    ("status", "code", "err"),
    [
        ("completed", 0, ""),
        ("stopped", 1, ""),
        ("failed", 1, "cifar10-cnn failed: memory ran out with batch size 100"),
    ],
)
def test_a_session_that_is_over_decides_the_exit_code_and_leaves_its_summary(
    dlmon_app, log_dir, capsys, status, code, err
):
    log = write_log(log_dir, recorded_session(status=status))

    async def look_and_quit(pilot):
        await until(pilot, lambda: f" {status} " in screen_text(pilot.app))
        await pilot.press("q")

    assert run(dlmon_app(log_dir, log), look_and_quit) == code
    said = capsys.readouterr()
    summary, _, where = said.out.rpartition(f"\n{ID} ")
    assert where.startswith(f"{status}; recorded in {log}\n")
    assert said.err.removeprefix("dlmon: ").startswith(err)
    assert bool(said.err) == bool(err)
    # The same as without the screen.
    follow(log, None)
    plain = capsys.readouterr()
    assert f"{summary}\n{ID} {status}; recorded in" in plain.out
    assert plain.err == said.err
    assert re.search("^seconds per epoch +[0-9]", said.out, re.MULTILINE) or status == "failed"
    assert "per epoch" in said.out


def summed_up_a_stopped_run(out, log):
    """Whether its summary was printed, and where it is recorded."""
    summary, _, last = out.rpartition(f"\n{ID} ")
    return "throughput  " in summary and last.startswith(f"stopped; recorded in {log.path}\n")


def test_whoever_stops_it_on_leaving_leaves_though_its_end_is_read_between_two_ticks(
    dlmon_app, log_dir, running, capsys, monkeypatch
):
    log, result = running
    supervisor = FakeSupervisor()
    # One record a tick, as on a busy machine; a worker reads the rest.
    monkeypatch.setattr("tui.live.live_screen.SLICE_S", 0.0)

    async def stop_and_leave(pilot):
        await pilot.pause()
        await pilot.press("q", "s")
        assert pilot.app.is_running
        log.write(*(Output(log.header.t + 1, "stdout", "bye") for _ in range(3)), result)

    assert run(dlmon_app(log_dir, log.path, supervisor), stop_and_leave) == 130
    assert summed_up_a_stopped_run(capsys.readouterr().out, log)


# ---- from the home screen to a session and back ----


async def test_enter_trains_and_leaving_comes_back_home_with_the_result(
    dlmon_app, log_dir, running, launched, sensing
):
    log, _ = running
    launches = launched(Started(ID, str(log.path)), at_once=False)
    app = dlmon_app(log_dir, settings=Settings(run=RunOptions(epochs=2, device="cpu")))
    async with app.run_test(size=(120, 40)) as pilot:
        # While one session starts, no second one and no sweep is started.
        await pilot.press("slash", "enter", "enter", "enter")
        await until(pilot, lambda: launches)
        app.post_message(TrainSeveral(WORKLOADS["mnist-mlp-small"], RunOptions()))
        await pilot.pause()
        assert isinstance(app.screen, StartingScreen)
        launches[0].may_answer.set()
        await until(pilot, lambda: live(app))
        assert len(launches) == 1
        assert [sensors.running for sensors in sensing] == [False]
        assert launches[0].job.workload == "cifar10-cnn"
        assert (launches[0].job.options["epochs"], launches[0].job.device) == (2, "cpu")
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


async def test_home_shows_sessions_that_begin_end_and_go_while_it_is_open(
    dlmon_app, log_dir, growing_log, sensing, monkeypatch
):
    monkeypatch.setattr("tui.flows.stack._REFRESH_S", 0.01)
    app = dlmon_app(log_dir)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: "No sessions yet" in screen_text(app))
        *records, result = recorded_session()
        log = growing_log(records)
        await until(pilot, lambda: "1 recorded" in screen_text(app))
        await until(pilot, lambda: " running, " in screen_text(app))
        log.write(result)
        await until(pilot, lambda: " running, " not in screen_text(app))
        await until(pilot, lambda: "9.16 s" in screen_text(app))
        shutil.rmtree(log.path.parent)
        await until(pilot, lambda: "No sessions yet" in screen_text(app))


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (Refused("GPU 3 is not there: this machine has 1 GPU", 2), "GPU 3 is not there"),
        (Started(ID, "/nowhere/session.jsonl"), "/nowhere/session.jsonl can't be read"),
    ],
)
async def test_what_could_not_be_started_is_shown_at_home(
    dlmon_app, log_dir, launched, sensing, answer, problem
):
    launched(answer)
    app = dlmon_app(log_dir)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await pilot.press("slash", "enter")
        await until(pilot, lambda: problem in screen_text(app))
        assert isinstance(app.screen, HomeScreen)
        launches = launched(answer)
        await pilot.press("enter")
        await until(pilot, lambda: launches)


async def test_a_long_log_says_how_far_it_is_read_and_answers_keys_meanwhile(
    dlmon_app, log_dir, slow_reading
):
    app = dlmon_app(log_dir, write_log(log_dir, recorded_session()), sources=slow_reading.sources)
    shown = []
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: "reading the log: " in screen_text(app))
        # What came of it is known before it is read.
        for words in (ID, "per epoch", "per step"):
            assert words in screen_text(app)
        await pilot.press("ctrl+p")
        await until(pilot, lambda: isinstance(app.screen, CommandPalette))
        await pilot.press("escape")
        await until(pilot, lambda: "reading the log: " in screen_text(app))
        while not live(app):
            shown += re.findall(r"reading the log: (\d+) %", screen_text(app))
            slow_reading.go_on()
            await pilot.pause()
        slow_reading.finish()
        await until(pilot, lambda: "completed after 32.2 s" in screen_text(app))
    shares = [int(share) for share in shown]
    assert shares == sorted(shares)
    assert len(set(shares)) > 5


async def test_whoever_does_not_wait_for_a_long_log_leaves_at_once(
    dlmon_app, log_dir, slow_reading
):
    app = dlmon_app(log_dir, write_log(log_dir, recorded_session()), sources=slow_reading.sources)
    async with app.run_test() as pilot:
        await until(pilot, lambda: "reading the log: " in screen_text(app))
        await pilot.press("q")
        await until(pilot, lambda: not app.is_running)
    assert app.return_code == 0


async def test_a_launch_from_the_shell_that_nobody_wants_to_wait_for_is_given_up(
    dlmon_app, log_dir
):
    supervisor = FakeSupervisor(Started(ID, "never"))
    app = dlmon_app(log_dir, started=supervisor)
    async with app.run_test() as pilot:
        await until(pilot, lambda: isinstance(app.screen, StartingScreen))
        await pilot.press("q")
        await pilot.pause()
        assert supervisor.released
    assert app.return_value == 130


async def test_a_session_that_is_launched_detached_is_shown_and_not_ours_to_lose(
    dlmon_app, log_dir, running, launched, sensing
):
    launches = launched(Started(ID, str(running[0].path)))
    app = dlmon_app(log_dir, settings=Settings(run=RunOptions(detach=True)))
    async with app.run_test() as pilot:
        await pilot.press("slash", "enter")
        await until(pilot, lambda: live(app))
        assert launches[0].job.outlives_viewer
        assert launches[0].words == ["detach"]
        assert launches[0].released
        # To detach is to leave it, whoever began it.
        await pilot.press("d")
        await until(pilot, lambda: isinstance(app.screen, HomeScreen))
        assert launches[0].words == ["detach"]


# ---- once more ----


async def test_again_launches_the_same_and_shows_it_beside_the_run_before(
    dlmon_app, log_dir, growing_log, launched, sensing
):
    first = write_log(log_dir, of_this_boot(recorded_session(session_id="20261120-145600-first")))
    second = of_this_boot(
        recorded_session(
            "training", session_id="20261120-150600-second", begin_wall=BEGIN_WALL + 600
        )
    )
    log = growing_log(second)
    launches = launched(Started("20261120-150600-second", str(log.path)))
    app = dlmon_app(log_dir, first)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: live(app))
        await until(pilot, lambda: "completed" in screen_text(app))
        before = app.screen
        await pilot.press("a")
        await until(pilot, lambda: live(app) and app.screen is not before)
        await until(pilot, lambda: "epoch 2/3" in screen_text(app))
        assert launches[0].job.workload == "cifar10-cnn"
        assert launches[0].job.options["batch_size"] == 100
        assert launches[0].job.options["epochs"] == 3
        assert launches[0].job.log_dir == str(log_dir)
        earlier = [row for row in comparison(app) if row.kind == "earlier"]
        assert len(earlier) == 1
        await pilot.press("q", "d")
        await pilot.pause()
    assert app.return_value == 0


async def test_again_while_a_run_goes_on_stops_it_first_and_then_launches_the_same(
    dlmon_app, log_dir, running, growing_log, launched, sensing
):
    log, result = running
    second = growing_log(
        of_this_boot(recorded_session("training", session_id="20261120-150600-second"))
    )
    launches = launched(Started("20261120-150600-second", str(second.path)))
    supervisor = FakeSupervisor()
    app = dlmon_app(log_dir, log.path, supervisor)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: live(app))
        before = app.screen
        await pilot.press("a")
        await until(pilot, lambda: isinstance(app.screen, AgainScreen))
        assert "Stop it and run again (a)" in screen_text(app)
        assert supervisor.words == launches == []
        await pilot.press("a")
        await until(pilot, lambda: supervisor.words == ["stop"])
        assert launches == []
        log.write(result)
        await until(pilot, lambda: live(app) and app.screen is not before)
        assert len(launches) == 1
        await pilot.press("q", "d")
        await pilot.pause()


# ---- recorded sessions ----


def test_a_session_is_shown_with_its_name_wherever_it_is_shown(dlmon_app, log_dir, sensing, capsys):
    log = write_log(log_dir, of_this_boot(recorded_session()))
    write_label(log, Label("first"))

    async def rename(pilot):
        await until(pilot, lambda: '  "first"  ' in screen_text(pilot.app))
        write_label(log, Label("second"))
        pilot.app.screen.tick()
        await until(pilot, lambda: '  "second"  ' in screen_text(pilot.app))
        await pilot.press("q")

    run(dlmon_app(log_dir, log), rename)
    printed = capsys.readouterr().out
    assert f"{recorded_session()[0].id} (second) completed; recorded in" in printed


async def test_a_recorded_session_is_renamed_and_deleted(dlmon_app, log_dir, sensing):
    log = write_log(log_dir, of_this_boot(recorded_session()))
    other = write_log(log_dir, of_this_boot(recorded_session(session_id="other")))
    write_label(other, Label("stays"))
    notes = log.with_name("notes.txt")
    notes.write_text("mine")
    app = dlmon_app(log_dir)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("r")
        await until(pilot, lambda: "stays" in screen_text(app))
        await pilot.press("slash", *log.parent.name, "enter")
        await until(pilot, lambda: "1 of 2 recorded" in screen_text(app))
        await pilot.press("u", *"baseline", "enter")
        await until(pilot, lambda: "(baseline)" in screen_text(app))
        assert read_label(log) == Label("baseline")
        await pilot.press("x")
        await until(pilot, lambda: "(baseline)?" in screen_text(app))
        await pilot.press("y")
        await until(pilot, lambda: app._notifications)
        (notification,) = app._notifications
        assert notification.message.endswith("it holds files that dlmon didn't make")
        await until(pilot, lambda: "0 of 1 recorded" in screen_text(app))
        assert [*log.parent.iterdir()] == [notes]
        assert other.exists()


async def test_recorded_sessions_are_compared_and_replayed(dlmon_app, log_dir, sensing):
    for name in ("one", "two"):
        write_log(log_dir, of_this_boot(recorded_session(session_id=name)))
    app = dlmon_app(log_dir)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("r")
        await until(pilot, lambda: "2 recorded" in screen_text(app))
        for keys, screen in (
            (("space", "space", "c"), CompareScreen),
            (("escape", "v"), ReplayScreen),
        ):
            await pilot.press(*keys)
            await until(pilot, lambda screen=screen: isinstance(app.screen, screen))
            await pilot.press("q")
            await until(pilot, lambda: isinstance(app.screen, SessionsScreen))
            await until_read(pilot)


async def test_quitting_anywhere_asks_about_a_session_that_would_stop(
    dlmon_app, log_dir, running, sensing
):
    supervisor = FakeSupervisor()
    app = dlmon_app(log_dir, running[0].path, supervisor)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: live(app))
        await pilot.press("r")
        await until(pilot, lambda: isinstance(app.screen, SessionsScreen))
        await until_read(pilot)
        # It is gone back to, and not opened twice.
        shown = app.screen_stack[0]
        await pilot.press("enter")
        await until(pilot, lambda: app.screen is shown)
        await pilot.press("r")
        await until(pilot, lambda: isinstance(app.screen, SessionsScreen))
        await pilot.press("ctrl+q")
        await until(pilot, lambda: isinstance(app.screen, QuitScreen))
        await pilot.press("d")
        await pilot.pause()
    assert supervisor.words == ["detach"]


def test_an_error_of_dlmons_own_leaves_a_run_going_on_and_says_how_to_come_back(
    dlmon_app, log_dir, running, sensing, capsys, monkeypatch
):
    supervisor, log = FakeSupervisor(), running[0]
    app = dlmon_app(log_dir, log.path, supervisor)
    monkeypatch.setattr(app, "action_help", lambda: 1 / 0)

    async def fail(pilot):
        await pilot.press("question_mark")

    assert run(app, fail) == FAILED
    assert supervisor.words == ["detach"]
    assert supervisor.released
    said = capsys.readouterr().err.splitlines()[-1]
    attach = f"dlmon attach --log-dir {log_dir} {log.header.id} shows it"
    assert said == f"dlmon: {log.header.id} is still running; {attach}"


def test_an_error_in_the_plain_output_leaves_a_run_going_on_too(running, capsys, monkeypatch):
    supervisor, log = FakeSupervisor(), running[0]
    monkeypatch.setattr(dlmon.render.follow._Lines, "show", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        follow(log.path, supervisor)
    assert supervisor.words == ["detach"]
    assert f"{log.header.id} is still running; dlmon attach" in capsys.readouterr().err


# ---- help, commands, themes ----


async def test_every_screen_explains_itself_and_offers_its_actions_in_the_palette(
    dlmon_app, log_dir, sensing
):
    log = write_log(log_dir, of_this_boot(recorded_session()))
    for app in (
        dlmon_app(log_dir),
        dlmon_app(log_dir, log),
        dlmon_app(log_dir, watch_interval_s=1),
    ):
        async with app.run_test(size=(120, 400)) as pilot:
            await pilot.pause()
            screen = app.screen
            commands = [*commands_of(app, screen)]
            keys = {command.name: command.keys for command in commands}
            assert len(keys) == len(commands)
            # The menu offers everything but itself.
            offered = {
                active.binding.description
                for active in screen.active_bindings.values()
                if active.binding.show and active.enabled and active.binding.description
            } - {"Menu"}
            assert all(keys.get(name) for name in offered)
            assert not {"Menu", "Focus Next"} & set(keys)
            assert "Theme" in "".join(keys)
            await pilot.press("f1")
            await until(pilot, lambda app=app: isinstance(app.screen, HelpScreen))
            await pilot.pause()
            text = " ".join(screen_text(app).replace("│", " ").split())
            for name, sentence in screen.topics:
                # Both may be wrapped, beside each other.
                assert all(word in text for word in f"{name} {sentence}".split()), name
            keys = text.partition(" On this screen")[0]
            assert {"q", "^q"} & set(keys.split())
            await pilot.press("escape")
            await pilot.pause()
            assert app.screen is screen


async def test_a_command_of_the_palette_does_what_its_key_does(dlmon_app, log_dir, sensing):
    app = dlmon_app(log_dir)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("ctrl+p")
        await until(pilot, lambda: isinstance(app.screen, CommandPalette))
        await until(pilot, lambda: "Show only what matches" in screen_text(app))
        await pilot.press(*"machine")
        await until(pilot, lambda: "Show only what matches" not in screen_text(app))
        await until(pilot, lambda: "Watch the machine alone" in screen_text(app))
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, WatchScreen))


async def test_a_theme_is_chosen_from_a_list_that_opens_on_the_current_one(
    dlmon_app, log_dir, sensing, own_state
):
    app = dlmon_app(log_dir, settings=Settings(theme="nord"))
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("t")
        await until(pilot, lambda: "nord (now)" in screen_text(app))
        following = theme_names()[theme_names().index("nord") + 1]
        await pilot.press("down")
        await until(pilot, lambda: app.theme == following)
        await pilot.press("enter")
        await until(pilot, lambda: not isinstance(app.screen, ThemesScreen))
        assert app.theme == following
        # What was but looked at is neither kept nor shown any longer; a letter goes to a name.
        for keys, theme in ((("down", "down", "escape"), following), (("g", "enter"), "gruvbox")):
            await pilot.press("t")
            await until(pilot, lambda: isinstance(app.screen, ThemesScreen))
            await pilot.press(*keys)
            await until(pilot, lambda: not isinstance(app.screen, ThemesScreen))
            assert app.theme == theme
    assert dlmon_app(log_dir).theme == "gruvbox"
    assert dlmon_app(log_dir, settings=Settings(theme="dlmon-light")).theme == "dlmon-light"
    remember("theme", "of another version")
    assert dlmon_app(log_dir).theme == "dlmon-dark"


async def test_a_theme_that_can_not_be_kept_is_said(dlmon_app, log_dir, sensing, own_state):
    own_state.mkdir(parents=True)
    (own_state / "dlmon").write_text("a file where a folder should be")
    app = dlmon_app(log_dir)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        app.theme = "nord"
        await until(pilot, lambda: "can't be saved" in screen_text(app))


# ---- the end of a run ----


@pytest.mark.parametrize("wanted", [True, False])
async def test_the_end_of_a_run_rings_and_notifies_where_wanted(
    dlmon_app, log_dir, running, monkeypatch, wanted
):
    log, result = running
    settings = Settings(bell=wanted, notification=wanted)
    app = dlmon_app(log_dir, log.path, FakeSupervisor(), settings=settings)
    rung, written = [], []
    monkeypatch.setattr(app, "bell", lambda: rung.append(True))
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: live(app))
        monkeypatch.setattr(app._driver, "write", written.append)
        log.write(result)
        await until(pilot, lambda: " stopped " in screen_text(app))
        await pilot.pause()
    assert rung == [True] * wanted
    notifications = [text for text in written if "\x1b]9;" in text]
    assert len(notifications) == int(wanted)
    assert all("dlmon: cifar10-cnn stopped" in text for text in notifications)


# ---- screens on top of a session ----


@pytest.fixture
def two_sessions(log_dir, growing_log):
    """A session that runs, and one that is over."""
    *records, result = of_this_boot(recorded_session(status="stopped"))
    log = growing_log(records)
    over = of_this_boot(
        recorded_session(session_id="20261119-145600-over", begin_wall=BEGIN_WALL - 86_400)
    )
    return log, result, write_log(log_dir, over)


async def open_the_other(pilot, app):
    """Go from a session through the list to the one that is over."""
    await pilot.press("r")
    await until(pilot, lambda: isinstance(app.screen, SessionsScreen))
    await until_read(pilot)
    await pilot.press("down", "enter")
    await until(pilot, lambda: live(app) and " completed " in screen_text(app))


async def test_an_end_that_is_waited_for_closes_no_other_session(dlmon_app, log_dir, two_sessions):
    log, result, _ = two_sessions
    app = dlmon_app(log_dir, log.path, FakeSupervisor())
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: live(app))
        first = app.screen
        await pilot.press("q", "s")
        await open_the_other(pilot, app)
        other = app.screen
        log.write(result)
        await until(pilot, lambda: not first._source.running)
        await pilot.pause()
        assert app.screen is other
        await pilot.press("q", "escape")
        await pilot.pause()
    assert app.return_value == 130


async def test_no_second_run_or_sweep_is_begun_while_one_of_ours_runs(
    dlmon_app, log_dir, two_sessions, launched
):
    log, _, _ = two_sessions
    launches = launched(Refused("never", 1))
    supervisor = FakeSupervisor()
    app = dlmon_app(log_dir, log.path, supervisor)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await until(pilot, lambda: live(app))
        app.post_message(TrainSeveral(WORKLOADS["mnist-mlp-small"], RunOptions()))
        await until(pilot, lambda: "is still running: stop" in screen_text(app))
        app.clear_notifications()
        await open_the_other(pilot, app)
        await pilot.press("a")
        await until(pilot, lambda: "is still running: stop" in screen_text(app))
        assert launches == []
        assert not supervisor.released


# ---- own reference figures ----


async def test_what_is_wrong_with_own_reference_figures_is_said_with_a_session(
    dlmon_app, log_dir, tmp_path, monkeypatch
):
    own = tmp_path / "published.csv"
    monkeypatch.setenv("DLMON_PUBLISHED", str(own))
    own.write_text("workload,device,metric,value,batch_size\nx,[b]y,seconds_per_epoch,0,1\n")
    app = dlmon_app(log_dir, write_log(log_dir, recorded_session()))
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        await app.workers.wait_for_complete()
        await pilot.pause()
        (notice,) = app._notifications
        assert notice.message == f'{own}, line 2: value is "0", which is not a number above 0'
        assert not notice.markup
