"""A session that Slurm has yet to start: the file in its folder that says what is to run.

Whoever submits the job writes it. The supervisor on the node, the only writer of the log, reads
it; so does whoever shows the session while there is no log, or can't see from here who writes it.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, field, replace
from pathlib import Path
from typing import Any

from dlmon.log.folder import LogError, reason_of
from dlmon.records import SCHEMA, MachineFacts, SessionHeader
from dlmon.records.record import record
from dlmon.records.sanitize import clean
from dlmon.system.files import read_regular
from dlmon.system.private_files import replace_private

SUBMITTED_NAME = "job.json"
_MAX_BYTES = 1 << 20


@record(frozen=True)
class Submitted:
    """What was handed to Slurm.

    Attributes:
        session: the session's id, which is the name of its folder too.
        wall: when it was submitted.
        host: the machine that it was submitted on.
        job: what the supervisor is to run: the fields of a job of dlmon's.
        options: what was asked of Slurm, as it was typed.
        slurm_job: the number of Slurm's job; None where Slurm has not answered yet.
        time_limit_s: what was asked for; None where that is the partition's.
        restart: how often Slurm had restarted it before this session.
        on_node: the node on whose own disk the log is written, where that is not seen from here.
    """

    session: str
    wall: float
    host: str
    job: dict[str, Any]
    options: str = ""
    slurm_job: str | None = None
    time_limit_s: float | None = None
    restart: int = 0
    on_node: str | None = None
    why: dict[str, str] = field(default_factory=dict)

    @property
    def header(self) -> SessionHeader:
        """What the log will begin with, as far as it is known before the job starts."""
        command, directory = self.job.get("command"), self.job.get("directory")
        is_script, unknown = self.job.get("script"), "its job has not started"
        return SessionHeader(
            schema=SCHEMA,
            id=self.session,
            host=self.host,
            boot_id="",
            t=0,
            wall=self.wall,
            workload=clean(str(self.job.get("workload") or "")),
            options=dict(self.job.get("options") or {}),
            machine=MachineFacts(why={"cpu_model": unknown}),
            versions={},
            command=tuple(clean(str(word)) for word in command or ()) if is_script else None,
            directory=None if directory is None else clean(str(directory)),
            why={"machine": unknown},
        )


def submitted_beside(log: Path) -> Path:
    """Return where the file lies that belongs to a log."""
    return log.with_name(SUBMITTED_NAME)


def is_of_slurm(log: Path) -> bool:
    """Return whether Slurm runs, or ran, the session of a log."""
    return submitted_beside(log).is_file()


def read_submitted(log: Path) -> Submitted | None:
    """Return what was handed to Slurm for the session of a log; None where nothing was.

    The next start of a job that is queued again, `…-r1`, has no folder before it begins: what is
    known of it is that of the first.
    """
    root, _, restart = log.parent.name.rpartition("-r")
    if restart.isdecimal() and len(restart) < 5 and not os.path.lexists(log.parent):
        first = read_submitted(log.parent.with_name(root) / log.name)
        return first and replace(first, session=log.parent.name, restart=int(restart))
    try:
        fields = json.loads(read_regular(submitted_beside(log), _MAX_BYTES))
        made = Submitted(**fields)
        number = made.slurm_job
        valid = (
            made.session == log.parent.name
            and isinstance(made.wall, (int, float))
            and isinstance(made.job, dict)
            and isinstance(made.job.get("options", {}), dict)
            and isinstance(made.host, str)
            and (number is None or (isinstance(number, str) and number.replace("_", "").isdigit()))
        )
    except (OSError, ValueError, TypeError, RecursionError):
        return None
    return made if valid else None


def write_submitted(log: Path, submitted: Submitted) -> None:
    """Keep what was handed to Slurm, or what its number is by now.

    Raises:
        LogError: it can't be written.
    """
    try:
        text = json.dumps(asdict(submitted))
        replace_private(submitted_beside(log), text.encode() + b"\n")
    except OSError as error:
        raise LogError(f"nothing can be kept in {log.parent}: {reason_of(error)}") from None
