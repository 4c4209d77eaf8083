"""A session from its job to its result: the viewer's pipe, stopping, the lock, the log's shape."""

from __future__ import annotations

import json
import os
import signal
import stat
import sys
from pathlib import Path

import pytest
from fakes import sensors
from fakes.sessions import Session, eventually, is_alive, resume, suspend, wait_until_gone

import dlmon.launch.supervisor_process
from dlmon.launch.supervisor_process import launch
from dlmon.protocol import stop
from dlmon.protocol.job import Job, Refused
from dlmon.records import (
    Batches,
    Epoch,
    Facts,
    Machine,
    Model,
    Output,
    Phase,
    SessionHeader,
    Validation,
)
from dlmon.session.follower import SessionFollower
from dlmon.system.this_host import boot_id, host_name

MANY = 100_000


# ---- one that does not begin ----


def test_a_supervisor_that_dies_with_much_to_say_is_not_waited_for(monkeypatch):
    dies = [sys.executable, "-c", "import sys; sys.exit('x' * 1_000_000 + '\\nno room')"]
    monkeypatch.setattr(dlmon.launch.supervisor_process, "python_command", lambda module: dies)
    answer = launch(Job("fake", ("true",), {}, "")).answer()
    assert isinstance(answer, Refused)
    assert answer.reason.endswith(": no room")


def test_what_python_prints_as_it_starts_is_no_answer(start, tmp_path, monkeypatch):
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\nprint('good morning')\nsys.stdout.write('no end of line')\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    session = start(epochs=1, steps=3)
    assert session.wait_for_end().status == "completed"
    # Those of the sensors.
    assert session.header.machine is not None
    assert session.header.machine.cores


# ---- a session that ends by itself ----


def test_a_run_is_recorded_from_header_to_result(start):
    session = start(epochs=3, steps=40, step_s=0.005, validation_steps=5)
    result = session.wait_for_end()
    records = session.records()
    assert isinstance(session.header, SessionHeader)
    assert (session.header.host, session.header.boot_id) == (host_name(), boot_id())
    assert session.header.workload == "fake"
    assert session.header.options["epochs"] == 3
    assert records[-1] == result
    phases = [phase.name for phase in session.records(Phase)]
    assert phases[:4] == ["importing", "loading", "building", "compiling"]
    assert phases.count("training") == 3
    assert phases.count("validating") == 3
    assert len(session.records(Model)) == 1
    assert sum(len(batches.dt_us) for batches in session.records(Batches)) == 120
    epochs = session.records(Epoch)
    assert [(epoch.epoch, epoch.steps, epoch.whole) for epoch in epochs] == [
        (0, 40, True),
        (1, 40, True),
        (2, 40, True),
    ]
    assert all(isinstance(e.validation, Validation) and e.validation.steps == 5 for e in epochs)
    assert result.status == "completed"
    assert result.exit_code == 0
    assert result.error is None
    assert result.session == session.header.id == session.path.parent.name
    assert result.log == str(session.path)
    assert (result.epochs, result.batches) == (3, 120)
    seconds = result.seconds_per_epoch
    assert (seconds.epochs, seconds.first_left_out) == (2, True)
    assert not result.seconds_per_epoch.projected
    # One clock times them all.
    samples = session.records(Machine)
    assert any(epochs[0].begin < sample.t < epochs[-1].end for sample in samples)
    lines = session.path.read_text().splitlines()
    assert [next(iter(json.loads(line))) for line in lines] == ["type"] * (1 + len(records))
    assert stat.S_IMODE(session.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(session.path.parent.stat().st_mode) == 0o700


def test_while_it_runs_its_log_is_locked_and_its_tree_sampled_and_each_leads_a_session(
    start, files
):
    go_on = files()
    session = start(script={"epoch 0": [["wait_for", go_on]]})
    supervisor = session.supervisor_pid
    assert is_alive(supervisor)
    assert session.status == "running"
    for pid in (supervisor, session.workload_pid):
        assert os.getsid(pid) == pid
    session.wait_for(Machine, lambda sample: sample.process is not None and sample.process.rss_mib)
    Path(go_on).touch()
    session.wait_for_end()
    assert session.supervisor_pid is None


def test_a_command_that_cannot_be_started_is_reported(start):
    result = start(command=("/nowhere/python",)).wait_for_end()
    assert result.status == "failed"
    assert result.error == "/nowhere/python could not be started: No such file or directory"


# ---- the viewer's pipe ----


def test_two_stops_are_one_whatever_asks(start):
    session = start(epochs=MANY)
    # One that is detached heeds them too.
    session.say("detach")
    session.wait_for(Epoch)
    supervisor = session.supervisor_pid
    session.say("stop")
    session.say("stop")
    os.kill(supervisor, signal.SIGTERM)
    os.kill(supervisor, signal.SIGHUP)
    assert session.wait_for_end().status == "stopped"
    assert sum("stopping" in text for text in session.notices()) == 1


def test_a_session_that_is_detached_later_outlives_its_viewer(start, files):
    go_on = files()
    session = start(epochs=2, script={"epoch 1": [["wait_for", go_on]]})
    session.wait_for(Epoch)
    # Words that it doesn't know mean nothing.
    for word in ("unstoppable", "", "st\nop", "detached", "\x00", "detach"):
        session.say(word)
    session.release()
    # A sample from after the release: the session has gone on.
    before = len(session.records(Machine))
    eventually(lambda: len(session.records(Machine)) > before + 1, "the session to go on")
    Path(go_on).touch()
    assert session.wait_for_end().status == "completed"


# ---- who asked ----


@pytest.mark.parametrize(("word", "cause"), stop.CAUSE_BY_WORD.items())
def test_a_stop_by_the_viewer_names_who_asked(start, word, cause):
    session = start(epochs=MANY)
    session.wait_for(Epoch)
    session.say(word)
    result = session.wait_for_end()
    assert (result.status, result.exit_code, result.stopped_by) == ("stopped", 75, cause)
    last = session.records(Epoch)[-1]
    assert last.steps == 20 or not last.whole
    assert f"stopping: {stop.CAUSE_TEXT[cause]}" in session.notices()


# ---- signals that end a process ----

ENDS_BY_DEFAULT = [
    *(signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM),
    *(signal.SIGTERM, signal.SIGXCPU, signal.SIGVTALRM, signal.SIGPROF, signal.SIGIO),
    *(signal.SIGPWR, signal.SIGSTKFLT, signal.SIGRTMIN, signal.SIGRTMAX),
]


def test_every_signal_that_ends_a_process_ends_the_session_with_its_result(start):
    number = signal.SIGRTMAX
    session = start(epochs=MANY)
    session.wait_for(Epoch)
    supervisor = session.supervisor_pid
    status = Path(f"/proc/{supervisor}/status").read_text()
    caught = int(status.partition("SigCgt:")[2].split()[0], 16)
    assert [each for each in ENDS_BY_DEFAULT if not caught >> (each - 1) & 1] == []
    os.kill(supervisor, number)
    assert session.wait_for_end().status == "stopped"
    said = f"stopping: the process that records it got {stop.signal_name(number)}"
    assert said in session.notices()


def test_signals_of_failed_writes_end_no_session(start, files):
    go_on = files()
    session = start(epochs=2, script={"epoch 1": [["wait_for", go_on]]})
    session.wait_for(Epoch)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        os.kill(session.supervisor_pid, number)
    Path(go_on).touch()
    assert session.wait_for_end().status == "completed"


def test_under_nohup_a_hang_up_ends_no_session(make_job, files):
    go_on = files()
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        started = launch(make_job(epochs=2, script={"epoch 1": [["wait_for", go_on]]}))
    finally:
        signal.signal(signal.SIGHUP, before)
    session = Session(started)
    session.wait_for(Epoch)
    os.kill(session.supervisor_pid, signal.SIGHUP)
    Path(go_on).touch()
    assert session.wait_for_end().status == "completed"
    session.release()


# ---- stopping what does not want to stop ----


def test_a_stop_before_the_signal_is_handled_ends_the_run(start, files):
    ready = files()
    session = start(script={"start": [["touch", ready], ["wait_for", files()]]})
    eventually(Path(ready).exists, "the workload to start")
    session.say("stop")
    result = session.wait_for_end()
    assert result.status == "stopped"
    assert result.exit_code == -signal.SIGUSR1


@pytest.mark.parametrize(
    ("deaf_to", "ended_by"),
    [(["SIGUSR1"], signal.SIGTERM), (["SIGUSR1", "SIGTERM"], signal.SIGKILL)],
    ids=["the stop signal", "SIGTERM too"],
)
def test_a_workload_that_ignores_signals_is_ended_all_the_same(start, files, deaf_to, ended_by):
    session = start(
        ignore=deaf_to,
        terminate_after_s=0.5,
        kill_after_s=0.5,
        script={"end of epoch 0": [["wait_for", files()]]},
    )
    session.wait_for(Epoch)
    session.say("stop")
    result = session.wait_for_end()
    assert result.status == "stopped"
    assert result.exit_code == -ended_by
    assert [epoch.epoch for epoch in session.records(Epoch)] == [0]
    assert any("(SIGTERM)" in text for text in session.notices())
    assert any("(SIGKILL)" in text for text in session.notices()) == (ended_by == signal.SIGKILL)


def test_a_suspended_workload_can_be_stopped(start):
    session = start(epochs=MANY, terminate_after_s=0.2, kill_after_s=0.2)
    session.wait_for(Epoch)
    suspend(session.workload_pid)
    session.say("stop")
    assert session.wait_for_end().status == "stopped"


def test_a_workload_that_ends_by_itself_after_a_stop_was_asked_for_is_completed(start, files):
    go_on = files()
    session = start(ignore=["SIGUSR1"], epochs=2, script={"epoch 1": [["wait_for", go_on]]})
    session.wait_for(Epoch)
    session.say("stop")
    session.wait_for_notice("stopping")
    Path(go_on).touch()
    assert session.wait_for_end().status == "completed"


# ---- a supervisor that is slow, or in trouble itself ----


def test_a_suspended_supervisor_is_reported_by_the_viewer(start):
    session = start(epochs=MANY)
    session.wait_for(Epoch)
    supervisor = session.supervisor_pid
    viewer = SessionFollower(session.path)
    suspend(supervisor)
    eventually(
        lambda: (viewer.poll() or True) and viewer.problem and "suspended" in viewer.problem,
        "the viewer to say that nothing comes",
    )
    assert viewer.running
    resume(supervisor)
    eventually(lambda: viewer.poll() and viewer.problem is None, "the trouble to be over")
    viewer.close()
    session.say("stop")
    assert session.wait_for_end().status == "stopped"


def test_sensors_that_cannot_start_hold_up_no_session(start, tmp_path, monkeypatch):
    broken = tmp_path / "argparse.py"
    broken.write_text("raise RuntimeError('argparse is broken')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    session = start(epochs=2)
    assert session.header.machine.cores is None
    assert "machine" in session.header.why
    assert session.wait_for_end().status == "completed"
    assert len(session.records(Epoch)) == 2
    reported = "the sensors ended (RuntimeError: argparse is broken)"
    assert any(reported in text for text in session.notices())


def test_a_viewer_that_dies_before_the_answer_leaves_nothing_behind(make_job, log_dir, files):
    began = files()
    started = launch(make_job(script={"start": [["touch", began]]}))
    started.release()
    answer = started.answer()
    assert isinstance(answer, Refused)
    assert "its viewer is gone" in answer.reason
    eventually(lambda: started.process.poll() is not None, "the supervisor to end")
    assert not log_dir.exists()
    assert not Path(began).exists()


def test_output_after_the_last_record_is_kept(start):
    session = start(script={"closed": [["say", "good", "stderr"], ["say", "bye\n"]]})
    assert session.wait_for_end().status == "completed"
    assert {line.text for line in session.records(Output)} == {"good", "bye"}
    wait_until_gone(session._launch.process.pid)


def sense_by(monkeypatch, kind):
    program = (
        "import functools, sys; from dlmon.supervisor import __main__ as m, supervisor as s; "
        "command = [sys.executable, '-P', *sys.argv[1:]]; "
        "s.SensorsProcess = functools.partial(s.SensorsProcess, command=command); m.main()"
    )
    command = [sys.executable, "-P", "-c", program, sensors.__file__, kind]
    monkeypatch.setattr(dlmon.launch.supervisor_process, "python_command", lambda module: command)


def test_what_sensors_read_early_late_and_by_a_meter_is_in_the_log(start, monkeypatch):
    sense_by(monkeypatch, "metered")
    session = start(epochs=3, steps=100, step_s=0.005)
    assert session.header.machine.gpus is None
    result = session.wait_for_end()
    # A GPU that was found while the run went on.
    assert [facts.machine.gpus for facts in session.records(Facts)] == [(sensors.LATE_GPU,)]
    # What was read before there was a log is in its first sample.
    first, second, *_ = session.records(Machine)
    assert (first.memory, first.cpu.pct) == (sensors.EARLY_MEMORY, 50.0)
    assert second.memory is None
    epochs = session.records(Epoch)
    seconds = sum(epoch.end - epoch.begin for epoch in epochs) / len(epochs) / 1e9
    assert result.energy_j_per_epoch is not None, result.why["energy_j_per_epoch"]
    assert result.energy_j_per_epoch["cpu"] == pytest.approx(sensors.WATTS * seconds, rel=0.2)
