"""What fails, made to fail: each row of the design's table, with real processes and signals."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import psutil
import pytest
from fakes.sessions import (
    FAKE_WORKLOAD,
    eventually,
    is_alive,
    is_stopped,
    resume,
    suspend,
    wait_until_gone,
)

import dlmon.launch.supervisor_process
from dlmon.records import (
    Batches,
    BatchSummary,
    Epoch,
    Failure,
    Machine,
    Notice,
    Output,
    Phase,
    Result,
)
from dlmon.session.follower import SessionFollower

MANY = 100_000


def assert_totals(log, *, epochs, steps):
    """Every epoch was recorded once, whole, and so was every batch of it."""
    assert [(r.epoch, r.steps, r.whole) for r in log.records(Epoch)] == [
        (epoch, steps, True) for epoch in range(epochs)
    ]
    assert log.count_batches() == epochs * steps


# ---- the viewer ----


def test_a_local_session_stops_when_its_viewer_is_killed(view):
    viewer = view(epochs=MANY)
    log = viewer.log
    log.wait_for(Epoch)
    viewer.process.kill()
    result = log.wait_for_end()
    assert result.status == "stopped"
    assert any("its viewer is gone" in text for text in log.notices())


def test_a_local_session_goes_on_when_its_terminal_closes(view, files):
    viewer = view(epochs=2, script={"epoch 1": [["wait_for", go_on := files()]]})
    viewer.log.wait_for(Epoch)
    viewer.process.send_signal(signal.SIGHUP)
    assert viewer.exit_code() == 1
    Path(go_on).touch()
    assert viewer.log.wait_for_end().status == "completed"
    assert len(viewer.log.records(Epoch)) == 2


def test_a_local_session_stops_when_its_terminal_closes_if_that_was_asked_for(view):
    viewer = view(epochs=MANY, ends_with_terminal=True)
    log = viewer.log
    log.wait_for(Epoch)
    viewer.process.send_signal(signal.SIGHUP)
    assert log.wait_for_end().status == "stopped"
    assert "stopping: its terminal was closed" in log.notices()
    assert log.records(Result)[-1].stopped_by == "terminal_closed"
    assert viewer.exit_code() == 1


def test_a_suspended_viewer_slows_nothing_and_catches_up(view, files):
    go_on = files()
    viewer = view(epochs=4, script={"epoch 2": [["wait_for", go_on]]})
    log = viewer.log
    viewer.wait_for_line("epoch 1/4")
    suspend(viewer.pid)
    Path(go_on).touch()
    assert log.wait_for_end().status == "completed"
    assert is_stopped(viewer.pid)
    assert "epoch 4/4" not in viewer.stdout
    resume(viewer.pid)
    assert viewer.exit_code() == 0
    for epoch in range(1, 5):
        assert viewer.stdout.count(f"epoch {epoch}/4") == 1


# ---- the supervisor ----


def test_a_killed_supervisor_takes_the_workload_along_and_is_reported(view):
    viewer = view("--json", epochs=MANY)
    log = viewer.log
    log.wait_for(Epoch, lambda epoch: epoch.epoch == 1)
    workload, sensors = log.workload_pid, log.sensors_pid
    os.kill(log.supervisor_pid, signal.SIGKILL)
    wait_until_gone(workload)
    wait_until_gone(sensors)
    assert viewer.exit_code() == 1
    last_line = viewer.stderr.splitlines()[-1]
    assert last_line.startswith("dlmon: interrupted")
    assert str(log.path) in last_line
    assert viewer.stdout == ""
    assert "Traceback" not in viewer.stderr
    assert log.status == "interrupted"
    assert log.result is None
    assert len(log.records(Epoch)) >= 2


def test_a_workload_that_can_report_nothing_dies_with_its_supervisor_too(start, files):
    session = start(
        ignore=["SIGUSR1", "SIGTERM", "SIGPIPE"], script={"importing": [["wait_for", files()]]}
    )
    session.wait_for(Phase)
    workload = session.workload_pid
    os.kill(session.supervisor_pid, signal.SIGKILL)
    wait_until_gone(workload)


def test_training_goes_on_to_its_end_while_the_supervisor_is_suspended(start, files):
    """The pipe holds more than one read takes when the workload ends."""
    go_on = files()
    session = start(
        epochs=3,
        steps=100_000,
        step_s=0,
        script={"step 10": [["wait_for", go_on]], "closed": [["say", "the end"]]},
    )
    supervisor, workload = session.supervisor_pid, session.workload_pid
    session.wait_for(Batches)
    suspend(supervisor)
    Path(go_on).touch()
    wait_until_gone(workload)
    resume(supervisor)
    assert session.wait_for_end().status == "completed"
    assert_totals(session, epochs=3, steps=100_000)
    assert session.records(Output)[-1].text == "the end"


def test_a_full_pipe_never_blocks_training_and_costs_nothing(start, files):
    go_on, trained = files(), files()
    session = start(
        epochs=1,
        steps=900_000,
        step_s=3e-6,
        script={
            "epoch 0": [["wait_for", go_on], ["fill_pipe"]],
            "trained": [["touch", trained]],
        },
    )
    supervisor = session.supervisor_pid
    session.wait_for(Phase, lambda phase: phase.name == "compiling")
    suspend(supervisor)
    Path(go_on).touch()
    eventually(Path(trained).exists, "training to end with a full pipe")
    assert is_stopped(supervisor)
    resume(supervisor)
    assert session.wait_for_end().status == "completed"
    assert_totals(session, epochs=1, steps=900_000)
    assert not session.records(BatchSummary)


# ---- the sensors ----


def test_lost_sensors_are_replaced_and_training_never_notices(start, files):
    go_on = files()
    session = start(epochs=2, script={"epoch 1": [["wait_for", go_on]]})
    session.wait_for(Machine)
    lost = session.sensors_pid
    suspend(lost)
    reported = session.wait_for_notice("no sample")
    assert "again" in reported.text
    session.wait_for(Machine, lambda s: s.t > reported.t and s.process and s.process.rss_mib)
    assert session.sensors_pid != lost
    wait_until_gone(lost)
    Path(go_on).touch()
    assert session.wait_for_end().status == "completed"
    assert_totals(session, epochs=2, steps=20)
    times = [sample.t for sample in session.records(Machine)]
    assert times == sorted(times)
    assert max(b - a for a, b in pairwise(times)) > 0.75e9, "no gap was left"


def gpu_is_read(sample):
    return bool(sample.gpus)


def gpu_is_lost(sample):
    return sample.gpus is None and "lost" in sample.why.get("gpus", "")


@pytest.mark.parametrize("misbehaviour", ["hang", "crash"])
def test_a_driver_that_goes_wrong_costs_the_gpus_but_not_the_cpu(
    start, files, own_driver, misbehaviour
):
    go_on = files()
    session = start(epochs=2, script={"epoch 1": [["wait_for", go_on]]})
    session.wait_for(Machine, gpu_is_read)
    own_driver.says("gpus 1", f"{misbehaviour} nvmlDeviceGetUtilizationRates")
    lost = session.wait_for(Machine, gpu_is_lost)
    session.wait_for(
        Machine, lambda s: s.t > lost.t and s.cpu is not None and s.cpu.pct is not None
    )
    reason = "ended (segmentation fault)" if misbehaviour == "crash" else "gave no sample for"
    (reported,) = (text for text in session.notices() if "they go on without the GPUs" in text)
    assert reported.startswith(f"the sensors {reason}")
    own_driver.says("gpus 1")
    session.wait_for_notice("the sensors reach the GPUs again")
    session.wait_for(Machine, lambda s: s.t > lost.t and gpu_is_read(s))
    Path(go_on).touch()
    assert session.wait_for_end().status == "completed"
    assert_totals(session, epochs=2, steps=20)


def test_a_driver_that_hangs_from_the_start_holds_up_no_session(start, own_driver):
    own_driver.says("gpus 1", "hang nvmlInitWithFlags")
    session = start(epochs=1)
    assert session.header.machine.cores is not None
    assert session.header.machine.gpus is None
    assert "lost" in session.header.machine.why["gpus"]
    assert session.wait_for_end().status == "completed"


# ---- the workload ----


def test_an_exception_is_reported_in_its_words_with_the_last_output(view):
    viewer = view(
        epochs=3,
        script={
            "epoch 1": [
                ["say", "about to fail\n"],
                ["fail", "shapes [/x] and [@click=y] differ"],
            ]
        },
    )
    assert viewer.exit_code() == 1
    log = viewer.log
    assert log.result.status == "failed"
    assert log.result.error == "RuntimeError: shapes [/x] and [@click=y] differ"
    assert log.result.exit_code == 1
    assert log.records(Failure)
    assert len(log.records(Epoch)) == 1
    assert any("about to fail" in output.text for output in log.records(Output))
    assert "RuntimeError: shapes [/x] and [@click=y] differ" in viewer.stderr.splitlines()[-1]
    assert viewer.stderr.splitlines()[-1].startswith("dlmon: ")


@pytest.fixture
def limited_memory():
    """Return the start of a command line that gives what follows 256 MiB and no more."""
    group = _memory_group(256 << 20)
    yield ("/bin/sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh")
    eventually(lambda: _removed(group), "the control group to be empty")


def _memory_group(limit_bytes):
    v1, v2 = Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")
    name = f"dlmon-test-{os.getpid()}"
    try:
        if (v1 / "memory.limit_in_bytes").exists():
            group = v1 / name
            group.mkdir()
            (group / "memory.limit_in_bytes").write_text(str(limit_bytes))
            return group
        if "memory" in (v2 / "cgroup.subtree_control").read_text().split():
            group = v2 / name
            group.mkdir()
            (group / "memory.max").write_text(str(limit_bytes))
            if (group / "memory.swap.max").exists():
                (group / "memory.swap.max").write_text("0")
            return group
    except OSError as error:
        pytest.skip(f"no control group can be made here: {error}")
    return pytest.skip("there is no memory controller here")


def _removed(group):
    try:
        group.rmdir()
    except OSError:
        return False
    return True


def test_running_out_of_memory_is_reported_with_the_batch_size(start, limited_memory, files):
    go_on = files()
    session = start(
        command=(*limited_memory, *FAKE_WORKLOAD),
        batch_size=48,
        script={"end of epoch 0": [["wait_for", go_on], ["allocate"]]},
    )
    # A group that a workload moves to is known once its model is.
    session.wait_for(Batches)
    Path(go_on).touch()
    result = session.wait_for_end()
    assert result.status == "failed"
    assert result.error == "memory ran out (batch size 48): the workload ended by SIGKILL"
    assert result.exit_code == -signal.SIGKILL


def test_a_helper_that_holds_the_pipes_open_holds_up_nothing(start, files):
    pids = files()
    session = start(script={"epoch 1": [["leave_helper", pids, True]]})
    result = session.wait_for_end()
    assert result.status == "completed"
    assert_totals(session, epochs=2, steps=20)
    for pid in Path(pids).read_text().split():
        wait_until_gone(int(pid))


def test_garbage_among_the_records_is_refused_and_reported_once(start):
    forged = (
        '{"type":"result","status":"completed","session":"x","log":"x","workload":"x",'
        '"device":null,"options":{},"wall_s":1}'
    )
    nan = '{"type":"epoch","epoch":0,"begin":1,"train_end":NaN,"end":2,"whole":true}'
    huge = '{"type":"batches","epoch":0,"first":0,"samples":1,"t":1e999,"dt_us":[1]}'
    garbage = ["", "\x1b[31m", "not json", "[]", "{", nan, huge, "\udcff\udcfe", forged, "[" * 9999]
    session = start(script={"epoch 1": [["send", *garbage, '{"type":"of the future"}']]})
    result = session.wait_for_end()
    assert result.status == "completed"
    assert_totals(session, epochs=2, steps=20)
    assert len([text for text in session.notices() if "not a record" in text]) == 1


# ---- the log ----


@pytest.fixture
def small_disk(tmp_path):
    """A disk of one MiB, mounted for this test."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "none", place], capture_output=True, text=True
    )
    if mounted.returncode:
        pytest.skip(f"no disk can be mounted here: {mounted.stderr.strip()}")
    yield place
    subprocess.run(["umount", "--lazy", place], check=True)


def fill(disk):
    """Leave no room on a disk; return what takes it."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as out:
        try:
            while True:
                out.write(b"x" * 4096)
        except OSError:
            return filler


def test_a_full_disk_never_stops_training_and_epochs_come_when_there_is_room(
    start, small_disk, files
):
    go_on, trained = files(), files()
    session = start(
        log_dir=small_disk / "sessions",
        epochs=6,
        steps=200,
        script={"epoch 1": [["wait_for", go_on]], "trained": [["touch", trained]]},
    )
    session.wait_for(Epoch)
    filler = fill(small_disk)
    Path(go_on).touch()
    eventually(Path(trained).exists, "training to end on a full disk")
    viewer = SessionFollower(session.path)
    eventually(
        lambda: viewer.poll() is not None and viewer.problem and "is full" in viewer.problem,
        "the viewer to say that the disk is full",
    )
    viewer.close()
    assert session.status == "running"
    filler.unlink()
    result = session.wait_for_end()
    assert result.status == "completed"
    assert result.epochs == 6
    assert result.batches == 1200
    assert [epoch.epoch for epoch in session.records(Epoch)] == list(range(6))
    assert all(epoch.whole and epoch.steps == 200 for epoch in session.records(Epoch))
    assert any("the log could not be written for a while" in text for text in session.notices())


def limit_files(pid, most_bytes):
    """Let no file of a process grow beyond so many bytes; return what undoes that."""
    process = psutil.Process(pid)
    soft, hard = process.rlimit(psutil.RLIMIT_FSIZE)
    process.rlimit(psutil.RLIMIT_FSIZE, (most_bytes, hard))
    return lambda: process.rlimit(psutil.RLIMIT_FSIZE, (soft, hard))


def test_a_log_that_can_never_be_written_ends_the_wait_with_the_result_on_stderr(view, files):
    go_on, end = files(), files()
    viewer = view(
        epochs=3,
        script={"epoch 1": [["wait_for", go_on]], "trained": [["wait_for", end]]},
    )
    log = viewer.log
    log.wait_for(Epoch)
    limit_files(log.supervisor_pid, log.path.stat().st_size)
    Path(go_on).touch()
    why = "the log can't be written: it has reached the file-size limit"
    viewer.wait_for_line(f"dlmon: {why}; training goes on")
    Path(end).touch()
    assert viewer.exit_code() == 1
    assert log.result is None
    reported = viewer.stderr.splitlines()
    assert reported[-2] == f"dlmon: {why}: the result is not recorded; it is:"
    result = json.loads(reported[-1])
    assert (result["status"], result["epochs"], result["batches"]) == ("completed", 3, 60)
    assert "suspended" not in viewer.stderr


LOSSES = {
    "was removed": lambda path: shutil.rmtree(path.parent.parent),
    "was cut short": lambda path: os.truncate(path, 0),
}


@pytest.mark.parametrize(("reported", "lose"), LOSSES.items(), ids=LOSSES)
def test_the_result_of_a_log_that_is_lost_while_it_is_written_is_printed(
    view, files, reported, lose
):
    go_on = files()
    viewer = view(epochs=2, script={"epoch 1": [["wait_for", go_on]]})
    viewer.log.wait_for(Epoch)
    lose(viewer.log.path)
    why = f"the log {reported} by another program"
    viewer.wait_for_line(f"dlmon: {why}; training goes on")
    Path(go_on).touch()
    assert viewer.exit_code() == 1
    reported = viewer.stderr.splitlines()
    assert reported[-2] == f"dlmon: {why}: the result is not recorded; it is:"
    assert json.loads(reported[-1])["status"] == "completed"


def test_a_full_disk_can_be_given_up_on(start, small_disk, files):
    go_on = files()
    session = start(
        log_dir=small_disk / "sessions",
        epochs=2,
        # Enough to use up what the log's last page still holds.
        script={"epoch 1": [["wait_for", go_on], ["say", f"{'x' * 300}\n" * 40]]},
    )
    session.wait_for(Epoch)
    supervisor = session.supervisor_pid
    fill(small_disk)
    workload = session.workload_pid
    Path(go_on).touch()
    wait_until_gone(workload)
    assert is_alive(supervisor)
    # The first stop may come before the workload is reaped, and then mean the workload.
    eventually(lambda: session.say("stop") or not is_alive(supervisor), "the supervisor to give up")
    assert session.result is None
    session.check_lines()
    # The viewer that started it was sent the reason, and how the run ended.
    said = session.said()
    texts = [record.text for record in said if isinstance(record, Notice)]
    why = "the log can't be written: the disk is full"
    assert texts[0].startswith(f"{why}: make room; ")
    assert texts[-1] == why
    assert isinstance(said[-1], Result)
    assert said[-1].status == "completed"


def test_a_full_disk_is_waited_for_only_so_long_and_what_was_kept_is_handed_over(
    start, small_disk, files, monkeypatch
):
    program = "from dlmon.supervisor import __main__ as m, supervisor as s; s.FULL_DISK_S = 0.5"
    command = [sys.executable, "-P", "-c", f"{program}; m.main()"]
    monkeypatch.setattr(dlmon.launch.supervisor_process, "python_command", lambda module: command)
    go_on = files()
    session = start(
        log_dir=small_disk / "sessions",
        epochs=4,
        script={"epoch 1": [["wait_for", go_on], ["say", f"{'x' * 300}\n" * 40]]},
    )
    session.wait_for(Epoch)
    supervisor = session.supervisor_pid
    fill(small_disk)
    Path(go_on).touch()
    wait_until_gone(supervisor)
    assert session.result is None
    said = session.said()
    texts = [record.text for record in said if isinstance(record, Notice)]
    assert texts[-2].endswith("make room; the result waits for it for 0.00833333 minutes at most")
    in_log = [epoch.epoch for epoch in session.records(Epoch)]
    handed_over = [record.epoch for record in said if isinstance(record, Epoch)]
    assert [*in_log, *handed_over] == [0, 1, 2, 3]
    assert isinstance(said[-1], Result)


def test_a_script_without_a_screen_says_that_its_result_waits_for_a_full_disk(small_disk):
    script = f"""
import dlmon
with dlmon.training(samples=8, batch_size=1, epochs=3):
    for epoch in range(3):
        for step in range(8): dlmon.step()
        dlmon.epoch()
with open({str(small_disk / "filler")!r}, "wb", 0) as out:
    try:
        while True: out.write(bytes(512))
    except OSError:
        # Enough to use up what the log's last page still holds.
        print(("x" * 300 + "\\n") * 40)
"""
    words = ["exec", "--plain", "--log-dir", str(small_disk / "sessions"), "--"]
    command = [sys.executable, "-P", "-c", "from tui.start import main; main()", *words]
    with subprocess.Popen(
        [*command, sys.executable, "-c", script],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        waits = next(line for line in process.stderr if "the result waits" in line)
        assert waits.startswith("dlmon: the log can't be written: the disk is full: make room; ")
        assert "for 5 minutes at most" in waits
        (small_disk / "filler").unlink()
        rest = process.stderr.read()
    assert process.returncode == 0
    assert " completed; recorded in " in rest


def test_a_working_directory_that_vanishes_during_the_run_stops_nobody(
    view, tmp_path, monkeypatch, files
):
    here, go_on = tmp_path / "here", files()
    here.mkdir()
    monkeypatch.chdir(here)
    viewer = view(epochs=2, script={"epoch 1": [["wait_for", go_on]]})
    viewer.log.wait_for(Epoch)
    here.rmdir()
    os.kill(viewer.log.sensors_pid, signal.SIGKILL)
    lost = viewer.log.wait_for_notice("the sensors ended")
    viewer.log.wait_for(Machine, lambda sample: sample.t > lost.t)
    Path(go_on).touch()
    assert viewer.exit_code() == 0
