"""A session that waits in Slurm's queue, on the screen."""

from dataclasses import replace

import pytest
from fakes.hosts import FakeLink
from fakes.recorded import recorded_session, write_log
from fakes.screens import GrowingLog, dlmon_app_with, of_this_boot, screen_text, until
from fakes.submitted import Queue, submit

from dlmon.cli.start import Sources
from dlmon.log.submitted import read_submitted
from dlmon.protocol.job import RemoteStart
from dlmon.records import Status, StopCause, to_json
from dlmon.slurm import job_follower as watch
from dlmon.slurm import standing
from dlmon.slurm.queue import JobState, Queued, QueuedJob
from tui.home.home_screen import HomeScreen
from tui.live.live_screen import LiveScreen
from tui.sessions.sessions_screen import SessionsScreen


@pytest.fixture
def queue(monkeypatch):
    asked = Queue(reason="Priority [red]")
    monkeypatch.setattr(watch, "JobWatch", lambda number: asked.watch())
    return asked


async def test_it_says_why_it_waits_and_shows_the_run_once_that_begins(
    dlmon_app, log_dir, tmp_path, queue
):
    records = recorded_session(samples=3_000)
    begun, log = write_log(tmp_path / "node", records), submit(log_dir, records[0].id)
    app = dlmon_app(log_dir, log)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: "QUEUED: job 12 is queued (Priority [red])" in screen_text(app))
        assert records[0].id in screen_text(app)
        assert "it stays in the queue when you leave" in screen_text(app)
        begun.rename(log)
        await until(pilot, lambda: isinstance(app.screen, LiveScreen))


async def test_whoever_leaves_it_is_left_with_nothing_started(dlmon_app, log_dir, queue):
    app = dlmon_app(log_dir, submit(log_dir))
    async with app.run_test() as pilot:
        await until(pilot, lambda: "is queued" in screen_text(app))
        await pilot.press("q")
        await until(pilot, lambda: not app.is_running)
    assert app.return_code == 0


async def test_a_job_that_was_cancelled_says_so(dlmon_app, log_dir, queue, sensing):
    submit(log_dir)
    app = dlmon_app(log_dir)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await until(pilot, lambda: isinstance(app.screen, HomeScreen))
        await pilot.press("r")
        await until(pilot, lambda: isinstance(app.screen, SessionsScreen))
        await until(pilot, lambda: "queued" in screen_text(app))
        await pilot.press("enter")
        await until(pilot, lambda: "is queued" in screen_text(app))
        queue.becomes(JobState.CANCELLED)
        await until(pilot, lambda: "job 12 was cancelled before" in screen_text(app))


async def test_a_job_that_waits_is_taken_out_of_the_queue_once_that_is_confirmed(
    dlmon_app, log_dir, queue, monkeypatch
):
    cancelled = []
    monkeypatch.setattr(standing, "stop_submitted", lambda entry: cancelled.append(entry.header.id))
    log = submit(log_dir)
    app = dlmon_app(log_dir, log)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "is queued" in screen_text(app))
        await pilot.press("s", "n")
        await until(pilot, lambda: "is queued" in screen_text(app))
        assert cancelled == []
        await pilot.press("s", "s")
        await until(pilot, lambda: cancelled == [log.parent.name])


async def test_what_slurm_queues_again_is_shown_in_its_place(
    dlmon_app, log_dir, tmp_path, queue, monkeypatch
):
    monkeypatch.setattr(watch, "read_job", queue)
    *records, result = recorded_session(samples=3_000)
    running = GrowingLog(log_dir, of_this_boot(records))
    submit(log_dir, records[0].id)
    app = dlmon_app(log_dir, running.path)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, LiveScreen))
        for _ in range(4):
            app.screen.tick()
        queue.becomes(JobState.PENDING, restarts=1, reason="BeginTime")
        running.write(replace(result, status=Status.STOPPED, stopped_by=StopCause.REQUEUED))
        running.drop_lock()
        app.screen.tick()
        await until(pilot, lambda: "job 12 is queued (BeginTime)" in screen_text(app))
        assert f"{records[0].id}-r1" in screen_text(app)
        assert app.screen_stack == [app.screen]


async def test_one_on_another_machine_says_why_it_waits_and_is_taken_out_there(
    clock, tmp_path, monkeypatch
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    link = FakeLink("login", clock)
    submitted = read_submitted(submit(tmp_path))
    header = {"folder": submitted.session, "file": "session.jsonl", "status": "queued"}
    link.answers["sessions"] = [{**header, "header": to_json(submitted.header)}]
    link.connect()
    sources = Sources(connection=lambda name: link)
    app = dlmon_app_with(sources)(tmp_path, remote=RemoteStart("login"))
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await until(pilot, lambda: link.standing)
        job = QueuedJob(id="12", state=JobState.PENDING, reason="Priority [red]")
        link.say("follow", queued=to_json(Queued("12", job, options="-p gpu")))
        await until(pilot, lambda: "job 12 is queued (Priority [red])" in screen_text(app))
        assert "asked of Slurm: -p gpu" in screen_text(app)
        await pilot.press("s", "s")
        await until(pilot, lambda: link.sent == [("stop", "last")])
        link.say("follow", error="job 12 was cancelled before the session began")
        await until(pilot, lambda: not app.is_running)
    assert app.refused == "login: job 12 was cancelled before the session began"
