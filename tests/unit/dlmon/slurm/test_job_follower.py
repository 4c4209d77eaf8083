import time
from dataclasses import replace
from types import SimpleNamespace

import pytest
from fakes.recorded import BEGIN_NS, recorded_session, write_log
from fakes.submitted import Queue, submit

from dlmon.log.label import Label, write_label
from dlmon.log.log_follower import LogFollower
from dlmon.log.submitted import read_submitted
from dlmon.records import Status, StopCause, encode
from dlmon.slurm import job_follower as watching
from dlmon.slurm.commands import SlurmError
from dlmon.slurm.job_follower import (
    LATE_S,
    SELDOM_S,
    JobWatch,
    SharedQueue,
    SlurmFollower,
    WaitingSession,
    end_text,
    follow_session,
    last_line_of,
    next_session,
    stop_signal,
)
from dlmon.slurm.queue import JobState, QueuedJob
from dlmon.slurm.submit import OUTPUT_NAME


@pytest.fixture
def queue():
    return Queue()


@pytest.fixture
def log(tmp_path):
    return submit(tmp_path)


@pytest.fixture
def waiting(log, queue):
    return WaitingSession(log, read_submitted(log), queue.watch(), lambda: queue.now)


def test_it_waits_until_its_log_is_there(waiting, log):
    assert waiting.poll() is None
    log.write_text("")
    assert waiting.poll() is None
    log.write_text("{}\n")
    assert waiting.poll() == log
    assert waiting.failure is None


def test_a_job_that_is_over_has_some_time_to_show_its_log(waiting, queue, log):
    queue.becomes(JobState.COMPLETED, start_wall=1.0)
    assert waiting.poll() is None
    assert waiting.failure is None
    queue.now += LATE_S
    assert waiting.poll() is None
    assert waiting.failure == (
        f"job 12 ended before a session was seen here; does its node see {log.parent}?"
    )


def test_what_its_node_wrote_says_why(waiting, queue, log):
    log.with_name(OUTPUT_NAME).write_text("a\n\x1b[1mbash: python: not found\n\n")
    queue.becomes(JobState.FAILED, start_wall=1.0, exit_code=127)
    waiting.poll()
    queue.now += LATE_S
    waiting.poll()
    assert waiting.failure == (
        "job 12 failed with exit code 127 before the session began: bash: python: not found"
    )


def test_the_log_of_a_job_that_runs_and_is_not_seen_here_is_copied_from_its_node(
    waiting, queue, monkeypatch
):
    copied = []
    monkeypatch.setattr(
        watching, "copy_of", lambda log: SimpleNamespace(keep_running=copied.append)
    )
    waiting.poll()
    queue.becomes(JobState.RUNNING)
    waiting.poll()
    assert copied == []
    queue.now += LATE_S
    waiting.poll()
    assert copied == [queue.job]


def test_one_that_never_started_is_over_at_once(waiting, queue):
    queue.becomes(JobState.CANCELLED, cancelled_by=1000)
    waiting.poll()
    assert waiting.failure == "job 12 was cancelled by user 1000 before the session began"


def test_a_job_that_slurm_has_forgotten(waiting, queue):
    queue.becomes(None)
    waiting.poll()
    queue.now += LATE_S
    waiting.poll()
    assert waiting.failure == "Slurm has no job 12 any more, and no session began"


def test_a_slurm_that_does_not_answer_ends_nothing(waiting, queue):
    queue.refusal = SlurmError("no answer")
    queue.now += 1000
    assert waiting.poll() is None
    assert (waiting.failure, waiting.watch.problem) == (None, "no answer")


def test_its_number_may_come_later(tmp_path, monkeypatch, queue):
    log = submit(tmp_path, slurm_job=None)
    waiting = WaitingSession(log, read_submitted(log))
    assert waiting.poll() is None
    assert waiting.watch is None
    submit(tmp_path)
    monkeypatch.setattr(watching, "JobWatch", lambda number: queue.watch())
    waiting.poll()
    assert waiting.watch is not None
    assert waiting.submitted.slurm_job == "12"


def test_what_was_started_anew_before_it_began_has_another_log(waiting, queue, tmp_path, log):
    queue.becomes(JobState.RUNNING)
    queue.job = replace(queue.job, restarts=2)
    assert waiting.poll() is None
    again = submit(tmp_path, f"{log.parent.name}-r2", restart=2)
    again.write_text("")
    assert waiting.poll() == again


def test_a_queue_is_asked_every_other_second_and_later_less_often():
    now, asked = [0.0], []
    watch = JobWatch("12", asked.append, lambda: now[0])

    def look():
        watch.look()
        watch._thread.join()

    look()
    now[0] = 1.9
    look()
    assert asked == ["12"]
    now[0] = 2.0
    look()
    assert len(asked) == 2
    now[0] = 200.0
    look()
    now[0] += SELDOM_S - 0.1
    look()
    assert len(asked) == 3


def test_a_slow_controller_is_asked_once_at_a_time():
    asked = []

    def slow(number):
        asked.append(number)
        time.sleep(0.05)

    watch = JobWatch("12", slow, lambda: 1000.0 * len(asked))
    watch.look()
    watch.look()
    watch._thread.join()
    assert asked == ["12"]


@pytest.mark.parametrize(
    ("state", "fields", "says"),
    [
        (JobState.TIMEOUT, {}, "Slurm ended job 12 at its time limit"),
        (JobState.OUT_OF_MEMORY, {}, "job 12 ran out of memory"),
        (JobState.NODE_FAIL, {"node_list": "n2"}, "job 12 lost its node (n2)"),
        (JobState.FAILED, {"reason": "BadConstraints"}, "job 12 failed (BadConstraints)"),
        (JobState.PREEMPTED, {}, "job 12 gave its place to another job"),
        (JobState.PENDING, {}, "Slurm put job 12 back into the queue"),
        (JobState.UNKNOWN, {}, "job 12 is in a state that dlmon does not know"),
    ],
)
def test_each_end_has_its_words(state, fields, says):
    assert end_text(Queue(state, **fields).job) == says


def test_nothing_written_is_none(tmp_path):
    assert last_line_of(tmp_path / "no") is None
    (tmp_path / "empty").write_text("\n \n")
    assert last_line_of(tmp_path / "empty") is None


class Followed:
    """A session of another node, whose log is not locked as seen from here."""

    def __init__(self, tmp_path, monkeypatch, records, queue, **submitted):
        self.now = BEGIN_NS
        name = records[0].id
        submit(tmp_path, name, **submitted)
        self.path = tmp_path / name / "session.jsonl"
        self.path.write_bytes(encode(replace(records[0], host="n7")))
        self.rest = records[1:]
        monkeypatch.setattr(LogFollower, "writer_pid", lambda follower: None)
        self.follower = SlurmFollower(self.path, lambda: self.now, watch=queue.watch())

    def append(self, records):
        with self.path.open("ab") as file:
            file.write(b"".join(map(encode, records)))

    def poll_after(self, seconds):
        self.follower.poll()
        self.now += int(seconds * 1e9)
        self.follower.poll()
        return self.follower.status


@pytest.fixture
def followed(tmp_path, monkeypatch, queue):
    return Followed(tmp_path, monkeypatch, recorded_session(samples=3_000), queue)


def test_a_session_of_another_node_runs_as_long_as_its_job(followed, queue):
    queue.becomes(JobState.RUNNING)
    assert followed.poll_after(1000) == Status.RUNNING
    queue.becomes(JobState.NODE_FAIL, node_list="n7")
    assert followed.poll_after(LATE_S) == Status.INTERRUPTED
    assert followed.follower.problem == (
        "interrupted: job 12 lost its node (n7), and no result could be recorded"
    )


def test_its_result_counts_whatever_the_queue_says(followed, queue):
    queue.becomes(JobState.RUNNING)
    followed.append(followed.rest)
    followed.follower.poll()
    followed.follower.poll()
    assert followed.follower.status == Status.COMPLETED
    asked = queue.asked
    followed.follower.poll()
    assert queue.asked == asked


def test_what_its_node_keeps_to_itself_is_copied_while_the_job_runs(tmp_path, monkeypatch, queue):
    copied = []
    monkeypatch.setattr(
        watching, "copy_of", lambda log: SimpleNamespace(keep_running=copied.append)
    )
    records = recorded_session(samples=3_000)
    followed = Followed(tmp_path, monkeypatch, records, queue, on_node="n7")
    queue.becomes(JobState.RUNNING)
    assert followed.poll_after(1000) == Status.RUNNING
    assert copied[0] == queue.job
    queue.becomes(JobState.COMPLETED)
    assert followed.poll_after(LATE_S) == Status.INTERRUPTED
    assert followed.follower.problem == (
        "interrupted: job 12 ended, and what n7 recorded last could not be copied from it"
    )


def test_what_comes_late_is_waited_for(followed, queue):
    queue.becomes(JobState.COMPLETED)
    assert followed.poll_after(LATE_S / 2) == Status.RUNNING
    followed.append(followed.rest)
    followed.follower.poll()
    assert followed.follower.status == Status.COMPLETED


def test_without_slurm_it_is_unknown(followed, queue):
    queue.refusal = SlurmError("there is no Slurm here")
    assert followed.poll_after(1) == Status.UNKNOWN


def test_where_another_process_took_its_place_it_is_over(followed, queue):
    queue.becomes(JobState.RUNNING)
    queue.job = replace(queue.job, restarts=1)
    assert followed.poll_after(LATE_S) == Status.INTERRUPTED
    assert "back into the queue" in followed.follower.problem


def test_it_is_stopped_by_a_signal_to_its_script_alone(followed, queue, monkeypatch):
    sent = []
    monkeypatch.setattr(watching, "cancel", lambda *words: sent.append(words))
    queue.becomes(JobState.RUNNING)
    followed.follower.poll()
    assert followed.follower.stop()
    assert sent == [("12", "USR1")]


def test_no_signal_of_the_script_s_own_stops_it():
    assert stop_signal(None, by_command=True) == "USR2"
    assert stop_signal("USR2", by_command=True) == "USR1"
    assert stop_signal("USR1", by_command=False) == "USR2"


def test_what_follows_a_log_depends_on_what_lies_beside_it(tmp_path):
    plain = follow_session(write_log(tmp_path, recorded_session(samples=100)))
    assert type(plain).__name__ == "SessionFollower"


def test_after_a_requeue_the_next_session_is_waited_for(followed, queue, monkeypatch):
    monkeypatch.setattr(watching, "QUEUED_AGAIN_S", (0.0, 0.0))
    monkeypatch.setattr(watching, "read_job", queue)
    *rest, result = followed.rest
    stopped = replace(result, status=Status.STOPPED, stopped_by=StopCause.REQUEUED)
    followed.append([*rest, stopped])
    followed.follower.poll()
    assert next_session(followed.follower) is None
    queue.job = replace(queue.job, restarts=1)
    waiting = next_session(followed.follower)
    assert waiting.log.parent.name == f"{followed.path.parent.name}-r1"
    assert waiting.submitted.restart == 1


def test_after_any_other_end_slurm_is_not_asked(followed, queue, monkeypatch):
    monkeypatch.setattr(watching, "read_job", pytest.fail)
    followed.append(followed.rest)
    followed.follower.poll()
    assert next_session(followed.follower) is None
    write_label(followed.path, Label("base"))


def test_the_tasks_of_an_array_ask_the_queue_once_for_all(monkeypatch):
    monkeypatch.setattr(watching, "read_accounts", lambda number: None)
    now, asked = [0.0], []

    def read(arrays):
        asked.append(set(arrays))
        tasks = ((f"{20 + task}", task) for task in range(2))
        return [
            QueuedJob(id, JobState.RUNNING, array_job="7", array_task=task) for id, task in tasks
        ]

    queue = SharedQueue(read, lambda: now[0])
    assert [queue.job(f"7_{task}").id for task in range(2)] == ["20", "21"]
    assert queue.job("7_9") is None
    assert asked == [{"7"}]
    queue.job("8_0")
    assert asked[1:] == [{"7", "8"}]
    now[0] = 2.0
    queue.job("7_1")
    assert len(asked) == 3
