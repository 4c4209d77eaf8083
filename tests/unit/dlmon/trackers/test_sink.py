"""A log is sent once and in order, however the tracker behaves."""

import json
from pathlib import Path

import pytest

from dlmon.records import Notice, TrackerRun, encode
from dlmon.trackers import sink as sink_module
from dlmon.trackers.sink import PAUSES_S, Sink
from dlmon.trackers.tracker_address import address_of_tracker
from dlmon.trackers.tracker_connection import TrackerError

LOG = Path(__file__).parents[3] / "golden" / "sessions" / "pytorch-stalls" / "session.jsonl"


class Tracker:
    """A tracker that takes messages, or raises errors as it is told."""

    def __init__(self):
        self.errors, self.messages, self.starts, self.ends = [], [], 0, 0

    def start(self, python, directory):
        self.starts += 1
        return self

    def ask(self, message, until_s):
        if self.errors and (error := self.errors.pop(0)) is not None:
            raise error
        self.messages.append(message)

    def close(self, wait_s=0.0):
        self.ends += 1

    @property
    def numbers(self):
        return [row.number for m in self.messages for row in m.get("rows", ())]


@pytest.fixture
def tracker():
    return Tracker()


@pytest.fixture
def clock():
    class Clock:
        now_s = 0.0

        def __call__(self):
            return self.now_s

    return Clock()


@pytest.fixture
def said():
    return []


@pytest.fixture
def sink(tracker, clock, said):
    to = address_of_tracker("tensorboard:there")
    return Sink(LOG, to, said.append, clock=clock, start=tracker.start)


def steps(sink):
    while sink.step():
        pass


def test_all_rows_are_sent_once_and_then_the_outcome(sink, tracker, said):
    steps(sink)
    assert sink.end(grace_s=10)
    first, *_, last = tracker.messages
    assert (first["tracker"], first["place"], first["again"]) == ("tensorboard", "there", False)
    assert tracker.numbers == list(range(1, len(tracker.numbers) + 1))
    assert last["figures"]["dlmon/final/batches"] == 600
    assert (tracker.starts, said) == (1, [])


def test_a_tracker_that_is_down_is_tried_after_longer_and_longer_pauses(sink, tracker, clock, said):
    tracker.errors = [TrackerError("it does not answer")] * 3
    for pause_s in PAUSES_S[:3]:
        starts = tracker.starts
        sink.step()
        assert tracker.starts == starts + 1
        clock.now_s += pause_s - 0.1
        sink.step()
        assert tracker.starts == starts + 1
        clock.now_s += 0.2
    steps(sink)
    assert sink.end(grace_s=10)
    assert said == [
        "nothing is sent to tensorboard:there for now: it does not answer",
        "tensorboard:there takes what is measured again",
    ]
    assert tracker.numbers == list(range(1, len(tracker.numbers) + 1))


def test_rows_that_failed_are_sent_again_by_a_new_process(sink, tracker, clock):
    tracker.errors = [None, TrackerError("its process has ended")]
    steps(sink)
    clock.now_s += PAUSES_S[0]
    steps(sink)
    assert sink.end(grace_s=10)
    assert tracker.numbers == list(range(1, len(tracker.numbers) + 1))
    assert [m["again"] for m in tracker.messages if "again" in m] == [False, True]


def test_a_refusal_that_lasts_is_said_once_and_nothing_is_tried_again(sink, tracker, clock, said):
    tracker.errors = [TrackerError("it has no key", lasts=True)]
    steps(sink)
    clock.now_s += 1000
    steps(sink)
    assert not sink.end(grace_s=10)
    assert (tracker.starts, said) == (1, ["nothing is sent to tensorboard:there: it has no key"])


def test_a_tracker_that_is_down_at_the_end_costs_the_run_nothing(sink, tracker):
    tracker.errors = [TrackerError("it does not answer")] * 100
    steps(sink)
    assert not sink.end(grace_s=10)
    assert tracker.starts == 1


def test_what_is_sent_after_the_end_of_the_run_has_until_the_end_of_its_grace(sink, tracker, clock):
    untils = []
    ask = tracker.ask
    tracker.ask = lambda message, until_s: (untils.append(until_s), ask(message, until_s))
    clock.now_s = 5.0
    assert sink.end(grace_s=10)
    assert set(untils) == {15.0}


def test_an_id_that_was_forged_names_no_other_folder(tmp_path, tracker, said, clock):
    header, rest = LOG.read_text().split("\n", 1)
    log = tmp_path / "session.jsonl"
    log.write_text(json.dumps({**json.loads(header), "id": "../../x'"}) + "\n" + rest)
    to = address_of_tracker("tensorboard:there")
    sink = Sink(log, to, said.append, clock=clock, start=tracker.start)
    assert sink.end(grace_s=10)
    assert tracker.messages[0]["id"] == "______x_"


@pytest.fixture
def sink_of(tmp_path, tracker, said, clock, monkeypatch):
    """Return a function that makes a sink of the log with one more record."""
    monkeypatch.setattr(sink_module, "python_with", lambda library, pythons: pythons[-1])

    def make(to, run, after=0):
        header, *lines = LOG.read_text().splitlines()
        lines.insert(after, encode(run).decode().strip())
        log = tmp_path / "session.jsonl"
        log.write_text("\n".join((header, *lines, "")))
        return Sink(log, address_of_tracker(to), said.append, clock=clock, start=tracker.start)

    return make


def first_batches():
    lines = LOG.read_text().splitlines()[1:]
    return next(n for n, line in enumerate(lines) if '"type":"batches"' in line.replace(" ", ""))


@pytest.mark.parametrize("is_live", [True, False])
def test_rows_go_into_the_scripts_own_run(sink_of, tracker, is_live):
    sink = sink_of("trackio", TrackerRun(1, "trackio", "c3", "mine", "sun"), first_batches())
    if is_live:
        steps(sink)
    assert sink.end(grace_s=10)
    assert tracker.messages[0]["own"] == {"id": "c3", "place": "mine", "name": "sun"}
    assert tracker.numbers == list(range(1, len(tracker.numbers) + 1))


@pytest.mark.parametrize(
    ("to", "run"),
    [
        ("trackio:other", TrackerRun(1, "trackio", "c3", "mine", "sun")),
        ("trackio", TrackerRun(1, "mlflow", "c3")),
        ("trackio", TrackerRun(1, "trackio", "c3", "mine", "sun", trainer=1)),
    ],
)
def test_another_run_of_the_script_is_left_alone(sink_of, tracker, to, run):
    sink = sink_of(to, run)
    steps(sink)
    assert sink.end(grace_s=10)
    assert tracker.messages[0]["own"] is None


def test_nothing_is_sent_to_a_run_of_wandb_while_the_script_writes_to_it(sink_of, tracker, said):
    sink = sink_of("wandb", TrackerRun(1, "wandb", "a1", "lab/p"))
    steps(sink)
    assert tracker.starts == 0
    assert said == [
        "what is measured goes into the script's own W&B run a1 when the script has ended: a run "
        "takes one writer at a time"
    ]
    assert sink.end(grace_s=10)
    assert (tracker.messages[0]["own"]["id"], len(said)) == ("a1", 1)
    assert tracker.numbers == list(range(1, len(tracker.numbers) + 1))


def test_a_queue_that_is_full_waits_for_the_end_without_reading_on(sink_of, monkeypatch):
    monkeypatch.setattr(sink_module, "_MOST_WAITING", 3)
    sink = sink_of("wandb", TrackerRun(1, "wandb", "a1", "lab/p"))
    steps(sink)
    assert sink.end(grace_s=10)


def test_a_script_in_which_no_step_is_seen_is_sent_after_a_while(
    sink_of, tracker, monkeypatch, tmp_path
):
    sink = sink_of("trackio", Notice(1, "nothing"))
    log = tmp_path / "session.jsonl"
    lines = log.read_text().splitlines()
    log.write_text("".join(f"{line}\n" for line in lines if '"batch' not in line[:20]))
    steps(sink)
    assert tracker.starts == 0
    monkeypatch.setattr(sink_module, "NO_STEP_S", 0.0)
    steps(sink)
    assert tracker.starts == 1
    assert sink.end(grace_s=10)
