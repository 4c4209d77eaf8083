"""Real sessions of the scripted workload, and what a test may ask of their processes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil

from dlmon.launch.supervisor_process import SupervisorProcess
from dlmon.log.directory import read_entry
from dlmon.log.folder import LOG_NAME
from dlmon.log.log_follower import LogFollower
from dlmon.protocol.job import Refused
from dlmon.records import Batches, BatchSummary, Notice, Result, decode

FAKES = Path(__file__).parent
FAKE_WORKLOAD = (sys.executable, "-P", str(FAKES / "workload.py"))
DEADLINE_S = 120.0


def eventually(condition, what):
    """Return what `condition` returns once it is true; fail if that takes too long."""
    deadline = time.monotonic() + DEADLINE_S
    while True:
        begin = time.monotonic()
        found = condition()
        if found:
            return found
        looked_at = time.monotonic()
        assert looked_at < deadline, f"waited {DEADLINE_S:.0f} s in vain for {what}"
        # What takes long to look at leaves the CPU to what is waited for.
        time.sleep(max(0.02, 4 * (looked_at - begin)))


async def until(condition):
    """Let the loop go on until a condition holds."""
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - it is the loop that is let go on
            await asyncio.sleep(0)


def is_alive(pid):
    """Whether a process runs; a zombie does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def is_stopped(pid):
    return psutil.Process(pid).status() == psutil.STATUS_STOPPED


def wait_until_gone(pid):
    eventually(lambda: not is_alive(pid), f"the end of process {pid}")


def suspend(pid):
    os.kill(pid, signal.SIGSTOP)
    eventually(lambda: is_stopped(pid), f"process {pid} to stop")


def resume(pid):
    os.kill(pid, signal.SIGCONT)


def children_of(pid):
    try:
        return psutil.Process(pid).children()
    except psutil.NoSuchProcess:
        return []


class Log:
    """What a session has recorded so far."""

    def __init__(self, path):
        self.path = Path(path)
        self._follower = LogFollower(self.path)
        self._records = []
        self.header = self._follower.header

    def records(self, kind=object):
        while more := self._follower.poll():
            self._records.extend(more)
        return [record for record in self._records if isinstance(record, kind)]

    def wait_for(self, kind, condition=lambda record: True):
        """Return the first record of a kind that meets a condition, once it is there."""
        return eventually(
            lambda: next((r for r in self.records(kind) if condition(r)), None),
            f"a {kind.__name__} record in {self.path}",
        )

    def count_batches(self):
        """Return how many batches are recorded, checking that they follow each other."""
        batches, epoch, first = 0, 0, 0
        for record in self.records((Batches, BatchSummary)):
            if record.epoch != epoch:
                epoch, first = record.epoch, 0
            count = record.count if isinstance(record, BatchSummary) else len(record.dt_us)
            assert record.first == first, "batches are missing, or recorded twice"
            first += count
            batches += count
        return batches

    def wait_for_notice(self, part):
        return self.wait_for(Notice, lambda notice: part in notice.text)

    def notices(self):
        return [notice.text for notice in self.records(Notice)]

    @property
    def result(self):
        last = self.records()[-1:]
        return last[0] if last and isinstance(last[0], Result) else None

    @property
    def status(self):
        return read_entry(self.path).status

    def check_lines(self):
        """Check that each whole line of the log is a record."""
        for line in filter(None, self.path.read_bytes().split(b"\n")[:-1]):
            decode(line)

    @property
    def supervisor_pid(self):
        return self._follower.writer_pid()

    def child(self, part):
        """Return the pid of the supervisor's child whose command line holds `part`."""

        def find():
            for process in children_of(self.supervisor_pid):
                with contextlib.suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
                    if any(part in word for word in process.cmdline()):
                        return process.pid
            return None

        return eventually(find, f"{part} to run")

    @property
    def workload_pid(self):
        return self.child("workload")

    @property
    def sensors_pid(self):
        return self.child("dlmon.sensors")

    def wait_for_end(self):
        """Return the result of a session that ends by itself."""
        pid = self.supervisor_pid
        result = self.wait_for(Result)
        if pid is not None:
            wait_until_gone(pid)
        assert self.result == result, "the result is not the last line"
        self.check_lines()
        return result


class Session(Log):
    """A session to whose supervisor this test holds the pipe."""

    def __init__(self, started: SupervisorProcess):
        answer = started.answer()
        assert not isinstance(answer, Refused), answer
        super().__init__(answer.log)
        self._launch = started

    def say(self, word):
        self._launch.send(word)

    def said(self):
        return self._launch.new_records()

    def release(self):
        self._launch.release()

    def wait_for_end(self):
        result = super().wait_for_end()
        eventually(lambda: self._launch.process.poll() is not None, "the supervisor to end")
        return result


class Printing:
    """A process that prints into files of a folder."""

    def __init__(self, folder, command, **options):
        folder = Path(folder)
        folder.mkdir(exist_ok=True)
        self._stdout, self._stderr = folder / "stdout", folder / "stderr"
        with self._stdout.open("wb") as out, self._stderr.open("wb") as errors:
            options = {"stdin": subprocess.DEVNULL, **options}
            self.process = subprocess.Popen(command, stdout=out, stderr=errors, **options)
        self.pid = self.process.pid

    @property
    def stdout(self):
        return self._stdout.read_text()

    @property
    def stderr(self):
        return self._stderr.read_text()

    def wait_for_line(self, part):
        eventually(lambda: part in self.stdout + self.stderr, f"{part!r} in what it prints")

    def exit_code(self):
        return self.process.wait(DEADLINE_S)


class PlainViewer(Printing):
    """A process that launches a session and shows it, as `dlmon run --plain` does."""

    def __init__(self, job, folder, *arguments):
        command = [sys.executable, str(FAKES / "viewer.py"), *arguments]
        super().__init__(folder, command, stdin=subprocess.PIPE)
        self._log_dir = Path(job.log_dir)
        self.process.stdin.write(job.to_line())
        self.process.stdin.close()

    @property
    def log(self):
        return Log(the_log_in(self._log_dir))


def the_log_in(directory):
    """Return the one log of a directory, once it is there."""
    return eventually(
        lambda: next(iter(directory.glob(f"*/{LOG_NAME}")), None), f"a log in {directory}"
    )
