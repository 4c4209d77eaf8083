"""The screen of a sweep: what it shows as runs begin and end, and what its keys do.

The pictures are texts in `__snapshots__`; after a change that is meant to show, look at them
and accept with `pytest tests/ui/sweep/test_screen.py --snapshot-update`.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from functools import partial
from types import SimpleNamespace

import pytest
from fakes.recorded import folded, recorded_session, write_log
from fakes.screens import Shown, of_this_boot, screen_text, until_read
from fakes.sweeps import SMALL, completed, plan_of
from rich.cells import cell_len

import dlmon.options.sweep_options
import dlmon.sweep.log
import tui.flows.runs
from dlmon.cli.start import Sources, Start
from dlmon.log.folder import LOG_NAME
from dlmon.options.run_options import RunOptions
from dlmon.options.settings import Settings
from dlmon.protocol.job import RemoteStart
from dlmon.records import Began, Closed, Ended, Outcome, RunStatus
from dlmon.remote.session_follower import copies_directory
from dlmon.session.follower import SessionFollower
from dlmon.sweep.hosts import CurrentRun
from dlmon.sweep.log import SweepWriter, new_header
from dlmon.sweep.runner import SweepRun
from tui.app import DlmonApp
from tui.home.home_screen import HomeScreen
from tui.live.live_screen import LiveScreen
from tui.messages import GoBack, ShowSweep, ShowSweptSession, Train, TrainSeveral
from tui.sessions.sessions_screen import SessionsScreen
from tui.sweep.sweep_screen import SweepForm, SweepScreen, SweepTable
from workloads.catalog import WORKLOADS

SIZES = ((80, 24), (120, 40))
SESSION = "20261120-145600-mnist-mlp-small-7f3a"
OOM = Outcome(RunStatus.OUT_OF_MEMORY, "memory ran out with batch size 512", "s", None, 2.0)
BATCHES = {"batch_size": [32, 64, 128, 512]}
HOSTS = ["gpu1", "gpu2", "lab@gpu3", "gpu4"]
DEVICES = {"device": ["cpu", "gpu:0"], "batch_size": [32, 64, 128]}


class StillCurrentRun(CurrentRun):
    """A run whose time stands still."""

    @property
    def running_for_s(self):
        return 4.0


class StillRun(SweepRun):
    """A sweep whose runs a test makes; it ends when `over` is set."""

    def __init__(self, writer, alerts=None):
        super().__init__(writer, make_job=None, refusal=None)
        self.over = asyncio.Event()

    @property
    def slot(self):
        """The run that was begun last."""
        return [*self.current.values()][-1].slot

    async def run(self):
        await self.over.wait()
        self.ended = True

    def stop(self):
        self.stopping = True

    def make(self, *outcomes):
        """Make the next runs, ended so."""
        for outcome in outcomes:
            slot = self.sweep.remaining()[0]
            self.report(Began(slot, outcome.session or SESSION, 0.0))
            self.report(Ended(slot, outcome, 1.0))

    def report(self, event):
        self._write(event)

    def begin(self, follower, host=None):
        """Let the next run of a machine be under way."""
        plan = self.sweep.plan
        slot = next(slot for slot in self.sweep.remaining() if plan.host_of(slot) == host)
        self.current.pop(host, None)
        self.current[host] = StillCurrentRun(slot, host, follower)
        if follower is not None:
            self.report(Began(slot, follower.session.header.id, 0.0))

    def end(self, status=RunStatus.COMPLETED):
        self.current.clear()
        self.report(Closed(status, 2.0))
        self.over.set()


def highlighted_in(screen):
    table = screen.query_one(SweepTable)
    return screen.run.sweep.plan.combinations[table.order[table.index]]


class ShownSweep(Shown):
    """A sweep on its screen."""

    def __init__(self, run):
        self.run = run
        super().__init__(SweepScreen(run, clock=lambda: 100.0))

    @property
    def left(self):
        """For each time that it was left, whether it was interrupted."""
        return [message.screen.exit_code == 130 for message in self.asked(GoBack)]

    @property
    def opened(self):
        return [message.log for message in self.asked(ShowSweptSession)]

    async def begin(self):
        await self.pilot.pause()
        await self.settle()

    async def settle(self):
        for _ in range(2):
            self.screen.tick()
            await self.pilot.pause()

    @property
    def highlighted(self):
        return highlighted_in(self.screen)


@pytest.fixture
def make_run(log_dir):
    """Return a function that makes a sweep of which nothing was run yet."""
    writers = []

    def make(vary=BATCHES, repeats=1, **plan):
        header = new_header(plan_of(vary, repeats, **plan), 1, 1_795_186_560.0)
        writers.append(SweepWriter.create(log_dir, header))
        return StillRun(writers[-1])

    yield make
    for writer in writers:
        with suppress(OSError):  # closed by its test
            writer.close()


@pytest.fixture
def training(growing_log, clock):
    """Return a viewer of a session that trains, at its last moment."""
    records = of_this_boot(recorded_session("training", workload=SMALL, step_us=8_000))
    log = growing_log(records)
    clock.now_ns = folded(records).last_t
    follower = SessionFollower(log.path, clock)
    while follower.poll():
        continue
    yield follower
    follower.close()


@pytest.fixture
def show():
    """Return a context in which a sweep is shown."""

    @asynccontextmanager
    async def shown(run, size=(120, 40)):
        sweep_shown = ShownSweep(run)
        async with sweep_shown.on(size, notifications=True):
            yield sweep_shown

    return shown


# ---- what it shows ----


async def test_the_highlight_follows_the_runs_until_it_is_moved(make_run, show, training):
    run = make_run()
    run.begin(training)
    async with show(run) as shown:
        assert shown.highlighted.index == run.slot.combination
        run.report(Ended(run.slot, completed(0.5), 1.0))
        run.begin(training)
        await shown.settle()
        assert shown.highlighted.index == run.slot.combination
        await shown.press("home")
        assert shown.highlighted.index == 0
        run.report(Ended(run.slot, completed(0.5), 1.0))
        run.begin(training)
        await shown.settle()
        assert shown.highlighted.index == 0
        await shown.press("f")
        assert shown.highlighted.index == run.slot.combination


async def test_a_long_value_leaves_room_for_what_came_of_it(make_run, training, show):
    run = make_run({"data": ["a name that goes on and on " * 12, "b"]})
    run.make(completed(0.5))
    run.begin(training)
    async with show(run, (80, 24)) as shown:
        assert "2,000" in shown.text
        assert "epoch 2/3" in shown.text
        # The loss of what runs, in its row and in the chart of the losses.
        assert shown.text.count("1.0382") in (1, 2)


# ---- what its keys do ----


async def test_enter_shows_the_session_that_runs_or_that_ended(make_run, show, training, log_dir):
    run = make_run()
    first = run.sweep.remaining()[0]
    run.make(completed(0.5))
    run.begin(training)
    async with show(run) as shown:
        await shown.press("enter")
        assert shown.opened == [training.path]
        table = shown.screen.query_one(SweepTable)
        shown.screen.action_move(table.order.index(first.combination) - table.index)
        await shown.press("enter")
        assert shown.opened[1:] == [log_dir / SESSION / LOG_NAME]


async def test_s_asks_whether_the_sweep_stops_now_after_this_run_or_goes_on(make_run, show):
    run = make_run()
    run.begin(None)
    async with show(run) as shown:
        await shown.press("s")
        for label in ("Stop this sweep?", "Stop now (s)", "Finish, then stop (e)", "Go on (esc)"):
            assert label in shown.text
        await shown.press("enter")
        assert shown.app.screen is shown.screen
        assert not run.stops_after_run
        await shown.press("s", "e")
        assert run.stops_after_run
        assert not run.stopping
        assert "stops after this run" in shown.text
        await shown.press("s", "escape")
        assert run.stops_after_run
        await shown.press("s", "m")
        assert not run.stops_after_run


@pytest.mark.parametrize("key", ["s", "q"])
async def test_a_sweep_of_slurms_jobs_is_left_and_not_stopped(make_run, show, key):
    run = make_run()
    run.leaves_jobs = True
    run.begin(None)
    async with show(run) as shown:
        await shown.press(key)
        for said in ("Leave this sweep to Slurm?", "its jobs go on, or stay in the queue"):
            assert said in shown.text
        assert "It is taken up again by" in shown.text
        assert "counts as not run" not in shown.text
        await shown.press("escape")
        assert not run.stopping
        await shown.press(key, "s")
        assert run.stopping


@pytest.mark.parametrize("key", ["s", "q"])
async def test_s_and_q_stop_the_run_and_q_leaves_at_its_end(make_run, show, key):
    run = make_run()
    async with show(run) as shown:
        await shown.press(key)
        if key == "q":
            assert "dlmon sweep --resume" in shown.text
            assert run.writer.header.id in shown.text
        await shown.press("escape")
        assert not run.stops_after_run
        await shown.press(key, "s")
        assert run.stopping
        assert "stopping" in shown.text
        assert "s Stop" not in shown.text.splitlines()[-1]
        assert shown.left == []
        run.end("stopped")
        await shown.settle()
        assert shown.left == [True] * (key == "q")


async def test_a_question_goes_away_when_the_sweep_ends_and_q_leaves_it_then(make_run, show):
    run = make_run()
    run.make(*[completed(time) for time in (0.5, 0.4, 0.3, 0.2)])
    async with show(run) as shown:
        await shown.press("q")
        run.end()
        await shown.pilot.pause()
        await shown.settle()
        assert shown.app.screen is shown.screen
        assert shown.left == []
        assert "4 of 4 runs done" in shown.text
        await shown.press("q")
        assert shown.left == [False]


# ---- on several machines ----


@pytest.fixture
def on_hosts(make_run, training):
    """Return a sweep whose runs are made on two hosts, both of them under way."""
    run = make_run({"host": ["gpu1", "gpu2"], "batch_size": [32, 64]})
    for host in ("gpu1", "gpu2"):
        run.begin(following(training), host)
    return run


async def test_the_session_of_a_host_is_shown_from_there_and_its_copy_once_it_is_over(
    on_hosts, training, monkeypatch, tmp_path
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    opened = []
    monkeypatch.setattr(tui.flows.runs, "show_remote", lambda app, start: opened.append(start))
    async with in_app(on_hosts) as (app, pilot):
        await pilot.press("home", "enter")
        await pilot.pause()
        highlighted = highlighted_in(app.screen)
        host, running = highlighted.varied["host"], training.session.header.id
        assert opened == [RemoteStart(host, running)]
        slot = on_hosts.current.pop(host).slot
        on_hosts.report(Ended(slot, completed(0.5), 1.0))
        app.screen.action_move(slot.combination - highlighted.index)
        # Without a copy, the host is asked for it.
        await pilot.press("enter")
        await pilot.pause()
        assert opened[1:] == [RemoteStart(host, SESSION)]
        write_log(copies_directory(host), recorded_session(workload=SMALL), SESSION)
        await pilot.press("enter")
        await pilot.pause()
        assert isinstance(app.screen, LiveScreen)
        assert len(opened) == 2


async def test_no_other_run_is_launched_on_a_machine_that_is_swept(on_hosts, make_run, monkeypatch):
    opened, launched = [], []
    monkeypatch.setattr(tui.flows.runs, "show_remote", lambda app, start: opened.append(start.host))
    for run, hosts in ((on_hosts, ("gpu1", "gpu3")), (make_run(), (None,))):
        async with in_app(run, launch=launched.append) as (app, pilot):
            for host in hosts:
                app.post_message(Train(WORKLOADS[SMALL], RunOptions(host=host)))
                await pilot.pause()
            assert "the sweep is still running" in screen_text(app)
    assert (opened, launched) == (["gpu3"], [])


# ---- in the app ----


@asynccontextmanager
async def in_app(run, size=(120, 40), **sources):
    app = DlmonApp(Start(run.directory, sweep=run, sources=Sources(**sources)))
    async with app.run_test(size=size, notifications=True) as pilot:
        await pilot.pause()
        yield app, pilot


async def test_the_session_of_a_run_opens_and_closes_over_the_sweep(make_run, training, clock):
    run = make_run()
    run.begin(training)
    async with in_app(run, follow=partial(SessionFollower, clock=clock)) as (app, pilot):
        sweep = app.screen
        before = sweep.query_one("#table").region
        await pilot.press("enter")
        await pilot.pause()
        assert isinstance(app.screen, LiveScreen)
        await pilot.press("q")
        await pilot.pause()
        assert app.screen is sweep
        assert sweep.query_one("#table").region == before
        assert not run.stops_after_run


# ---- how it looks ----


def under_way(run, training):
    run.make(completed(0.41, took_s=8.0), completed(0.30, took_s=8.0))
    run.begin(training)


def over(run, training):
    outcomes = {32: completed(0.41), 64: completed(0.30), 128: completed(0.28), 512: OOM}
    for slot in run.sweep.remaining():
        size = run.sweep.plan.combinations[slot.combination].varied["batch_size"]
        run.make(outcomes[size])
    run.end()


def repeated(run, training):
    times = {("cpu", 32): 0.3, ("cpu", 64): 0.28, ("cpu", 128): 0.27}
    times |= {("gpu:0", 32): 0.6, ("gpu:0", 64): 0.3, ("gpu:0", 128): 0.12}
    for slot in run.sweep.remaining():
        varied = run.sweep.plan.combinations[slot.combination].varied
        time = times[varied["device"], varied["batch_size"]]
        run.make(completed(time * (1 + 0.02 * slot.repeat)))
    run.end()


def bars(run, training):
    run.make(completed(0.41), completed(0.30))
    run.begin(training)


def hosts(run, training):
    run.make(completed(0.41, took_s=8.0))
    run.begin(training, "gpu1")
    lost = "gpu2 closed the connection, for 12 s; next try in 3 s"
    run.begin(following(training, problem=lost), "gpu2")
    run.connecting = ["lab@gpu3"]
    reason = "gpu4 is not known: no such host name"
    run.unreached["gpu4"] = reason
    for slot in run.sweep.remaining():
        if run.sweep.plan.host_of(slot) == "gpu4":
            run.report(Ended(slot, Outcome(RunStatus.NOT_RUN, reason), 0.0))


def following(training, **more):
    """Return what follows a session of another machine."""
    session, path = training.session, training.path
    more = {"problem": None, **more}
    return SimpleNamespace(session=session, snapshot=training.snapshot, path=path, **more)


async def test_what_runs_on_a_host_that_is_lost_is_not_said_to_run(make_run, training, show):
    run = make_run(**CASES["hosts"][1])
    hosts(run, training)
    async with show(run, size=(120, 40)) as shown:
        (row,) = (row for row in shown.text.splitlines() if " 32  host lost " in row)
        assert " gpu2 " in row
        assert "15,851" not in row
        assert "1 running  1 lost  3 waiting" in shown.text
        # The chart is that of the run that goes on.
        assert " gpu1, batch 64 1.0382 " in shown.text


CASES = {
    "under-way": (under_way, {"vary": BATCHES}),
    "over": (over, {"vary": BATCHES}),
    "repeated": (repeated, {"vary": DEVICES, "repeats": 3}),
    "bars": (
        bars,
        {"vary": {"device": ["cpu", "gpu:0"], "precision": ["float32", "mixed_float16"]}},
    ),
    "hosts": (hosts, {"vary": {"host": HOSTS, "batch_size": [32, 64]}}),
    "many-rows": (under_way, {"vary": {"batch_size": range(1, 41)}}),
}


@pytest.mark.parametrize("case", CASES)
async def test_it_looks_right(make_run, training, show, text_snapshot, case):
    prepare, plan = CASES[case]
    run = make_run(**plan)
    prepare(run, training)
    pictures = ""
    async with show(run, size=SIZES[0]) as shown:
        for width, height in SIZES:
            await shown.pilot.resize_terminal(width, height)
            await shown.settle()
            rows = shown.text.split("\n")
            assert len(rows) == height
            assert max(map(cell_len, rows)) <= width
            pictures += f"{f' {case}, {width}×{height} ':═^{width}}\n{shown.text}\n"
    assert pictures == text_snapshot


# ---- from the home screen ----


@pytest.fixture
def at_home(log_dir, sensing, monkeypatch):
    """Return a context in which the home screen asks for a sweep of what is highlighted."""
    runs = []

    def still_run(writer, alerts=None):
        runs.append(StillRun(writer, alerts))
        return runs[-1]

    monkeypatch.setattr(dlmon.options.sweep_options, "run_of", still_run)

    @asynccontextmanager
    async def asked(**settings):
        app = DlmonApp(Start(log_dir, Settings(**settings)))
        async with app.run_test(size=(120, 40), notifications=True) as pilot:
            await pilot.pause()
            await pilot.press("slash", *SMALL, "ctrl+s")
            await pilot.pause()
            yield app, pilot, runs

    yield asked
    for run in runs:
        run.writer.close()


async def test_a_sweep_is_begun_from_the_home_screen_and_leads_back_to_it(at_home):
    async with at_home() as (app, pilot, runs):
        assert isinstance(app.screen, SweepForm)
        await pilot.press(*"batch_size=32,64", "tab", "3")
        await pilot.pause()
        assert "6 runs: mnist-mlp-small × batch 32, 64; 3 times each" in screen_text(app)
        await pilot.press("enter")
        await pilot.pause()
        assert isinstance(app.screen, SweepScreen)
        (run,) = runs
        assert (run.sweep.plan.workloads, run.sweep.plan.repeats) == ((SMALL,), 3)
        # No second one is begun while it runs.
        app.post_message(TrainSeveral(WORKLOADS[SMALL], RunOptions()))
        await pilot.pause()
        assert "the sweep is still running" in screen_text(app)
        assert isinstance(app.screen, SweepScreen)
        run.end()
        await pilot.pause()
        await pilot.press("q")
        await pilot.pause()
        assert isinstance(app.screen, HomeScreen)


# ---- from the recorded sessions ----


@asynccontextmanager
async def at_sessions(log_dir):
    app = DlmonApp(Start(log_dir))
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await pilot.pause()
        await app.run_action("sessions")
        await until_read(pilot)
        yield app, pilot


async def test_enter_on_a_recorded_sweep_goes_on_with_it_and_q_leads_back(make_run, monkeypatch):
    first = make_run(BATCHES)
    first.make(completed(0.5))
    first.report(Closed("stopped", 2.0))
    first.writer.close()
    monkeypatch.setattr(dlmon.options.sweep_options, "run_of", StillRun)
    async with at_sessions(first.directory) as (app, pilot):
        sessions = app.screen
        await pilot.press("enter")
        await pilot.pause()
        await pilot.press("y")
        await pilot.pause()
        assert isinstance(app.screen, SweepScreen)
        (run,) = app.sweeps
        assert run.writer.path == first.writer.path
        assert len(run.sweep.remaining()) == 3
        run.end("stopped")
        await pilot.pause()
        await pilot.press("q")
        await pilot.pause()
        assert app.screen is sessions
        run.writer.close()


async def test_enter_on_the_sweep_that_is_shown_leads_back_to_it_and_keeps_its_lock(make_run):
    run = make_run()
    async with in_app(run) as (app, pilot):
        sweep = app.screen
        await pilot.press("r")
        await until_read(pilot)
        assert isinstance(app.screen, SessionsScreen)
        assert "0 of 4, batch" in screen_text(app)
        await pilot.press("enter")
        await pilot.pause()
        assert app.screen is sweep
        # No other one is taken up beside it.
        other = make_run()
        other.writer.close()
        app.post_message(ShowSweep(other.writer.path))
        await pilot.pause()
        assert "the sweep is still running" in screen_text(app)
