"""Events that really happen, and what a server hears of them: each once, with its end."""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from fakes.hook import HANGS, Hook
from fakes.sessions import Log, Printing, eventually, the_log_in
from fakes.sshd import lacks_sshd

from dlmon.alerts.alert_settings import AlertSettings
from dlmon.log.directory import list_sessions
from dlmon.records import Alert, AlertEvent, Result

needs_sshd = pytest.mark.skipif(lacks_sshd() is not None, reason=str(lacks_sshd()))
# What a machine of the tests has on its disk is no matter of theirs.
QUICK = AlertSettings(disk_pct=0, disk_gib=0, over_s=0.3, stalled_s=1.0)


@pytest.fixture
def hook(no_process_survives):
    hook = Hook()
    yield hook
    hook.close()


def alerts_to(hook, **changes):
    return asdict(replace(QUICK, url=(hook.url,), **changes))


def heard(hook):
    """Return each event that a server has heard of, and whether it was its end."""
    bodies = [each for body in hook.bodies for each in body.get("events", [body])]
    return [(body["event"], body["over"]) for body in bodies]


def recorded(log):
    return [(alert.event.value, alert.over) for alert in log.records(Alert)]


def assert_no_secret_in(folder):
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if b"s3cret" in path.read_bytes()]


def test_the_end_of_a_run_is_sent_once_before_its_result(start, hook, log_dir):
    session = start(alerts=alerts_to(hook), epochs=2, name="mine")
    result = session.wait_for_end()
    assert (result.status, heard(hook)) == ("completed", [("finished", False)])
    (body,) = hook.bodies
    assert (body["session"], body["name"]) == (session.header.id, "mine")
    where = f"--log-dir {log_dir} {session.header.id}"
    assert body["attach"] == f"dlmon attach {where}"
    assert len(body["figures"]) == 2
    assert recorded(session) == [("finished", False)]
    assert_no_secret_in(log_dir)


def test_a_stall_is_sent_while_it_lasts_and_its_end_with_the_next_message(start, hook, files):
    go_on, end = files(), files()
    script = {"step 15": [["wait_for", go_on]], "end of epoch 2": [["wait_for", end]]}
    settings = alerts_to(hook)
    session = start(alerts=settings, script=script, epochs=3, steps=60, step_s=0.02)
    eventually(lambda: hook.bodies, "the alert")
    (alert,) = session.records(Alert)
    sent_s = hook.times[0] - alert.t / 1e9
    assert sent_s < 30, "it waits for no other message of its minute"
    assert hook.bodies[0]["text"].startswith("STALLED: no batch for ")
    Path(go_on).touch()
    session.wait_for(Alert, lambda alert: alert.over)
    Path(end).touch()
    session.wait_for_end()
    assert heard(hook) == [("stalled", False), ("stalled", True), ("finished", False)]
    assert len(hook.bodies) == 2, "what comes within a minute is one message"


def test_a_run_that_ends_while_messages_wait_ends_with_a_notice(start):
    hook = Hook(HANGS)
    try:
        session = start(alerts=alerts_to(hook), epochs=1)
        session.wait_for(Alert)
        assert session.wait_for_end().status == "completed"
        notices = [text for text in session.notices() if "alert" in text]
        assert len(notices) == 1
        assert "s3cret" not in notices[0]
    finally:
        hook.close()


def test_a_recording_tells_of_a_gpu_that_is_hot_and_of_one_that_is_lost(
    dlmon, own_driver, hook, log_dir, tmp_path, monkeypatch
):
    (tmp_path / "config.toml").write_text(
        "[alerts]\ngpu_hot_s = 0\ngpu_lost_s = 0\nover_s = 0\ndisk_pct = 0\ndisk_gib = 0\n"
    )
    monkeypatch.setenv("DLMON_CONFIG", str(tmp_path / "config.toml"))
    own_driver.says("gpus 1")
    how = ("--record", "--interval", "0.2", "--log-dir", str(log_dir))
    assert dlmon("watch", *how, "--detach", "--alert", hook.url).returncode == 0
    log = Log(the_log_in(log_dir))
    own_driver.says("gpus 1", "set 0 throttle 32")
    log.wait_for(Alert, lambda alert: alert.event == "gpu_hot")
    own_driver.says("gpus 1")
    log.wait_for(Alert, lambda alert: alert.event == "gpu_hot" and alert.over)
    own_driver.says("gpus 1", "answer * 0 15")
    log.wait_for(Alert, lambda alert: alert.event == "gpu_lost")
    own_driver.says("gpus 1")
    log.wait_for(Alert, lambda alert: alert.event == "gpu_lost" and alert.over)
    os.kill(log.supervisor_pid, signal.SIGTERM)
    log.wait_for(Result)
    assert recorded(log) == heard(hook)
    assert heard(hook)[:4] == [
        *(("gpu_hot", False), ("gpu_hot", True)),
        *(("gpu_lost", False), ("gpu_lost", True)),
    ]


@needs_sshd
def test_a_watched_host_that_is_lost_is_told_of(dlmon_command, network, hook, tmp_path):
    (tmp_path / "config.toml").write_text("[alerts]\nhost_lost_s = 0.5\nover_s = 0.5\n")
    box = network.add("lost")
    command = ["watch", "lost", "--plain", "--interval", "0.2", "--alert", hook.url]
    environment = {**os.environ, **network.environment()}
    environment |= {"DLMON_CONFIG": str(tmp_path / "config.toml")}
    environment |= {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    watching = Printing(tmp_path / "watching", [dlmon_command, *command], env=environment)
    try:
        watching.wait_for_line("lost ")
        box.stop()
        network.hosts.remove(box)
        eventually(lambda: hook.bodies, "the message")
    finally:
        watching.process.send_signal(signal.SIGINT)
        watching.exit_code()
    (body,) = hook.bodies
    assert (body["event"], body["over"], body["host"]) == ("host_lost", False, "lost")
    assert body["text"].startswith("lost has been lost for 0 s: ")


def test_the_test_sends_one_of_each(dlmon, hook):
    ran = dlmon("alerts", "--test", "--alert", hook.url)
    assert ran.returncode == 0, ran.stderr
    # Each event, but for an unknown one; and the end of one.
    assert len(hook.bodies) == len(AlertEvent)
    assert "s3cret" not in ran.stdout + ran.stderr
    hook.answers = [500]
    assert dlmon("alerts", "--test", "--alert", hook.url).returncode == 1


@needs_sshd
def test_a_host_sends_what_becomes_of_a_run_there_with_how_it_is_attached_from_here(
    laptop, network, hook
):
    box = network.add("box")
    command = ("--alert", hook.url, "--detach", "--", sys.executable, "-c", "1/0")
    ran = laptop.dlmon("exec", "--host", "box", *command)
    assert ran.returncode == 0, ran.stderr
    eventually(lambda: hook.bodies, "the message of the host")
    (body,) = hook.bodies
    assert body["event"] == "failed"
    assert "ZeroDivisionError" in body["text"]
    (session,) = list_sessions(box.log_dir)
    assert body["attach"] == f"dlmon attach --host box {session.header.id}"
    eventually(lambda: list_sessions(box.log_dir)[0].result, "its end")
