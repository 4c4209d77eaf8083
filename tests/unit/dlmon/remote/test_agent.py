"""What runs on a box beside real sessions: which logs are looked at, and how often."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import replace

import pytest
from fakes.recorded import recorded_session, write_log
from fakes.screens import GrowingLog
from fakes.scripts import script_session

from dlmon.host import boot_id, host_name
from dlmon.records import Cpu, Machine, Model
from dlmon.records.codec import decode
from dlmon.remote import agent
from dlmon.remote.agent import RunningLogs


def session(name):
    header, *records = recorded_session(session_id=name)
    return [replace(header, host=host_name(), boot_id=boot_id()), *records]


@pytest.fixture
def read(monkeypatch):
    """Return the logs that were read."""
    logs = []

    def read_entry(path):
        logs.append(path)
        return entry(path)

    entry = agent.read_entry
    monkeypatch.setattr(agent, "read_entry", read_entry)
    return logs


def test_a_session_that_is_over_is_read_once(tmp_path, read):
    over = write_log(tmp_path, session("over"), "over")
    logs = RunningLogs(tmp_path)
    assert logs.find() == []
    assert logs.find() == []
    assert read == [over]


def test_what_has_begun_since_is_found_until_it_is_over(tmp_path):
    logs = RunningLogs(tmp_path)
    assert logs.find() == []
    (tmp_path / "unfinished").mkdir()
    (tmp_path / "unfinished" / "session.jsonl").touch()
    assert logs.find() == []
    begun = GrowingLog(tmp_path, session("begun")[:5])
    try:
        assert logs.find() == [begun.path]
        assert logs.find() == [begun.path]
    finally:
        begun.drop_lock()
    assert logs.find() == []


def test_where_nothing_was_ever_recorded_nothing_runs(tmp_path):
    assert RunningLogs(tmp_path / "nowhere").find() == []


def test_a_sample_s_time_is_sent_in_whole_milliseconds(monkeypatch):
    """What two machines' clocks can't tell apart would be three bytes a sample."""

    class Samples:
        pids = ()

        def __init__(self, interval_s, on_facts, on_sample, on_notice, **_):
            self._on_sample = on_sample

        def start(self):
            self._on_sample(Machine(t=2_195_331_256_705, wall=1.0, cpu=Cpu(pct=3.0)))

        def close(self):
            pass

    monkeypatch.setattr(agent, "Sensing", Samples)

    async def first():
        async with aclosing(agent._watch()) as sent:
            return decode((await anext(sent))["record"])

    sample = asyncio.run(first())
    assert (sample.t, sample.cpu.pct) == (2_195_331_000_000, 3.0)


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


def test_what_a_session_does_now_is_sent_and_nothing_that_it_did_before(tmp_path, monkeypatch):
    """Each record is a slice of its own, as in a log that takes long to read."""
    monkeypatch.setattr(agent, "SLICE_S", 0.0)
    records = recorded_session("training", session_id="runs")
    first, second = sent_of(tmp_path, records)
    assert (first["session"], first["phase"], first.get("epoch")) == (
        "runs",
        "reading the log",
        None,
    )
    assert (second["session"], second["phase"], second["epoch"]) == ("runs", "training", 2)


@pytest.mark.parametrize("has_epochs", [None, False])
def test_a_loop_that_has_no_epochs_is_sent_as_in_none(tmp_path, has_epochs):
    records = [
        replace(record, has_epochs=has_epochs, mode="train")
        if isinstance(record, Model)
        else record
        for record in recorded_session("training", session_id="runs")
    ]
    *_, sent = sent_of(tmp_path, records)
    assert (sent["epoch"], sent["epochs"]) == ((None, None) if has_epochs is False else (2, 3))
    assert (sent["phase"], sent["mode"]) == ("training", "train")


def test_a_throughput_of_steps_is_sent_as_one(tmp_path):
    *_, sent = sent_of(tmp_path, script_session(samples=None))
    assert sent["counts_steps"] is True
