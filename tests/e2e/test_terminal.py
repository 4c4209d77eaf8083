"""The real app in a real terminal: tmux draws it, sends keys, and says how it was left."""

from __future__ import annotations

import json
import os
import pty
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import termios
import time
from pathlib import Path

import psutil
import pytest
from fakes.interpreter import scripted_interpreter
from fakes.recorded import recorded_session, write_log
from fakes.sessions import (
    DEADLINE_S,
    FAKES,
    Log,
    eventually,
    is_stopped,
    the_log_in,
    wait_until_gone,
)

from dlmon.exit_codes import FAILED
from dlmon.records import Epoch

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")

MANY = 100_000
TRAINING = f"/{MANY}"
PROMPT = "bash-"


class Terminal:
    """A shell in a terminal of its own, and what stands on its screen."""

    def __init__(self, folder, width=120, height=40):
        # The path of a socket may not be long, as that of a test's folder may be.
        self._folder = tempfile.mkdtemp(prefix="dlmon-")
        # Which pytest-xdist sets, and which Textual believes rather than the terminal.
        sizes = ("COLUMNS", "LINES")
        self._environment = {
            **{name: value for name, value in os.environ.items() if name not in sizes},
            "LC_ALL": "C.UTF-8",
            "XDG_STATE_HOME": str(folder),
            "HISTFILE": "",
        }
        size = ("-x", str(width), "-y", str(height))
        shell = "bash --norc --noprofile -i"
        self._tmux("-f", os.devnull, "new-session", "-d", *size, shell)

    def _tmux(self, *arguments):
        return subprocess.run(
            ["tmux", "-u", "-S", f"{self._folder}/tmux", *arguments],
            env=self._environment,
            capture_output=True,
            text=True,
            check=True,
            timeout=DEADLINE_S,
        ).stdout

    def ask(self, name):
        """Return what tmux says of the terminal, such as `alternate_on`."""
        return self._tmux("display-message", "-p", f"#{{{name}}}").strip()

    @property
    def text(self):
        return self._tmux("capture-pane", "-p")

    def type(self, command):
        self._tmux("send-keys", "-l", command)
        self._tmux("send-keys", "Enter")

    def press(self, *keys):
        self._tmux("send-keys", *keys)

    def resize(self, width, height):
        self._tmux("resize-window", "-x", str(width), "-y", str(height))

    def wait_for(self, *parts, without=None):
        """Wait until the screen shows all of these, and not `without`; return its text."""
        deadline = time.monotonic() + DEADLINE_S
        while True:
            text = self.text
            if all(part in text for part in parts) and (without is None or without not in text):
                return text
            assert time.monotonic() < deadline, f"waited in vain for {parts} in\n{text}"
            time.sleep(0.05)

    def wait_until_it_takes_keys(self):
        """Wait until Ctrl+C is a key to what runs here, as it is to a screen only.

        A screen that comes back may paint before it reads; what is typed meanwhile is lost.
        """
        with Path(self.ask("pane_tty")).open() as tty:
            eventually(
                lambda: not termios.tcgetattr(tty)[3] & termios.ISIG, "the keys to be the screen's"
            )

    def run(self, *command):
        """Type a command that prints its exit code when it has ended."""
        self.type(f"{shlex.join(map(str, command))}; echo exit code: $?")

    def viewer(self, part):
        """Return the pid of the shell's child whose command line holds `part`."""
        shell = psutil.Process(int(self.ask("pane_pid")))
        return eventually(
            lambda: next((c.pid for c in shell.children() if part in " ".join(c.cmdline())), None),
            f"{part} to run in the terminal",
        )

    def assert_left_as_it_was(self):
        """The first screen is back, with a cursor, and the mouse is the shell's own."""
        asked = ("alternate_on", "mouse_any_flag", "cursor_flag")
        assert [self.ask(name) for name in asked] == ["0", "0", "1"]

    def close(self):
        """End the terminal as a window that is closed: what runs in it gets SIGHUP."""
        shell = int(self.ask("pane_pid"))
        self.kill()
        wait_until_gone(shell)

    def kill(self):
        """End the tmux server, if it still runs."""
        subprocess.run(["tmux", "-S", f"{self._folder}/tmux", "kill-server"], capture_output=True)
        shutil.rmtree(self._folder, ignore_errors=True)


@pytest.fixture
def terminal(tmp_path):
    """Return a function that opens a terminal."""
    opened = []

    def open_one(**size):
        opened.append(Terminal(tmp_path, **size))
        opened[-1].wait_for(PROMPT)
        return opened[-1]

    yield open_one
    for one in opened:
        one.kill()


@pytest.fixture
def run_on_screen(terminal, make_job, tmp_path):
    """Return a function that runs the scripted workload on a screen; it stops with the test."""
    logs = []

    def run(**options):
        job = make_job(step_s=0.002, **options)
        (tmp_path / "job").write_bytes(job.to_line())
        shell = terminal()
        shell.run(sys.executable, FAKES / "viewer.py", "--screen", tmp_path / "job")
        logs.append(Log(the_log_in(tmp_path / "sessions")))
        return shell, logs[-1]

    yield run
    for log in logs:
        pid = log.supervisor_pid
        if pid is not None:
            os.kill(pid, signal.SIGTERM)
            wait_until_gone(pid)


def test_a_run_shows_its_phases_and_figures_and_is_stopped_by_a_key(
    terminal, log_dir, dlmon_command, files, tmp_path
):
    imported = files()
    script = {"importing": [["wait_for", imported]]}
    python = scripted_interpreter(tmp_path / "python", steps=300, step_s=0.01, script=script)
    shell = terminal()
    run = ("run", "mnist-mlp-small", "--epochs", "1000", "--python", python)
    shell.run(dlmon_command, *run, "--log-dir", log_dir)
    shell.wait_for("─ Starting ─", "importing", "mnist-mlp-small", "s Stop")
    Path(imported).touch()
    shell.wait_for("training", "/1000", "samples/s", " of 300")
    assert shell.ask("alternate_on") == "1"
    shell.press("s")
    shell.wait_for("Stop this run?")
    shell.press("s")
    stopped = shell.wait_for("stopped after", "a Again  l Log", "q Quit")
    assert "s Stop" not in stopped
    shell.press("q")
    said = shell.wait_for("exit code: 130")
    assert "stopped; recorded in" in said
    assert f"{log_dir}" in said.replace("\n", "")
    shell.assert_left_as_it_was()
    assert Log(the_log_in(log_dir)).status == "stopped"


def test_from_home_a_run_is_started_left_running_found_and_stopped(
    terminal, tmp_path, dlmon, dlmon_command, without_keras, monkeypatch
):
    (tmp_path / "config.toml").write_text(f'[run]\npython = "{without_keras}"\nepochs = {MANY}\n')
    monkeypatch.setenv("DLMON_CONFIG", str(tmp_path / "config.toml"))
    directory = tmp_path / "dlmon" / "sessions"
    environment = {"XDG_STATE_HOME": str(tmp_path)}
    shell = terminal(width=80, height=24)
    shell.run(dlmon_command)
    shell.wait_for("My script", "cifar10-cnn", "cores")
    shell.press("/", *"small")
    shell.wait_for("dlmon run mnist-mlp-small")
    shell.press("Enter")
    shell.wait_for("Throughput", "training", "mnist-mlp-small")
    log = Log(the_log_in(directory))
    shell.press("q")
    shell.wait_for("is still training.")
    shell.press("d")
    shell.wait_for("2 of 20")
    # The filter is as it was left; q would be a letter of it.
    shell.press("Escape")
    shell.wait_for("20 workloads")
    shell.press("q")
    shell.wait_for("exit code: 0")
    shell.assert_left_as_it_was()

    (reported,) = json.loads(dlmon("sessions", "--json", environment=environment).stdout)
    assert (reported["session"], reported["status"]) == (log.header.id, "running")
    assert dlmon("stop", "last", environment=environment).returncode == 0
    assert log.wait_for_end().status == "stopped"


def test_a_detached_run_is_replayed_from_another_terminal_while_it_runs_and_after(
    terminal, start, log_dir, dlmon, dlmon_command
):
    log = start(detached=True, epochs=1000, steps=200, step_s=0.02)
    log.wait_for(Epoch)
    shell = terminal()
    shell.run(dlmon_command, "replay", "last", "--log-dir", log_dir)
    shell.wait_for("replay 1×", " so far", "space Pause", "[] Speed", "nN To mark")
    shell.press("Space")
    shell.wait_for("paused, 1×")
    shell.press("N")
    shell.wait_for("end of epoch ")
    shell.press("q")
    shell.wait_for("exit code: 0")
    shell.assert_left_as_it_was()
    assert log.status == "running"
    assert dlmon("stop", "last", "--log-dir", str(log_dir)).returncode == 0
    assert log.wait_for_end().status == "stopped"
    shell.run(dlmon_command, "replay", "last", "--log-dir", log_dir)
    shell.wait_for("space Play")
    shell.press("End")
    shell.wait_for("stopped after")
    shell.press("q")


def test_the_screen_follows_the_size_of_its_terminal(terminal, log_dir, dlmon_command):
    write_log(log_dir, recorded_session("training"))
    shell = terminal()
    shell.run(dlmon_command, "attach", "last", "--log-dir", log_dir)
    shell.wait_for("Throughput", "Loss")
    shell.resize(40, 10)
    shell.wait_for("dlmon needs at least 60 × 16.")
    shell.resize(80, 24)
    shell.wait_for("Throughput", "q Quit")
    shell.press("C-c")
    shell.wait_for("exit code: 0")


def test_a_run_that_is_left_running_goes_on_without_its_terminal(run_on_screen):
    shell, log = run_on_screen(epochs=MANY)
    shell.wait_for(TRAINING)
    shell.press("q")
    shell.wait_for("is still training.")
    shell.press("d")
    shell.wait_for("is still running; dlmon attach", "exit code: 0")
    shell.close()
    epochs = len(log.records(Epoch))
    log.wait_for(Epoch, lambda epoch: epoch.epoch > epochs)
    assert log.status == "running"


def test_a_screen_ends_with_a_terminal_that_sends_no_signal(tmp_path):
    ours, its = pty.openpty()
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path), "TERM": "xterm-256color"}
    # In a session of its own it has no controlling terminal, so the kernel sends no SIGHUP.
    command = [Path(sys.executable).with_name("dlmon"), "watch"]
    viewer = subprocess.Popen(
        command, stdin=its, stdout=its, stderr=its, env=environment, start_new_session=True
    )
    os.close(its)
    seen = b""
    while b"sensors" not in seen:
        seen += os.read(ours, 1 << 16)
    os.close(ours)
    assert viewer.wait(DEADLINE_S) == FAILED


def epoch_on(shell):
    """Return the epoch that the live screen says it is in, as people count it."""
    text = shell.wait_for("Throughput", "s Stop", "training  epoch ")
    return int(text.partition("training  epoch ")[2].partition("/")[0])


def test_a_suspended_screen_gives_the_terminal_back_and_catches_up(run_on_screen):
    shell, log = run_on_screen(epochs=MANY)
    shell.wait_for(TRAINING)
    viewer = shell.viewer("viewer.py")
    os.kill(viewer, signal.SIGTSTP)
    eventually(lambda: is_stopped(viewer), "the screen to be suspended")
    shell.wait_for("Stopped")
    shell.assert_left_as_it_was()
    reached = log.records(Epoch)[-1].epoch
    log.wait_for(Epoch, lambda epoch: epoch.epoch > reached + 20)
    shell.type("fg; echo back with $?")
    # The first paint is of what stood there before.
    eventually(lambda: epoch_on(shell) > reached + 1, "the screen to catch up")
    shell.wait_until_it_takes_keys()
    shell.press("q")
    shell.wait_for("is still training.")
    shell.press("s")
    shell.wait_for("back with 130")
    assert log.wait_for_end().status == "stopped"


def test_a_screen_is_suspended_even_while_it_writes(terminal):
    shell = terminal()
    shell.type(shlex.join((sys.executable, str(FAKES / "suspended_viewer.py"))))
    shell.wait_for("Stopped")
    shell.assert_left_as_it_was()
    shell.type("fg; echo back with $?")
    shell.wait_for("cores", "q Quit")
    shell.wait_until_it_takes_keys()
    shell.press("q")
    shell.wait_for("back with 0")
    shell.assert_left_as_it_was()


def test_a_screen_that_was_stopped_unasked_takes_keys_and_gives_the_terminal_back(run_on_screen):
    shell, log = run_on_screen(epochs=MANY)
    shell.wait_for(TRAINING)
    viewer = shell.viewer("viewer.py")
    for _ in range(2):
        os.kill(viewer, signal.SIGSTOP)
        shell.wait_for("Stopped")
        shell.type("clear; fg")
        # What it painted before stands there beside that word until `clear` has run.
        shell.wait_for("Throughput", "s Stop", without="Stopped")
        shell.wait_until_it_takes_keys()
    shell.press("q")
    shell.wait_for("is still training.")
    shell.press("s")
    shell.wait_for("stopped; recorded in")
    assert log.wait_for_end().status == "stopped"
    shell.assert_left_as_it_was()
