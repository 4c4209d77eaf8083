"""What a viewer asks a supervisor to run; travels over its stdin as one line of JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, field
from typing import Any

from dlmon.records.record import record


@record(frozen=True)
class Job:
    """One session to be.

    `command` is started with `options`, as JSON, on its stdin. `device` and `devices` are as
    `choose_device` takes them; with `pcie`, what crosses the GPUs' PCIe links is measured. A
    session that `outlives_viewer` goes on where the lifeline ends without a word. A workload that
    is asked to stop gets SIGTERM after `terminate_after_s`, and SIGKILL `kill_after_s` later.
    Without a command there is no workload: the machine alone is recorded, for `for_s` or until it
    is stopped. The session is called `name` from its start.

    With `script`, the command is a person's own: it runs in `directory` with its environment, reads
    `stdin_fd` where there is one, and writes to a terminal of `terminal` columns and rows where a
    viewer has one. What it writes is copied to `copy_fds`, files for its stdout and stderr, where
    somebody is to see it as it is. A script that is a `process` already is watched, and not
    started.

    Who isn't looking is told of it as `alerts` say: the fields of `AlertSettings`.

    The supervisor writes its answer, and what the log can't take, to `answer_fd`.

    Of a job of Slurm's, `session` is the id that its session has, whose folder is there; then no
    viewer holds a lifeline. `own_signal` is the name of the one that the script handles itself.
    """

    workload: str
    command: tuple[str, ...]
    options: dict[str, Any]
    log_dir: str
    device: str = "auto"
    devices: int | None = None
    interval_s: float = 1.0
    pcie: bool = False
    outlives_viewer: bool = False
    terminate_after_s: float = 5.0
    kill_after_s: float = 3.0
    environment: dict[str, str] = field(default_factory=dict)
    name: str | None = None
    for_s: float | None = None
    script: bool = False
    process: int | None = None
    directory: str | None = None
    terminal: tuple[int, int] | None = None
    stdin_fd: int | None = None
    copy_fds: tuple[int, int] | None = None
    answer_fd: int | None = None
    alerts: dict[str, Any] | None = None
    session: str | None = None
    own_signal: str | None = None

    @property
    def is_machine_recording(self) -> bool:
        return not self.command

    def to_line(self) -> bytes:
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def from_line(cls, line: bytes) -> Job:
        return cls.from_fields(json.loads(line))

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> Job:
        """Return the job of fields that were JSON."""
        fields = dict(fields)
        for name in ("command", "terminal", "copy_fds"):
            if fields.get(name) is not None:
                fields[name] = tuple(fields[name])
        return cls(**fields)


@record(frozen=True)
class Started:
    """The supervisor's answer when the session is on its way."""

    session: str
    log: str


@record(frozen=True)
class Refused:
    """The supervisor's answer when nothing was started: why, and the exit code.

    `permanent` says that the machine lacks what was asked for; any other reason may have passed
    at the next try.
    """

    reason: str
    exit_code: int
    permanent: bool = False


@record(frozen=True)
class RemoteStart:
    """A session of a host.

    Attributes:
        host: the host.
        session: its id, its name, a unique prefix of the id, or last.
        log_dir: where sessions live there; None for where they do by default.
        job: what is started there first; `session` is then of no account.
        slurm: what is asked of the Slurm there, as it was typed, where that is to run the job.
    """

    host: str
    session: str = "last"
    log_dir: str | None = None
    job: Job | None = None
    slurm: str | None = None
