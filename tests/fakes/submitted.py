"""Sessions that were handed to Slurm, and a Slurm that answers what a test says."""

from __future__ import annotations

from dataclasses import replace

from dlmon.log.folder import LOG_NAME
from dlmon.log.submitted import Submitted, write_submitted
from dlmon.slurm.job_follower import JobWatch
from dlmon.slurm.queue import JobState, QueuedJob
from dlmon.system.private_files import make_private_folder

SUBMITTED_WALL = 1_795_806_000.0
JOB = {
    "workload": "train.py",
    "command": ["python", "train.py"],
    "options": {"interval": 1.0},
    "log_dir": "",
    "script": True,
    "directory": "/work",
}


def submit(log_dir, session="20261127-190000-train-py-1a2b", **fields):
    """Write what is known of a session that Slurm has yet to start, and return its log."""
    log = log_dir / session / LOG_NAME
    make_private_folder(log.parent)
    known = {"slurm_job": "12", "options": "-p gpu", **fields}
    made = Submitted(session, SUBMITTED_WALL, "login", {**JOB, "session": session}, **known)
    write_submitted(log, made)
    return log


class Queue:
    """How one job stands, and how often that was asked."""

    def __init__(self, state=JobState.PENDING, **fields):
        self.job = QueuedJob(id="12", state=state, restarts=0, **fields)
        self.now = 0.0
        self.asked = 0
        self.refusal = None

    def __call__(self, number):
        self.asked += 1
        if self.refusal is not None:
            raise self.refusal
        return self.job

    def becomes(self, state, **fields):
        self.job = None if state is None else replace(self.job, state=state, **fields)

    def watch(self):
        return WatchNow("12", self, lambda: self.now)


class WatchNow(JobWatch):
    """Asks at once, and not in a thread."""

    def look(self):
        self._ask()
