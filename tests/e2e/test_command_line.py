"""The real `dlmon` command: its exit codes, its one-line complaints, and what it leaves alone."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from fakes.sessions import DEADLINE_S, Log, eventually, the_log_in

from dlmon import __version__
from dlmon.records import Epoch
from workloads.catalog import WORKLOADS

MANY = 100_000
SMALL = "mnist-mlp-small"


def assert_refused(done, exit_code=2):
    """One sentence on stderr, nothing on stdout, no traceback."""
    assert done.returncode == exit_code
    assert done.stdout == ""
    assert done.stderr.startswith("dlmon: ")
    assert done.stderr.count("\n") == 1
    return done.stderr


# ---- wrong arguments ----


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["run", "mnist-mlp-smal"], f"did you mean {SMALL}?"),
        (["run", "[/red]"], 'there is no workload "[/red]"'),
        (["attach"], "no session is running; dlmon attach last shows the newest"),
        (["compare", "no-session", "b"], "there are no sessions"),
        (["foo"], "see dlmon --help"),
        (["train.py"], "dlmon exec -- python train.py"),
        (["run", "folder/train.py"], "dlmon exec -- python folder/train.py"),
        (["run", SMALL, "--device", "gpu:99"], "there is no GPU"),
        (["run", SMALL, "--batch-size", "0"], "the batch size must be from 1 to 60,000"),
        (["run", SMALL, "--no-such-option"], "--no-such-option"),
        (["run", SMALL, "--log-dir", "/proc/nowhere"], "can't be written"),
        (["attach", "/nowhere/session.jsonl"], "there is no log at"),
        (["stop", "nothing"], "no session"),
        (["prune"], "say what to remove: --keep 100, or --older-than 90d"),
        (["name", "last"], "say what to call it, or give it a --note"),
        (["run", SMALL, "--name", "a,b"], '"a,b" can\'t be a name'),
        (["sweep", SMALL, "--vary", "threads=1,2", "--name", "last"], "can't be a name"),
        (["watch", "--record", "--for", "soon"], "--for needs a length of time such as 90s, 10m"),
        (["watch", "--for", "2h"], "--for is for a recording: use it with --record"),
        (
            ["watch", "--serve", "1", "--detach"],
            "--detach is for a recording: use it with --record",
        ),
        (
            ["watch", "--serve", "1", "--json"],
            "--serve is of this machine: leave out HOST, --record",
        ),
        (["sweep", SMALL], "nothing to sweep"),
        (["sweep", SMALL, "--vary", "batch_size=8,16", "--batch-size", "8"], "leave out one"),
        (["sweep", SMALL, "--vary", "threads=1,2", "--batch-size", "70000"], "can be run"),
        (["sweep", SMALL, "--vary", "host=-x,box-1"], '"-x" is not a host'),
        (["sweep", "--resume", "last"], "no sweeps"),
        (["sweep", "--resume", "last", "--vary", "threads=1,2"], "leave out --vary"),
        ([], "needs a terminal"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else "",
)
def test_a_wrong_argument_is_one_sentence_and_exit_code_2(refused, log_dir, arguments, says):
    # Where it matters, an empty directory of sessions.
    done = refused(*arguments, XDG_STATE_HOME=str(log_dir))
    assert says in assert_refused(done)
    assert not list(log_dir.glob("**/*.jsonl"))


# ---- a TensorFlow that is broken ----


def test_a_tensorflow_that_cannot_be_imported_is_reported_in_one_line(dlmon, log_dir, tmp_path):
    package = tmp_path / "path" / "tensorflow"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('no AVX\\non this CPU')\n")
    done = dlmon(
        *("run", SMALL, "--json", "--log-dir", str(log_dir)),
        environment={"PYTHONPATH": str(package.parent)},
    )
    assert done.returncode == 1
    assert done.stderr.startswith(f"dlmon: {SMALL} failed: ")
    why = "TensorFlow can't be imported: RuntimeError: no AVX"
    assert why in done.stderr
    assert done.stderr.count("\n") == 1
    result = json.loads(done.stdout)
    assert result["status"] == "failed"
    assert why in result["error"]


# ---- what it prints about itself and of sessions ----


def test_version(new_dlmon):
    done = new_dlmon("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"dlmon {__version__}\n", "")


def test_list_json_has_every_workload(new_dlmon):
    done = new_dlmon("list", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    listed = json.loads(done.stdout)
    assert [workload["name"] for workload in listed] == list(WORKLOADS)
    documented = {"name", "parameters", "flops_per_sample", "batch_size", "epochs", "source"}
    assert all(documented <= workload.keys() for workload in listed)


def test_sessions_json_reports_how_each_stands(dlmon, start, log_dir):
    ended, running = start(epochs=1), start(epochs=MANY)
    ended.wait_for_end()
    listed = dlmon("sessions", "--json", "--log-dir", str(log_dir))
    assert listed.returncode == 0
    by_id = {entry["session"]: entry for entry in json.loads(listed.stdout)}
    assert by_id[ended.header.id]["status"] == "completed"
    assert by_id[ended.header.id]["result"]["epochs"] == 1
    assert by_id[running.header.id]["status"] == "running"
    assert by_id[running.header.id]["pid"] == running.supervisor_pid
    os.kill(running.supervisor_pid, signal.SIGKILL)
    eventually(lambda: running.supervisor_pid is None, "the lock to be dropped")
    listed = dlmon("sessions", "--json", "--log-dir", str(log_dir))
    by_id = {entry["session"]: entry for entry in json.loads(listed.stdout)}
    assert by_id[running.header.id]["status"] == "interrupted"


def test_a_session_is_named_renamed_and_found_by_its_name(dlmon, start, log_dir):
    session = start(epochs=1, name="base")
    session.wait_for_end()
    name, where = session.header.id, ("--log-dir", str(log_dir))
    assert "base" in dlmon("sessions", *where).stdout
    named = dlmon("name", "base", "batch 256", "--note", "after the fix", *where)
    assert (named.returncode, named.stderr) == (0, "")
    assert named.stdout == f'{name} is called "batch 256"; noted\n'
    assert "no session" in assert_refused(dlmon("attach", "base", *where))
    shown = dlmon("attach", "batch 256", "--plain", *where)
    assert f"session {name} (batch 256)" in shown.stdout
    assert dlmon("name", "last", "", "--note", "", *where).stdout == f"{name} has no name\n"
    (listed,) = json.loads(dlmon("sessions", "--json", *where).stdout)
    assert (listed["name"], listed["note"]) == (None, None)
    sentence = assert_refused(dlmon("name", "last", "[x]", *where))
    assert sentence.startswith('dlmon: "[x]" can\'t be a name: ')


def test_old_sessions_are_removed_once_that_is_confirmed(dlmon, start, log_dir):
    old, named = start(epochs=1), start(epochs=1, name="keep me")
    old.wait_for_end(), named.wait_for_end()
    running = start(epochs=MANY)
    where = ("--log-dir", str(log_dir))
    assert "nothing to remove" in dlmon("prune", "--older-than", "1d", *where).stdout
    asked = dlmon("prune", "--keep", "0", *where)
    assert (asked.returncode, asked.stdout.count("\n")) == (2, 1)
    assert asked.stdout.startswith(f"{old.header.id}  ")
    assert asked.stderr.startswith("dlmon: there is no terminal to ask in: say --yes to remove 1 s")
    assert len(list(log_dir.iterdir())) == 3
    done = dlmon("prune", "--keep", "0", "--yes", *where)
    assert (done.returncode, done.stderr) == (0, "")
    assert "\nremoved 1 session, " in done.stdout
    done = dlmon("prune", "--keep", "0", "--yes", "--named", *where)
    assert done.stdout.startswith(f"{named.header.id} (keep me)  ")
    assert [path.name for path in log_dir.iterdir()] == [running.header.id]


def test_stop_ends_a_session_and_a_second_one_says_that_it_has_ended(dlmon, start, log_dir):
    session = start(epochs=MANY)
    session.wait_for(Epoch)
    stopped = dlmon("stop", "last", "--log-dir", str(log_dir))
    assert (stopped.returncode, stopped.stderr) == (0, "")
    assert session.header.id in stopped.stdout
    result = session.wait_for_end()
    assert (result.status, result.stopped_by) == ("stopped", "command")
    assert "stopping: asked with dlmon stop" in session.notices()
    complaint = assert_refused(dlmon("stop", "last", "--log-dir", str(log_dir)))
    assert "is not running: stopped" in complaint


# ---- running the real thing ----


@pytest.fixture
def run(dlmon_command, tmp_path):
    """Return a function that starts `dlmon run` in a process group of its own."""
    processes = []

    def begin(*arguments, **options):
        process = subprocess.Popen(
            [dlmon_command, "run", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            process_group=0,
        )
        processes.append(process)
        return process

    yield begin
    for process in processes:
        process.kill()
        process.communicate()


def test_ctrl_c_while_tensorflow_is_imported_stops_the_run(run, log_dir):
    process = run(SMALL, "--plain", "--log-dir", str(log_dir))
    log = Log(the_log_in(log_dir))
    # What it prints comes after it has begun to heed the key.
    assert any("importing" in line for line in iter(process.stdout.readline, ""))
    os.killpg(process.pid, signal.SIGINT)
    stdout, stderr = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 130
    assert stderr == "dlmon: stopping after the current batch; Ctrl-C again to leave now\n"
    assert "stopped" in stdout
    assert log.wait_for_end().status == "stopped"


def test_a_second_signal_leaves_at_once_and_the_session_stops_all_the_same(view, files):
    viewer = view(epochs=MANY, script={"epoch 1": [["wait_for", go_on := files()]]})
    log = viewer.log
    viewer.wait_for_line("epoch 1")
    viewer.process.send_signal(signal.SIGINT)
    log.wait_for_notice("stopping")
    viewer.process.send_signal(signal.SIGINT)
    assert viewer.exit_code() == 130
    assert log.status == "running"
    assert f"{log.header.id} is still stopping; it is recorded in {log.path}" in viewer.stderr
    assert "Traceback" not in viewer.stderr
    Path(go_on).touch()
    assert log.wait_for_end().status == "stopped"


def test_ctrl_c_of_an_attached_viewer_leaves_the_session_alone(dlmon_command, start, log_dir):
    session = start(epochs=MANY)
    session.wait_for(Epoch)
    with subprocess.Popen(
        [dlmon_command, "attach", "last", "--plain", "--log-dir", str(log_dir)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as attached:
        for line in attached.stdout:
            if "epoch 1/" in line:
                break
        attached.send_signal(signal.SIGINT)
        _, stderr = attached.communicate(timeout=DEADLINE_S)
    assert (attached.returncode, stderr) == (130, "")
    assert session.status == "running"
    session.say("stop")
    assert session.wait_for_end().status == "stopped"


def test_a_reader_that_closes_the_pipe_ends_the_run_without_a_traceback(
    run, log_dir, without_keras
):
    process = run(SMALL, "--python", without_keras, "--log-dir", str(log_dir))
    first = process.stdout.readline()
    assert "session" in first
    process.stdout.close()
    assert process.stderr.read() == ""
    process.wait(DEADLINE_S)
    assert Log(the_log_in(log_dir)).wait_for_end().status == "stopped"


@pytest.mark.parametrize(
    ("number", "exit_code", "options"),
    [(signal.SIGINT, 130, ["--json"]), (signal.SIGTERM, 1, [])],
    ids=["Ctrl-C", "SIGTERM"],
)
def test_a_run_that_a_signal_ends_prints_what_the_stopped_run_measured(
    view, number, exit_code, options
):
    viewer = view(*options, epochs=MANY)
    viewer.log.wait_for(Epoch)
    viewer.process.send_signal(number)
    assert viewer.exit_code() == exit_code
    assert viewer.log.result.status == "stopped"
    if options:
        assert json.loads(viewer.stdout)["status"] == "stopped"
    else:
        assert re.search("^status +stopped", viewer.stdout, re.MULTILINE)
        assert re.search("^seconds per epoch +[0-9]", viewer.stdout, re.MULTILINE)
    assert "Traceback" not in viewer.stderr


def test_a_signal_that_is_ignored_from_the_start_ends_no_run(view, files):
    viewer = view("--nohup", epochs=2, script={"epoch 1": [["wait_for", go_on := files()]]})
    viewer.wait_for_line("epoch 1/2")
    viewer.process.send_signal(signal.SIGHUP)
    Path(go_on).touch()
    assert viewer.exit_code() == 0
    assert "epoch 2/2" in viewer.stdout


def test_a_signal_before_a_run_has_started_is_one_sentence_and_exit_code_1(run, log_dir, tmp_path):
    asked, python = tmp_path / "asked", tmp_path / "python"
    python.write_text(f"#!/bin/sh\ntouch {asked}\nsleep 60\n")
    python.chmod(0o755)
    process = run(SMALL, "--json", "--python", str(python), "--log-dir", str(log_dir))
    eventually(asked.exists, "the interpreter to be examined")
    process.send_signal(signal.SIGHUP)
    stdout, stderr = process.communicate(timeout=DEADLINE_S)
    assert (process.returncode, stdout) == (1, "")
    assert stderr == "dlmon: the run was ended by a signal as it started\n"
    assert not list(log_dir.glob("*"))


# ---- standard streams that can't be written ----


def test_a_reader_that_has_left_is_no_error_to_report(dlmon_command):
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [dlmon_command, "list", "--json"], stdout=writer, stderr=subprocess.PIPE, text=True
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, "")


def in_shell(*words, redirect):
    """Run a command with a redirection of the shell's."""
    return subprocess.run(
        ["sh", "-c", f'"$@" {redirect}', "sh", *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )


@pytest.mark.parametrize(
    ("arguments", "redirect", "unbuffered"),
    [
        (["list", "--json"], ">&-", ""),
        (["list", "--json"], ">/dev/full", "1"),
        (["watch"], ">/dev/full", ""),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else value,
)
def test_a_stdout_that_cannot_be_written_is_one_sentence_and_exit_code_1(
    dlmon_command, monkeypatch, arguments, redirect, unbuffered
):
    why = "bad file descriptor" if redirect == ">&-" else "no space left on device"
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    done = in_shell(dlmon_command, *arguments, redirect=redirect)
    assert done.stderr == f"dlmon: standard output can't be written: {why}\n"
    assert done.returncode == 1


@pytest.mark.parametrize("redirect", ["2>&-", "<&- >&- 2>&-"])
def test_errors_do_not_go_to_stdout_where_stderr_is_closed(dlmon_command, redirect):
    done = in_shell(dlmon_command, "run", "nothing-like-it", redirect=redirect)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "")


# ---- Ctrl-C, before a command runs and after ----

INTERRUPTED_ON_IMPORT = """
import os, signal, sys

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == module:
            os.kill(os.getpid(), signal.SIGINT)

module = sys.argv.pop(1)
sys.meta_path.insert(0, Interrupt())
from tui.start import main
if module == "none":
    os.kill(os.getpid(), signal.SIGINT)
main()
"""


@pytest.mark.parametrize(
    "command", ["none list", "rich list", "dlmon.render.script run nothing-like-it"]
)
def test_ctrl_c_while_it_starts_ends_it_without_a_word(command):
    command = [sys.executable, "-c", INTERRUPTED_ON_IMPORT, *command.split()]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_ctrl_c_once_it_is_over_ends_it_without_a_word():
    program = (
        "import atexit, os, signal, tui.start\n"
        "atexit.register(lambda: os.kill(os.getpid(), signal.SIGINT))\n"
        "tui.start.main()"
    )
    command = [sys.executable, "-c", program, "--version"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (130, "")


def test_a_detached_run_goes_on_after_its_command_has_ended(dlmon, log_dir, without_keras):
    run = ("run", SMALL, "--python", without_keras, "--epochs", str(MANY), "--detach", "--json")
    started = dlmon(*run, "--log-dir", str(log_dir))
    assert (started.returncode, started.stderr) == (0, "")
    answer = json.loads(started.stdout)
    log = Log(answer["log"])
    assert log.header.id == answer["session"]
    log.wait_for(Epoch)
    stopped = dlmon("stop", answer["session"], "--log-dir", str(log_dir))
    assert stopped.returncode == 0
    result = log.wait_for_end()
    assert result.status == "stopped"
    assert result.epochs >= 1


# ---- config.toml ----


@pytest.fixture
def config(tmp_path):
    """Return a function that writes config.toml and returns the environment that leads there."""

    def write(text):
        folder = tmp_path / "config" / "dlmon"
        folder.mkdir(parents=True)
        (folder / "config.toml").write_text(text)
        return {
            "XDG_CONFIG_HOME": str(tmp_path / "config"),
            "XDG_STATE_HOME": str(tmp_path / "state"),
        }

    return write


def test_a_wrong_key_is_one_sentence_and_exit_code_2(refused, config):
    environment = config("[run]\nepoch = 3\n")
    for arguments in (["run", SMALL], ["sessions"], ["attach", "last"], ["watch"], ["doctor"]):
        done = refused(*arguments, **environment)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), arguments
        assert "config.toml: there is no key run.epoch; did you mean run.epochs?" in done.stderr


def test_a_run_takes_its_defaults_from_there_and_the_command_line_wins(
    dlmon, config, without_keras, tmp_path
):
    kept = tmp_path / "kept"
    environment = config(
        f'log_dir = "{kept}"\n[run]\npython = "{without_keras}"\n'
        'device = "cpu"\nepochs = 2\nsteps = 7\ndata = "synthetic"\n'
    )
    done = dlmon("run", SMALL, "--epochs", "1", "--json", environment=environment)
    assert done.returncode == 0, done.stderr
    options = json.loads(done.stdout)["options"]
    assert (options["epochs"], options["steps"], options["device"]) == (1, 7, "cpu")
    assert Log(the_log_in(kept)).status == "completed"
    (reported,) = json.loads(dlmon("sessions", "--json", environment=environment).stdout)
    assert reported["workload"] == SMALL
