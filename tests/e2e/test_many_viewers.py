"""Many viewers of one session at once: each sees all of it, and none of them changes anything."""

from __future__ import annotations

import fcntl
import os
import re
import subprocess
from pathlib import Path

import pytest
from fakes.sessions import DEADLINE_S, Printing, eventually, resume, suspend
from fakes.terminal import PseudoTerminal

from dlmon.records import Epoch

EPOCHS, STEPS = 6, 20
SMALLEST_PIPE = 4096
# Only the live screen shows it, not the one that stands while the log is read.
LIVE = "Seconds per epoch"
ESCAPES = re.compile(rb"\x1b(\[[0-9;?]*[A-Za-z]|\].*?\x07)")


@pytest.fixture
def attach(dlmon_command, log_dir, files, ended_with_test):
    """Return a function that attaches a viewer to the last session, which ends with the test."""
    command = [dlmon_command, "attach", "last", "--plain", "--log-dir", str(log_dir)]
    return lambda: ended_with_test(Printing(files(), command))


@pytest.fixture
def screen(dlmon_command, log_dir):
    """Return a function that attaches a screen to the last session."""
    terminals = []

    def begin():
        command = [dlmon_command, "attach", "last", "--log-dir", log_dir]
        terminals.append(PseudoTerminal(command).__enter__())
        return terminals[-1]

    yield begin
    for terminal in terminals:
        if terminal.process.poll() is None:
            resume(terminal.process.pid)
        terminal.__exit__()


def shows(terminal, text):
    """Wait until a screen has shown a text since it was last asked."""
    eventually(
        lambda: text in ESCAPES.sub(b"", terminal.written).decode("utf-8", "replace"),
        f"{text!r} on a screen",
    )


def assert_saw_all(viewer):
    for epoch in range(1, EPOCHS + 1):
        assert viewer.stdout.count(f"epoch {epoch}/{EPOCHS} took") == 1
    assert " completed; recorded in " in viewer.stdout
    assert viewer.stderr == ""


def test_each_of_many_viewers_sees_all_and_none_holds_up_the_session(
    start, attach, screen, dlmon_command, log_dir, files
):
    """One is killed, two are suspended, and what one prints is not read."""
    first, second = files(), files()
    script = {"epoch 1": [["wait_for", first]], "epoch 3": [["wait_for", second]]}
    session = start(detached=True, epochs=EPOCHS, steps=STEPS, script=script)
    session.release()
    session.wait_for(Epoch)
    plain = [attach() for _ in range(3)]
    screens = [screen(), screen()]
    killed, suspended = attach(), attach()
    command = [dlmon_command, "attach", "last", "--plain", "--log-dir", str(log_dir)]
    reads, writes = os.pipe()
    fcntl.fcntl(writes, fcntl.F_SETPIPE_SZ, SMALLEST_PIPE)
    os.write(writes, b"x" * SMALLEST_PIPE)
    with subprocess.Popen(command, stdout=writes, stderr=subprocess.DEVNULL) as unread:
        os.close(writes)
        for viewer in (*plain, killed, suspended):
            viewer.wait_for_line(f"epoch 1/{EPOCHS} took")
        for terminal in screens:
            shows(terminal, LIVE)
        suspend(suspended.process.pid)
        suspend(screens[0].process.pid)
        killed.process.kill()
        Path(first).touch()
        session.wait_for(Epoch, lambda epoch: epoch.epoch == 2)
        # As many more may come while it runs.
        late = attach()
        late.wait_for_line(f"epoch 3/{EPOCHS} took")
        Path(second).touch()
        result = session.wait_for_end()
        assert result.status == "completed"
        assert session.count_batches() == EPOCHS * STEPS
        assert session.notices() == []
        for viewer in (*plain, late):
            assert viewer.exit_code() == 0
            assert_saw_all(viewer)
        shows(screens[1], "completed")
        assert f"epoch 2/{EPOCHS}" not in suspended.stdout
        resume(suspended.process.pid)
        resume(screens[0].process.pid)
        assert suspended.exit_code() == 0
        assert_saw_all(suspended)
        shows(screens[0], "completed")
        assert unread.poll() is None
        with open(reads, "rb") as pipe:  # noqa: PTH123 - it is no path
            text = pipe.read().decode()
        assert unread.wait(DEADLINE_S) == 0
        assert text.count(f"epoch {EPOCHS}/{EPOCHS} took") == 1
    for terminal in screens:
        terminal.press("q")
        assert terminal.process.wait(DEADLINE_S) == 0
