"""The runs of a sweep whose supervisors answer what a test says, and none starts a session."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from fakes.sessions import until
from fakes.sweeps import plan_of, result_of

from dlmon.exit_codes import FAILED, UNREACHABLE
from dlmon.log.folder import LogError
from dlmon.protocol.job import Refused, Started
from dlmon.records import RunStatus
from dlmon.sweep.hosts import LocalHost
from dlmon.sweep.log import SweepWriter, new_header, read_sweep
from dlmon.sweep.runner import SweepRun

NO_GPU = Refused("there is no GPU here: NVML found none; use --device cpu", 2, permanent=True)
FULL = Refused("the log directory can't be written (the disk is full)", 2)
STOPPED = Refused("stopped before it began: asked by its sweep", 1)
DIED = Refused("the process that was to record it ended", 1)


class RefusedLaunch:
    """A launch that a supervisor refuses."""

    def __init__(self, answer):
        self._answer = answer
        self.process = subprocess.Popen([sys.executable, "-c", ""])
        self.process.wait()

    def answer(self):
        return self._answer

    def send(self, word):
        pass

    def release(self):
        pass


@pytest.fixture
def made(tmp_path):
    """Return a function that makes a sweep of two batch sizes, or takes it up; returns its end."""
    path = None

    def make(answer=None, refusal=lambda combination: None):
        nonlocal path
        if path is None:
            header = new_header(plan_of({"batch_size": [8, 16]}), 1, 1.0)
            writer = SweepWriter.create(tmp_path, header)
        else:
            writer = SweepWriter.resume(path, 2.0)
        path = writer.path
        run = SweepRun(
            writer,
            lambda combination: combination,
            refusal,
            lambda host: LocalHost(lambda job: answer(job)),
        )
        asyncio.run(run.run())
        assert run.problem is None
        return read_sweep(path)[1]

    return make


def endings(sweep):
    return [sweep.outcomes[slot].status for slot in sweep.plan.order]


@pytest.mark.parametrize(
    ("answers", "statuses", "closed"),
    [
        # What the machine lacks is impossible, and the sweep completes.
        ((NO_GPU, NO_GPU), [RunStatus.IMPOSSIBLE] * 2, "completed"),
        # Trouble that may pass leaves a run to be made.
        *(
            ((answer, answer), [RunStatus.NOT_RUN] * 2, "stopped")
            for answer in (FULL, STOPPED, DIED)
        ),
        ((NO_GPU, STOPPED), [RunStatus.IMPOSSIBLE, RunStatus.NOT_RUN], "stopped"),
    ],
)
def test_a_run_that_is_refused_ends_with_the_reason(made, answers, statuses, closed):
    by_size = dict(zip((8, 16), answers, strict=True))
    sweep = made(lambda job: RefusedLaunch(by_size[job.varied["batch_size"]]))
    assert sorted(endings(sweep)) == statuses
    assert {outcome.reason for outcome in sweep.outcomes.values()} == {a.reason for a in answers}
    assert len(sweep.remaining()) == statuses.count(RunStatus.NOT_RUN)
    assert sweep.closed == closed


def test_what_could_not_be_where_it_was_resumed_is_judged_again_at_the_next_time(made):
    sweep = made(refusal=lambda combination: "bin/python can't be run")
    assert (endings(sweep), sweep.remaining()) == ([RunStatus.IMPOSSIBLE, RunStatus.IMPOSSIBLE], [])
    launched = []

    def start(job):
        launched.append(job)
        return RefusedLaunch(NO_GPU)

    sweep = made(start)
    assert len(launched) == 2
    assert {outcome.reason for outcome in sweep.outcomes.values()} == {NO_GPU.reason}


# ---- on several machines ----


class FakeSession:
    """A session on another machine; a test ends it."""

    read_share = None
    path = Path("no-log")

    def __init__(self, name):
        self.name = name
        self.running = True
        self.result = self.problem = None
        self.session = SimpleNamespace(header=SimpleNamespace(injected={}), injections={})

    def poll(self):
        return []

    def end(self, status="completed", problem=None):
        self.running, self.problem = False, problem
        self.result = None if problem is not None else result_of(0.5, status=status)


class FakeHost:
    """A machine on which nothing runs: its network says what it does."""

    def __init__(self, network, name):
        self.name, self.network = name, network
        self.lost = self.left_running = None
        self.session = None
        self.calls = []

    async def open(self):
        await self.network.may_open.wait()
        return self.network.refused.get(self.name)

    async def launch(self, job):
        refused = self.network.refused_jobs.get(self.name)
        if refused is not None:
            return refused
        self.network.launched.append((self.name, job))
        return Started(f"{self.name}-{len(self.network.launched)}", "")

    async def follow(self, started):
        if self.network.gone == started.session:
            return Refused("there is no such session", 2)
        self.session = self.network.sessions[started.session] = FakeSession(started.session)
        return self.session

    def poll(self):
        self.calls.append("poll")

    def stop(self):
        self.calls.append("stop")
        if self.session is not None:
            self.session.end("stopped")

    async def finish_run(self):
        self.calls.append("finish_run")
        self.session = None

    async def close(self):
        self.calls.append("close")
        if self.session is not None and self.session.running and self.lost is not None:
            self.left_running = self.session.name


class FakeNetwork:
    """Machines, and what was started on them."""

    def __init__(self):
        self.hosts = {}
        self.refused, self.refused_jobs = {}, {}
        self.gone = None
        self.launched = []
        self.sessions = {}
        self.may_open = asyncio.Event()
        self.may_open.set()

    def make_host(self, name):
        self.hosts[name] = FakeHost(self, name)
        return self.hosts[name]

    def running(self):
        return {
            host.name: host.session
            for host in self.hosts.values()
            if host.session is not None and host.session.running
        }


@pytest.fixture
def network():
    return FakeNetwork()


@pytest.fixture
async def sweeping(tmp_path, network):
    """Return a function that begins, or takes up, a sweep on machines; its runs go on meanwhile."""
    tasks = []

    def begin(vary=None, repeats=1, resume=None):
        if resume is None:
            header = new_header(plan_of(vary, repeats), 1, 1.0)
            writer = SweepWriter.create(tmp_path, header)
        else:
            writer = SweepWriter.resume(resume, 2.0)
        run = SweepRun(writer, lambda job: job, lambda job: None, network.make_host, poll_s=0.001)
        run.task = asyncio.create_task(run.run())
        tasks.append(run.task)
        return run

    yield begin
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


BOXES = ("gpu1", "gpu2")
BOTH = {"host": BOXES, "batch_size": [8, 16]}


async def test_where_no_machine_can_be_reached_that_is_the_exit_code(sweeping, network):
    network.refused = {host: Refused(f"{host} is not known", 3) for host in BOXES}
    run = sweeping(BOTH)
    await run.task
    assert run.exit_code == UNREACHABLE
    # One that was reached and could run nothing is another matter.
    network.refused.pop("gpu1")
    network.refused_jobs["gpu1"] = NO_GPU
    again = sweeping(resume=run.writer.path)
    await again.task
    assert again.exit_code == FAILED


async def test_a_stop_waits_for_no_machine_that_is_still_to_be_reached(sweeping, network):
    network.may_open.clear()
    run = sweeping(BOTH)
    await until(lambda: set(run.connecting) == {*BOXES})
    run.stop()
    await run.task
    assert (network.launched, run.sweep.outcomes, run.unreached) == ([], {}, {})


async def test_a_machine_that_is_lost_costs_its_runs_and_no_other(sweeping, network):
    run = sweeping(BOTH)
    await until(lambda: len(network.running()) == 2)
    slot = run.current["gpu2"].slot
    network.hosts["gpu2"].lost = "gpu2 has a host key that is not known yet"
    await until(lambda: "gpu2" not in run.current)
    for number in (3, 4):
        await until(lambda: "gpu1" in network.running() or run.task.done())
        network.running()["gpu1"].end()
        await until(lambda number=number: len(network.launched) == number or run.task.done())
    await run.task
    assert slot in run.sweep.running, "it may go on there"
    assert slot not in run.sweep.outcomes
    assert run.left_running == [("gpu2", run.sweep.running[slot].session)]
    reasons = {outcome.reason for outcome in run.sweep.outcomes.values()}
    assert reasons == {None, network.hosts["gpu2"].lost}
    assert run.exit_code == 0


async def test_a_machine_whose_run_has_ended_begins_no_other_once_none_is_to_follow(
    sweeping, network
):
    run = sweeping(BOTH)
    await until(lambda: len(network.running()) == 2)
    run.stops_after_run = True
    network.running()["gpu1"].end()
    await until(lambda: "gpu1" not in run.current)
    # Where that is taken back, the other goes on.
    run.stops_after_run = False
    network.running()["gpu2"].end()
    await until(lambda: len(network.launched) == 3)
    network.running()["gpu2"].end()
    await run.task
    assert len(run.sweep.remaining()) == 1


async def test_a_run_without_what_was_to_be_set_in_it_has_no_figure(sweeping, network):
    run = sweeping({"host": ["gpu1"], "batch_size": [8]})
    await until(lambda: network.running())
    network.running()["gpu1"].session.header.injected["threads"] = 4
    network.running()["gpu1"].end()
    await run.task
    (outcome,) = run.sweep.outcomes.values()
    assert outcome.status == RunStatus.IMPOSSIBLE
    assert outcome.reason.startswith("set:threads was not applied")


async def test_where_the_sweep_can_not_be_recorded_all_machines_stop(
    sweeping, network, monkeypatch
):
    run = sweeping(BOTH)
    await until(lambda: len(network.running()) == 2)

    def refuse(event):
        raise LogError("the sweep can't be recorded any more: the disk is full")

    monkeypatch.setattr(run.writer, "write", refuse)
    network.running()["gpu1"].end()
    await run.task
    assert run.problem == "the sweep can't be recorded any more: the disk is full"
    assert run.exit_code == FAILED
    assert len(network.launched) == 2
    assert all("close" in host.calls for host in network.hosts.values())
