"""What runs on a box beside real sessions: which logs are looked at, and how often."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import pytest
from fakes.recorded import recorded_session
from fakes.screens import GrowingLog
from fakes.submitted import Queue, submit

import dlmon.session.follower
from dlmon.protocol.job import Job
from dlmon.records import Batches, Machine, Model, Status, StopCause, read_object
from dlmon.records.codec import encode
from dlmon.remote import agent
from dlmon.remote.ssh import HostRefusal
from dlmon.session import running_sessions
from dlmon.session.follower import SessionFollower
from dlmon.slurm import job_follower as watch
from dlmon.slurm import standing
from dlmon.slurm.commands import SlurmError
from dlmon.slurm.queue import JobState, Queued
from dlmon.system.this_host import boot_id, host_name


def session(name):
    header, *records = recorded_session(session_id=name)
    return [replace(header, host=host_name(), boot_id=boot_id()), *records]


def sent_of(tmp_path, records):
    """Return what a box says of a session that runs on it, until it has read its log."""
    header = replace(records[0], host=host_name(), boot_id=boot_id())
    log = GrowingLog(tmp_path, [header, *records[1:]])

    async def answered():
        said = []
        async with aclosing(agent._running(str(tmp_path))) as sent:
            while not said or said[-1]["phase"] == "reading the log":
                said.append((await anext(sent))["sessions"][0])
        return said

    try:
        return asyncio.run(answered())
    finally:
        log.drop_lock()


@pytest.mark.parametrize(("has_epochs", "epochs"), [(None, (2, 3)), (False, (None, None))])
def test_what_a_session_does_now_is_sent_and_nothing_that_it_did_before(
    tmp_path, monkeypatch, has_epochs, epochs
):
    """Each record is a slice of its own, as in a log that takes long to read."""
    monkeypatch.setattr(running_sessions, "SLICE_S", 0.0)
    monkeypatch.setattr(dlmon.session.follower, "AT_ONCE", 1)
    of_model = {"has_epochs": has_epochs, "mode": "train"}
    records = recorded_session("training", session_id="runs")
    first, then = sent_of(
        tmp_path, [replace(r, **of_model) if isinstance(r, Model) else r for r in records]
    )
    assert (first["session"], first["phase"]) == ("runs", "reading the log")
    assert first.get("epoch") is None
    assert (then["session"], then["phase"], then["mode"]) == ("runs", "training", "train")
    assert (then["epoch"], then["epochs"]) == epochs


def test_a_session_whose_next_step_is_overdue_is_not_sent_as_one_that_just_trains(
    tmp_path, monkeypatch
):
    records = recorded_session("training", session_id="runs")
    last_t = max(record.t for record in records if isinstance(record, (Machine, Batches)))
    reading = next(record for record in records if isinstance(record, Machine))
    later = [replace(reading, t=last_t + second * 10**9) for second in range(1, 21)]
    for more, now, overdue_s in (([], last_t, None), (later, later[-1].t, 20)):
        monkeypatch.setattr(
            running_sessions, "SessionFollower", partial(SessionFollower, clock=lambda now=now: now)
        )
        *_, said = sent_of(tmp_path / str(overdue_s), [*records, *more])
        assert said["phase"] == "training"
        assert said["overdue_s"] == overdue_s


# ---- a session that is followed ----


class Followed:
    """A session that is followed by a viewer: its locked log, and what was sent of it."""

    def __init__(self, tmp_path):
        self.records = session("runs")
        self.log = GrowingLog(tmp_path, self.records[:5])
        self.path, self.texts, self.said, self._file = self.log.path, {}, [], ""
        self._answers = agent._follow("runs", "session.jsonl", log_dir=str(tmp_path))

    @property
    def standings(self):
        return [(a["status"], a["loss"]) for a in self.said if "status" in a]

    async def until(self, is_enough):
        """Take answers until there are enough."""
        async with asyncio.timeout(20):
            while not is_enough():
                self._take(await anext(self._answers))

    async def until_end(self):
        async with asyncio.timeout(20):
            async for answer in self._answers:
                self._take(answer)

    def _take(self, answer):
        if "text" in answer:
            self.texts[self._file] += answer["text"].encode("latin-1")
            return
        self.said.append(answer)
        if "file" in answer:
            self._file = answer["file"]
            self.texts.setdefault(self._file, b"")

    async def close(self):
        await self._answers.aclose()
        if self.log.is_locked:
            self.log.drop_lock()


@pytest.fixture
def followed(tmp_path, monkeypatch):
    """Return a function that runs a coroutine with a `Followed`, and returns that."""
    monkeypatch.setattr(agent, "POLL_S", 0.005)

    def run(play):
        async def playing():
            shown = Followed(tmp_path)
            try:
                await shown.until(lambda: shown.standings == [("running", None)])
                await play(shown)
            finally:
                await shown.close()
            return shown

        return asyncio.run(playing())

    return run


@pytest.mark.parametrize(
    ("lose", "said"),
    [
        (lambda log: log.unlink(), "was removed"),
        (lambda log: log.parent.rename(log.parents[1] / "elsewhere"), "was moved away"),
    ],
)
def test_a_log_that_is_gone_stands_as_its_lock_says(followed, lose, said):
    async def play(shown):
        lose(shown.path)
        await shown.until(lambda: shown.standings[-1] == ("running", said))
        shown.log.drop_lock()
        await shown.until_end()

    assert followed(play).standings[-1] == ("interrupted", said)


def test_what_is_written_to_a_removed_log_is_sent_with_its_result(followed):
    async def play(shown):
        with shown.path.open("ab") as log:
            shown.path.unlink()
            log.write(b"".join(map(encode, shown.records[5:])))
        await shown.until(lambda: shown.standings[-1] == ("completed", "was removed"))
        shown.log.drop_lock()
        await shown.until_end()

    shown = followed(play)
    assert shown.texts == {"session.jsonl": b"".join(map(encode, shown.records))}


# ---- a session that Slurm is to run ----


def ask(function, **fields):
    """Return all that a box answers."""

    async def asked():
        return [answer async for answer in function(**fields)]

    return asyncio.run(asked())


def test_a_job_for_slurm_is_submitted_with_the_paths_of_this_machine(tmp_path, monkeypatch):
    submitted = []

    def submit(job, options, text):
        submitted.append((job, options.words, text))
        return tmp_path / "its-id" / "session.jsonl"

    monkeypatch.setattr(agent, "submit_session", submit)
    job = Job("train.py", ("python", "train.py"), {}, str(tmp_path), script=True, directory="runs")
    [answer] = ask(agent._launch, job=asdict(job), slurm="-p gpu")
    [(job, words, text)] = submitted
    assert (answer["session"], words, text) == ("its-id", ("-p", "gpu"), "-p gpu")
    assert (job.directory, job.command) == (str(Path.home() / "runs"), ("python", "train.py"))
    workload = Job("mnist-mlp-small", (), {"workload": "mnist-mlp-small"}, str(tmp_path))
    monkeypatch.setattr(agent.importlib.util, "find_spec", pytest.fail)
    ask(agent._launch, job=asdict(workload), slurm="")
    assert "workloads" in " ".join(submitted[-1][0].command)
    with pytest.raises(SlurmError, match="leave --wrap out"):
        ask(agent._launch, job=asdict(workload), slurm="--wrap=ls")


@pytest.fixture
def queue(monkeypatch):
    asked = Queue(reason="Priority")
    monkeypatch.setattr(watch, "JobWatch", lambda number: asked.watch())
    monkeypatch.setattr(watch, "read_job", asked)
    return asked


def test_a_session_in_the_queue_is_said_to_wait_and_then_followed_and_then_what_it_becomes(
    tmp_path, monkeypatch, queue
):
    monkeypatch.setattr(agent, "POLL_S", 0.005)
    first = "20261127-190000-train-py-1a2b"
    log = submit(tmp_path, first)
    *records, result = recorded_session(samples=100, session_id=first)
    again = replace(result, status=Status.STOPPED, stopped_by=StopCause.REQUEUED)

    async def follow():
        said = []
        answers = agent._follow(first, "session.jsonl", log_dir=str(tmp_path))
        async for answer in answers:
            said.append(answer)
            if "queued" in answer:
                queue.job = replace(queue.job, restarts=1)
                log.write_bytes(b"".join(map(encode, [*records, again])))
        return said

    said = asyncio.run(asyncio.wait_for(follow(), 20))
    queued = read_object(Queued, said[0]["queued"])
    assert (queued.number, queued.job.reason, queued.options) == ("12", "Priority", "-p gpu")
    assert said[1]["file"] == "session.jsonl"
    assert said[2] == {"next": f"{first}-r1"}
    assert said[-1] == {"status": "stopped", "loss": None}
    # Its result comes after that.
    assert b"requeued" in said[-2]["text"].encode()
    # It is listed once it is known to come.
    [listed] = ask(agent._sessions, log_dir=str(tmp_path), meant=f"{first}-r1")
    assert (listed["folder"], listed["status"]) == (f"{first}-r1", "queued")


def test_one_whose_job_is_cancelled_never_begins(tmp_path, queue):
    submit(tmp_path)
    queue.becomes(JobState.CANCELLED)
    with pytest.raises(HostRefusal, match="job 12 was cancelled before the session began"):
        ask(agent._follow, session="last", file="session.jsonl", log_dir=str(tmp_path))


def test_one_that_waits_is_taken_out_of_the_queue(tmp_path, monkeypatch):
    cancelled = []
    monkeypatch.setattr(standing, "cancel", lambda *words: cancelled.append(words))
    submit(tmp_path)
    [answer] = ask(agent._stop, session="last", log_dir=str(tmp_path))
    assert cancelled == [("12", None)]
    assert answer["said"] == "is cancelled: job 12 is out of the queue"
