"""The job that a viewer gives a supervisor, as a line of JSON on its stdin, and the answer."""

from __future__ import annotations

import json
from dataclasses import asdict, field
from typing import Any

from dlmon.records.record import record


@record(frozen=True)
class Job:
    """One session to run.

    `command` is started with `options`, as JSON, on its stdin. `device` and `devices` are as
    `choose_device` takes them; with `pcie`, the traffic of the GPUs' PCIe links is measured. A
    session that `outlives_viewer` goes on if the viewer closes its pipe without a word. One that
    `ends_with_terminal` is stopped when the terminal of its viewer is closed. A workload that is
    asked to stop gets SIGTERM after `terminate_after_s`, and SIGKILL `kill_after_s` later.
    Without a command, only the machine is recorded, for `for_s` or until it is stopped. `name` is
    the session's name from its start.

    With `script`, the command is a person's own: it runs in `directory` with its environment, reads
    `stdin_fd` if there is one, and writes to a terminal of `terminal` columns and rows if the
    viewer has one. Its output is copied unchanged to `copy_fds`, files for stdout and stderr. If
    `process` is set, that running process is watched, and nothing is started.

    `alerts` holds the fields of `AlertSettings`. The supervisor writes its answer, and the records
    that the log can't take, to `answer_fd`.

    `injected` holds what the hooks set inside the script, by name: see
    `dlmon.records.injections`. `sweep` is the id of the sweep, or of the experiment of pairs, that
    the session is a run of.

    Runs on several hosts with the same `join` and log directory are one session; what hosts in
    `joined_by` record, whose log directory is another, is copied from them.

    `serve` is the address at which metrics of all running sessions are served.

    In a Slurm job, `session` is the id of its session, whose folder exists already; no viewer
    holds a pipe to its supervisor. `own_signal` names the signal that the script handles itself.
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
    ends_with_terminal: bool = False
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
    join: str | None = None
    joined_by: tuple[str, ...] = ()
    injected: dict[str, str | int | float] = field(default_factory=dict)
    serve: str | None = None
    sweep: str | None = None

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
        """Return a job from its decoded JSON."""
        fields = dict(fields)
        for name in ("command", "terminal", "copy_fds", "joined_by"):
            if fields.get(name) is not None:
                fields[name] = tuple(fields[name])
        return cls(**fields)


@record(frozen=True)
class Started:
    """The supervisor's answer if the session has started."""

    session: str
    log: str


@record(frozen=True)
class Refused:
    """The supervisor's answer if no session was started: why, and the exit code.

    `permanent` means that the machine lacks something, so that another try fails too.
    """

    reason: str
    exit_code: int
    permanent: bool = False


@record(frozen=True)
class RemoteStart:
    """A session of a remote host.

    Attributes:
        host: the host.
        session: its id, its name, a unique prefix of the id, or last.
        log_dir: the log directory there; None for the default.
        job: the job to start there first, in which case `session` is ignored.
        slurm: the Slurm options as typed, if Slurm is to run the job.
    """

    host: str
    session: str = "last"
    log_dir: str | None = None
    job: Job | None = None
    slurm: str | None = None
