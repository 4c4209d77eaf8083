"""Of a real run it is said where it is while no batch comes, and what it does when it is asked."""

from __future__ import annotations

import json
import re
import sys

import pytest
from fakes.sessions import eventually

from dlmon.log.directory import list_sessions, stop_session
from dlmon.records import Notice, SourceLines, Stack, decode

TRAIN = """
import dlmon, os, sys, threading, time

def steps(count):
    for _ in range(count):
        time.sleep(0.01)
        dlmon.step()

{functions}

def train(*pauses):
    with dlmon.training(samples=640, batch_size=8, epochs=1):
        for pause in pauses:
            steps(30)
            pause()
        steps(30)

{call}
"""
PAUSES = """
def sleeps():
    time.sleep(1.5)

def waits_for_a_lock():
    lock = threading.Lock()
    lock.acquire()
    threading.Timer(1.5, lock.release).start()
    lock.acquire()

def waits_in_the_standard_library():
    threading.Event().wait(1.5)

def computes():
    end = time.time() + 1.5
    while time.time() < end: pass

def waits_for_a_child():
    pid = os.fork()
    if pid == 0:
        time.sleep(1.5)
        os._exit(0)
    os.waitpid(pid, 0)
"""
NAMES = re.findall(r"def (\w+)", PAUSES)
FAULTHANDLER = """
import faulthandler
faulthandler.enable()
faulthandler.dump_traceback_later(0.5, file=open("own", "w"))
"""


@pytest.fixture(autouse=True)
def log_dir(tmp_path, monkeypatch, shared_cache):
    monkeypatch.setenv("XDG_CACHE_HOME", shared_cache)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "state" / "dlmon" / "sessions"


def records_of(log_dir):
    [entry] = list_sessions(log_dir)
    return [decode(line) for line in entry.path.read_bytes().splitlines()]


def pauses_named(dlmon, log_dir, tmp_path, functions, call):
    """Run a script, and check that each pause is said with its line; return where they were."""
    (tmp_path / "train.py").write_text(TRAIN.format(functions=functions, call=call))
    done = dlmon("exec", "--plain", "--verbose", "--", sys.executable, "train.py")
    assert done.returncode == 0, done.stderr
    stacks = [
        each
        for each in records_of(log_dir)
        if isinstance(each, Stack) and not each.goes_on and each.t - each.begin > 10**9
    ]
    assert all(each.places[0].looks > each.looks / 2 for each in stacks)
    said = [line for line in done.stderr.splitlines() if "without a batch at" in line]
    assert all(": train.py:" in line for line in said)
    named = [each.places[0].script.function for each in stacks]
    # Those that took longest.
    assert len(said) == min(3, len(named))
    assert {re.search(r" in (\w+)", line)[1] for line in said} <= set(named)
    return named


def test_the_line_of_each_pause_is_named_whatever_it_waits_for(dlmon, log_dir, tmp_path):
    call = f"train({', '.join(NAMES)})"
    assert pauses_named(dlmon, log_dir, tmp_path, PAUSES, call) == NAMES


def test_in_a_thread_and_beside_a_faulthandler_of_its_own_it_is_named_too(dlmon, log_dir, tmp_path):
    call = "thread = threading.Thread(target=train, args=[sleeps])\nthread.start()\nthread.join()"
    functions = FAULTHANDLER + PAUSES
    assert pauses_named(dlmon, log_dir, tmp_path, functions, call) == ["sleeps"]
    # It wrote as it would have alone.
    assert "in train" in (tmp_path / "own").read_text()


def test_a_script_that_ends_hard_in_a_pause_says_where_it_was(dlmon, log_dir, tmp_path):
    text = TRAIN.format(
        functions="def pause():\n    time.sleep(2.5)\n    os._exit(3)", call="train(pause)"
    )
    (tmp_path / "train.py").write_text(text)
    done = dlmon("exec", "--plain", "--verbose", "--", sys.executable, "train.py")
    assert done.returncode == 3
    [said] = [line for line in done.stderr.splitlines() if "without a batch" in line]
    assert " in pause (" in said
    seen = [each for each in records_of(log_dir) if isinstance(each, Stack)]
    assert seen[-1].places[0].script.function == "pause"


def test_a_run_that_hangs_is_asked_where_it_is_and_what_can_not_be_profiled(
    dlmon, log_dir, tmp_path
):
    text = TRAIN.format(functions="def pause():\n    time.sleep(600)", call="train(pause)")
    (tmp_path / "train.py").write_text(text)
    started = dlmon("exec", "--detach", "--", sys.executable, "train.py")
    assert started.returncode == 0, started.stderr
    [entry] = list_sessions(log_dir)
    try:
        eventually(lambda: b'"stack"' in entry.path.read_bytes(), "a pause")
        shown = dlmon("stack", "last")
        assert "train.py:" in shown.stdout.splitlines()[0], shown.stderr
        assert " in pause" in shown.stdout.splitlines()[0]
        [process] = json.loads(dlmon("stack", "last", "--json").stdout)
        script = process["threads"][0]["script"]
        assert script["function"] == "pause"
        eventually(lambda: b'"source_lines"' in entry.path.read_bytes(), "the source")
        # Those of its callers are there too.
        read = [each for each in records_of(log_dir) if isinstance(each, SourceLines)]
        [source] = [each for each in read if each.line == script["line"]]
        assert source.lines[source.line - source.first] == "    time.sleep(600)"
        assert source.changed is None
        refused = dlmon("profile", "last")
        assert refused.returncode == 2
        assert "it uses none of PyTorch, JAX and TensorFlow" in refused.stderr
    finally:
        [entry] = list_sessions(log_dir)
        stop_session(entry)
        eventually(lambda: list_sessions(log_dir)[0].result is not None, "the end")
    # Who ended it reads where it hung.
    report = dlmon("report", "last", "--format", "md", "-o", "-").stdout
    assert any(" in pause (" in line for line in report.splitlines() if "without a batch" in line)
    report = dlmon("report", "last", "--full", "--format", "md", "-o", "-").stdout
    assert re.search(r"^▶ +\d+ +time\.sleep\(600\)$", report, re.MULTILINE)
    over = dlmon("stack", "last")
    assert (over.returncode, over.stdout) == (2, "")
    assert "is not running: stopped" in over.stderr
    assert not [
        each for each in records_of(log_dir) if isinstance(each, Notice) and "refused" in each.text
    ]


FAILS = """
import json

def read(text):
    return json.loads(text)

def load():
    try:
        read("{")
    except ValueError as error:
        raise RuntimeError("[bold]no[/] \x1b[31msample") from error

load()
"""


def test_the_traceback_of_a_run_that_failed_is_in_its_report(dlmon, tmp_path):
    (tmp_path / "train.py").write_text(FAILS)
    assert dlmon("exec", "--plain", "--", sys.executable, "train.py").returncode == 1
    report = dlmon("report", "last", "--full", "--format", "md", "-o", "-").stdout.splitlines()
    begin = report.index("train.py:9 in load")
    told = report[begin : report.index("```", begin)]
    assert told[:4] == [
        *(
            "train.py:9 in load",
            '    read("{")',
            "train.py:5 in read",
            "    return json.loads(text)",
        ),
    ]
    assert told[4] == "… 2 frames in json"
    assert told[5].startswith("json/decoder.py:")
    assert told[-6:] == [
        "The above exception was the direct cause of the following exception:",
        *("train.py:13", "    load()", "train.py:11 in load"),
        '    raise RuntimeError("[bold]no[/] sample") from error',
        "RuntimeError: [bold]no[/] sample",
    ]
