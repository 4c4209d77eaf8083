"""The end of a session whose tracker does not answer."""

import asyncio

from fakes.sweeps import result_of

from dlmon.protocol.job import Job
from dlmon.supervisor import tracker_process
from dlmon.supervisor.tracker_process import TrackerFeed


async def test_a_run_that_waits_for_its_tracker_says_so(monkeypatch, tmp_path):
    hangs = ["sh", "-c", "exec sleep 600"]
    monkeypatch.setattr(tracker_process, "python_command", lambda module: hangs)
    monkeypatch.setattr(tracker_process, "_SILENT_S", 0.01)
    said, hurry = [], asyncio.Event()

    def notice(text):
        said.append(text)
        hurry.set()

    log = tmp_path / "s0" / "session.jsonl"
    feed = TrackerFeed("trackio", Job("train.py", (), {}, str(tmp_path)), log, notice)
    await feed.finish(result_of(1.0), hurry)
    assert said[0] == "the run is over, and waits up to 15 s for trackio"
    assert "not all was sent to trackio" in said[1]
    assert feed._process.wait() != 0
