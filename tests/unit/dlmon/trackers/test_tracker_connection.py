"""The process of a tracker: in which Python, asked in time, and what it tells of errors."""

import contextlib
import json
import sys
import time

import pytest

from dlmon.trackers import tracker_connection
from dlmon.trackers.tracker_connection import (
    TrackerError,
    TrackerProcess,
    python_of_script,
    python_with,
)

BEGIN = {
    "place": "",
    "id": "a-session",
    "name": "mine",
    "wall": 1.7e9,
    "facts": {},
    "again": False,
    "own": None,
}


@pytest.fixture
def library(tmp_path, monkeypatch):
    """Return a function that makes a library, which the process imports."""

    def write(text, name="trackio"):
        (tmp_path / f"{name}.py").write_text(text)
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    return write


@pytest.fixture
def start():
    """Return a function that starts the process, once the library is written."""
    with contextlib.ExitStack() as ends:

        def begin():
            process = TrackerProcess(sys.executable, None)
            ends.callback(process.close, 0.0)
            return process

        yield begin


def soon(seconds=60.0):
    return time.monotonic() + seconds


def test_a_library_that_hangs_is_left_in_time_and_ended(library, tmp_path):
    library("import time\ndef init(**_): time.sleep(1000)")
    process = TrackerProcess(sys.executable, None)
    try:
        with pytest.raises(TrackerError, match="does not answer"):
            process.ask({"tracker": "trackio", **BEGIN}, soon(0.2))
    finally:
        began = time.monotonic()
        process.close(0.0)
    assert time.monotonic() - began < 30


def test_what_a_library_prints_and_the_text_of_its_error_stay_with_it(library, start):
    library(
        'import sys\nprint(\'{"error": "s3cret"}\')\n'
        "def init(**_): raise RuntimeError('key s3cret is wrong')"
    )
    with pytest.raises(TrackerError) as refused:
        start().ask({"tracker": "trackio", **BEGIN}, soon())
    assert str(refused.value) == "it can't be reached, or refuses (RuntimeError)"


def test_without_the_library_another_try_is_useless(start):
    with pytest.raises(TrackerError, match="trackio can't be imported") as refused:
        start().ask({"tracker": "trackio", **BEGIN}, soon())
    assert refused.value.lasts


def test_a_library_that_ends_the_process_is_noticed(library, start):
    library("import os\ndef init(**_): os._exit(3)")
    with pytest.raises(TrackerError, match="has ended"):
        start().ask({"tracker": "trackio", **BEGIN}, soon())


def test_rows_and_the_end_reach_the_library(library, start, tmp_path):
    library(
        "import json\nclass Run:\n"
        "    def log(self, values, step): print(json.dumps([values, step]), file=out)\n"
        "    def finish(self): out.close()\n"
        f"out = open({str(tmp_path / 'out')!r}, 'w')\n"
        "def init(**arguments): return Run()\n"
    )
    process = start()
    process.ask({"tracker": "trackio", **BEGIN}, soon())
    process.ask({"rows": [(1, 1.7e9, 5, {"dlmon/loss": 0.5})]}, soon())
    end = {"figures": {"dlmon/final/wall_s": 9.0}, "facts": {}, "status": "completed"}
    process.ask({**end, "wall": 1.7e9, "step": 6}, soon())
    lines = list(map(json.loads, (tmp_path / "out").read_text().splitlines()))
    assert lines == [[{"dlmon/loss": 0.5}, 5], [{"dlmon/final/wall_s": 9.0}, 6]]


WANDB = """
import json, types

class Run:
    summary = {}
    def define_metric(self, *names, **options): pass
    def log(self, values, step): print(json.dumps(step), file=out)
    def finish(self, exit_code): out.close()

def init(**options):
    given = {name: options[name] for name in ("entity", "project", "id", "name", "resume")}
    print(json.dumps(given), file=out)
    return Run()

def Settings(**options): return options

api = types.SimpleNamespace(api_key="key")
"""


def test_a_run_of_wandb_is_resumed_in_its_project_and_goes_on_with_its_own_numbers(
    library, start, tmp_path, monkeypatch
):
    monkeypatch.delenv("WANDB_MODE", raising=False)
    monkeypatch.delenv("WANDB_RUN_ID", raising=False)
    library(WANDB + f"out = open({str(tmp_path / 'out')!r}, 'w')\n", "wandb")
    process = start()
    own = {"id": "a1", "place": "lab/p", "name": None}
    process.ask({"tracker": "wandb", **BEGIN, "own": own}, soon())
    process.ask({"rows": [(1, 1.7e9, 5, {"dlmon/loss": 0.5})]}, soon())
    end = {"figures": {}, "facts": {}, "status": "completed", "wall": 1.7e9, "step": 6}
    process.ask(end, soon())
    given, step = map(json.loads, (tmp_path / "out").read_text().splitlines())
    assert given == {"entity": "lab", "project": "p", "id": "a1", "name": None, "resume": "allow"}
    assert step is None


def test_a_run_of_wandb_takes_no_more_offline(library, start, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_RUN_ID", "a1")
    library(WANDB, "wandb")
    with pytest.raises(TrackerError, match="run a1 takes no more offline") as refused:
        start().ask({"tracker": "wandb", **BEGIN}, soon())
    assert refused.value.lasts


def test_the_python_of_a_script_is_its_first_word_or_named_in_that_file(tmp_path):
    launcher = tmp_path / "torchrun"
    launcher.write_text(f"#!{sys.executable}\nprint()\n")
    launcher.chmod(0o700)
    shell = tmp_path / "train.sh"
    shell.write_text("#!/bin/sh\n")
    shell.chmod(0o700)
    path = str(tmp_path)
    assert python_of_script([sys.executable, "a.py"], None, path) == sys.executable
    assert python_of_script(["torchrun", "a.py"], None, path) == sys.executable
    assert python_of_script(["train.sh"], None, path) is None
    assert python_of_script(["nothing"], None, path) is None
    assert python_of_script([], None, path) is None


def test_the_first_python_that_has_the_library_is_taken(tmp_path, monkeypatch):
    assert python_with("json", ["/no/python", sys.executable]) == sys.executable
    assert python_with("no_such_library_anywhere", [sys.executable]) is None
    hangs = tmp_path / "python"
    hangs.write_text("#!/bin/sh\nsleep 100\n")
    hangs.chmod(0o700)
    monkeypatch.setattr(tracker_connection, "_LOOK_S", 0.2)
    assert python_with("json", [str(hangs)]) is None
