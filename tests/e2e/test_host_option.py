"""The commands that take --host, over a real sshd: run, come back, stop, name, copy, study."""

from __future__ import annotations

import json
import shutil
import sys

import pytest
from fakes.recorded import recorded_session, write_log
from fakes.sessions import DEADLINE_S, eventually
from fakes.sshd import Laptop, lacks_sshd
from fakes.terminal import PseudoTerminal

from dlmon.exit_codes import DONE, FAILED, NOT_STARTED, UNREACHABLE, WRONG_ARGUMENTS
from dlmon.log.directory import list_sessions
from dlmon.records import Status

pytestmark = [
    pytest.mark.skipif(lacks_sshd() is not None, reason=str(lacks_sshd())),
    # Its first run is made once.
    pytest.mark.xdist_group("host_option"),
]

WORKLOAD = "mnist-mlp-small"
HOW = ("--host", "box", "--device", "cpu", "--data", "synthetic")
THERE = (*HOW[:2], "--python", sys.executable, *HOW[2:])
SHORT = ("--epochs", "1", "--steps", "30")
LONG = ("--epochs", "1000000")


@pytest.fixture(scope="module")
def box(network):
    return network.add("box")


@pytest.fixture(scope="module")
def recorded(dlmon_command, imported_dlmon, network, box, tmp_path_factory, without_keras):
    """A run on the box that is over, by its id."""
    laptop = Laptop(dlmon_command, imported_dlmon, network, tmp_path_factory.mktemp("first"))
    run = ("run", WORKLOAD, *HOW, "--python", without_keras, *SHORT)
    ran = laptop.dlmon(*run, "--name", "first", "--plain")
    assert ran.returncode == DONE, ran.stderr
    assert "epoch 1/1 took" in ran.stdout
    assert " completed; recorded on box, copied to " in ran.stdout
    (session,) = list_sessions(box.log_dir)
    return session.header.id


@pytest.fixture
def running(laptop, box, without_keras):
    """A run on the box, without Keras, that goes on until it is stopped, by its id."""
    run = ("run", WORKLOAD, *HOW, "--python", without_keras, *LONG)
    started = laptop.dlmon(*run, "--detach", "--json")
    assert started.returncode == DONE, started.stderr
    answer = json.loads(started.stdout)
    assert answer["host"] == "box"
    yield answer["session"]
    laptop.dlmon("stop", "--host", "box", answer["session"])
    eventually(lambda: status_of(box, answer["session"]) != Status.RUNNING, "its end")


def status_of(box, session):
    (entry,) = [each for each in list_sessions(box.log_dir) if each.header.id == session]
    return entry.status


def test_a_session_of_a_host_is_listed_with_its_name(laptop, recorded):
    listed = json.loads(laptop.dlmon("sessions", "--host", "box", "--json").stdout)
    (session,) = [each for each in listed if each["session"] == recorded]
    assert (session["name"], session["status"], session["log"]) == ("first", "completed", None)
    table = laptop.dlmon("sessions", "--host", "box").stdout
    assert recorded in table
    assert "first" in table


def test_the_sessions_of_several_hosts_are_listed_one_host_after_the_other(
    laptop, recorded, network
):
    network.add("empty")
    both = ("--host", "box", "--host", "empty")
    table = laptop.dlmon("sessions", *both).stdout
    assert table.startswith("box:\n")
    assert recorded in table
    assert table.endswith("no sessions on empty yet; dlmon run WORKLOAD --host empty starts one\n")
    asked = laptop.dlmon("sessions", *both, "--host", "nosuch", "--json")
    assert {each["ssh_host"] for each in json.loads(asked.stdout)} == {"box"}
    assert (asked.returncode, asked.stderr.count("\n")) == (FAILED, 1)
    assert "nosuch is not known" in asked.stderr


def test_a_fetched_session_is_one_of_this_machine_with_its_name(laptop, recorded, box):
    fetched = laptop.dlmon("fetch", "--host", "box", "fir*")
    assert fetched.stdout == f"{recorded} of box is here\n"
    (copied,) = list_sessions(laptop.sessions)
    assert copied.path.read_bytes() == (box.log_dir / recorded / "session.jsonl").read_bytes()
    assert (copied.label.name, copied.status) == ("first", Status.COMPLETED)
    assert laptop.dlmon("attach", "first", "--plain").returncode == DONE
    # It is known for the same wherever its log lies.
    compared = laptop.dlmon("compare", "first", recorded, "--host", "box")
    assert compared.returncode == WRONG_ARGUMENTS
    assert "a run can't be compared with itself" in compared.stderr
    # Once more, with the traces of its profiles.
    trace = bytes(range(256)) * 5_000
    (box.log_dir / recorded / "profile-1.json.gz").write_bytes(trace)
    fetched = laptop.dlmon("fetch", "--host", "box", "--traces", recorded)
    assert fetched.returncode == DONE, fetched.stderr
    kept = laptop.sessions / recorded / "profile-1.json.gz"
    assert fetched.stdout.splitlines()[1] == f"  {kept} opens in ui.perfetto.dev"
    assert kept.read_bytes() == trace
    assert len(list_sessions(laptop.sessions)) == 1


def test_metrics_in_a_folder_of_a_host_are_shown_and_leave_nothing_here(laptop, recorded, tmp_path):
    runs = tmp_path / "runs"
    runs.mkdir()
    (runs / "metrics.csv").write_text("step,train_loss\n1,0.5\n2,0.25\n")
    shown = laptop.dlmon("metrics", "--host", "box", str(runs), recorded, "--json")
    assert shown.returncode == DONE, shown.stderr
    losses = [row for row in json.loads(shown.stdout) if row["run"] == "runs"]
    assert [(row["metric"], row["last"]) for row in losses] == [("train_loss", 0.25)]
    refused = laptop.dlmon("metrics", "--host", "box", f"{runs}/nowhere")
    assert refused.returncode == WRONG_ARGUMENTS
    assert refused.stderr == f"dlmon: box: there is no {runs}/nowhere\n"


def test_a_run_of_this_machine_is_compared_with_one_of_a_host(laptop, box, recorded):
    here = write_log(laptop.sessions, recorded_session(workload=WORKLOAD), "here")
    there = write_log(box.log_dir, recorded_session(workload=WORKLOAD, session_id="there"), "there")
    compared = laptop.dlmon("compare", "here", "there", "--host", "box", "--json")
    assert compared.returncode == DONE, compared.stderr
    assert '"there"' in compared.stdout
    # Where BASE isn't here it is looked for there.
    shutil.rmtree(here.parent)
    both = laptop.dlmon("compare", "here", "there", "--host", "box")
    assert both.returncode == WRONG_ARGUMENTS
    assert both.stderr.startswith('dlmon: box: there is no session "here" in ')
    shutil.rmtree(there.parent)


def test_a_run_on_a_host_is_named_outlives_its_screen_and_is_stopped_from_here(
    laptop, box, running
):
    named = laptop.dlmon("name", "--host", "box", running, "slow", "--note", "to be stopped")
    assert named.stdout == f'{running} is called "slow"; noted\n'
    (entry,) = [each for each in list_sessions(box.log_dir) if each.header.id == running]
    assert (entry.label.name, entry.label.note) == ("slow", "to be stopped")
    refused = laptop.dlmon("name", "--host", "box", running, "a,b")
    assert refused.returncode == WRONG_ARGUMENTS
    assert '"a,b" can\'t be a name' in refused.stderr
    with PseudoTerminal(
        [laptop.command, "attach", "--host", "box", running], laptop.environment
    ) as terminal:
        terminal.wait_for(b"Seconds per run without its start")
        terminal.press("q")
        assert terminal.process.wait(DEADLINE_S) == DONE
        attach = f"dlmon attach --host box {running}".encode()
        eventually(lambda: attach in terminal.written.replace(b"\r\n", b""), "how to come back")
    assert status_of(box, running) == Status.RUNNING
    stopped = laptop.dlmon("stop", "--host", "box", running)
    assert stopped.stdout == f"{running} of box is stopping after the current batch\n"
    eventually(lambda: status_of(box, running) == Status.STOPPED, "its end")
    again = laptop.dlmon("stop", "--host", "box", running)
    assert again.returncode == WRONG_ARGUMENTS
    assert again.stderr == f"dlmon: box: {running} is not running: stopped\n"


def test_a_script_runs_on_a_host_in_a_directory_of_its_own(laptop, box):
    (box.home / "work").mkdir(exist_ok=True)
    script = "import os; print(os.getcwd()); open('left', 'w').close(); raise SystemExit(7)"
    command = ["--plain", "--directory", "work", "--name", "there", "--", sys.executable]
    ran = laptop.dlmon("exec", "--host", "box", *command, "-c", script)
    assert ran.returncode == 7, ran.stderr
    assert (box.home / "work" / "left").exists()
    again = laptop.dlmon("attach", "--host", "box", "there", "--plain")
    assert "the script ended with exit code 7" in again.stderr
    gone = laptop.dlmon("exec", "--host", "box", "--plain", "--", "no-such-command")
    assert (gone.returncode, gone.stdout) == (NOT_STARTED, "")
    assert gone.stderr == "dlmon: box: there is no command no-such-command\n"


def test_the_processes_of_a_session_of_a_host_say_where_they_are(laptop, box):
    script = (
        "import dlmon, time\nwith dlmon.training(samples=8, batch_size=1, epochs=1):\n"
        "    dlmon.step()\n    time.sleep(600)"
    )
    command = ["--detach", "--name", "hangs", "--", sys.executable, "-c", script]
    assert laptop.dlmon("exec", "--host", "box", *command).returncode == DONE
    log = next(each.path for each in list_sessions(box.log_dir) if each.label.name == "hangs")
    try:
        eventually(lambda: b'"trainer"' in log.read_bytes(), "what trains")
        shown = laptop.dlmon("stack", "--host", "box", "hangs")
        assert shown.returncode == DONE, shown.stderr
        assert "<string>:4 (pid " in shown.stdout.splitlines()[0]
        refused = laptop.dlmon("profile", "--host", "box", "hangs")
        assert refused.returncode == WRONG_ARGUMENTS
        assert refused.stderr.startswith("dlmon: box: ")
        assert "it uses none of PyTorch, JAX and TensorFlow" in refused.stderr
    finally:
        laptop.dlmon("stop", "--host", "box", "hangs")
    eventually(lambda: b'"result"' in log.read_bytes(), "its end")


def test_a_host_is_examined(laptop):
    findings = json.loads(laptop.dlmon("doctor", "--host", "box", "--quick", "--json").stdout)
    assert {"python", "cpu", "memory"} <= {finding["topic"] for finding in findings}
    refused = laptop.dlmon("doctor", "--host", "box", "--calibrate")
    assert refused.returncode == WRONG_ARGUMENTS
    assert "run it on box itself" in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (("report", "--host", "box", "x"), 2, "; dlmon sessions --host box lists what there is"),
        (("report", "--host", "box", "./a/b.jsonl"), 2, "named by its id or name, not by a path"),
        (("attach", "--host", "-x", "last"), 2, '"-x" is not a host'),
        (("watch", "nosuch", "--record"), UNREACHABLE, "nosuch is not known"),
        (
            ("run", WORKLOAD, "--host", "box", "--python", "/no/python"),
            2,
            "box: /no/python can't be run: no such file or directory",
        ),
        (
            ("run", WORKLOAD, *THERE[:4], "--device", "gpu:3"),
            2,
            "box: there is no GPU here",
        ),
    ],
    ids=lambda value: " ".join(value[:3]) if isinstance(value, tuple) else None,
)
def test_what_can_not_be_is_one_sentence_that_names_the_host(
    laptop, recorded, box, arguments, code, sentence
):
    before = len(list_sessions(box.log_dir))
    refused = laptop.dlmon(*arguments)
    assert refused.returncode == code
    assert refused.stdout == ""
    assert sentence in refused.stderr
    assert refused.stderr.count("\n") == 1
    assert len(list_sessions(box.log_dir)) == before
    assert not laptop.sessions.exists()
