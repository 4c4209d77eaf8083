"""The file in a session's folder that describes the job that was submitted to Slurm.

The submitting command writes it. The supervisor on the node reads it, and so does every viewer
of the session while there is no log, or while the log's writer can't be seen from here.
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
    """A session that was submitted to Slurm.

    Attributes:
        session: the session's id, which is the name of its folder too.
        wall: the time of the submission, in seconds since 1970.
        host: the host that it was submitted from.
        job: the fields of the `Job` for the supervisor.
        options: the options for Slurm, as typed.
        slurm_job: the id of Slurm's job; None before Slurm has answered.
        time_limit_s: the requested limit; None for the partition's.
        restart: how often Slurm had restarted the job before this session.
        on_node: the node whose local disk holds the log, if it can't be seen from here.
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
        """The header of the log, as far as it is known before the job starts."""
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
            injected=dict(self.job.get("injected") or {}),
            why={"machine": unknown},
        )


def submitted_beside(log: Path) -> Path:
    """Return the path of the file beside a log."""
    return log.with_name(SUBMITTED_NAME)


def is_of_slurm(log: Path) -> bool:
    """Return whether the session of a log is, or was, a Slurm job."""
    return submitted_beside(log).is_file()


def read_submitted(log: Path) -> Submitted | None:
    """Return the submitted job of a log's session; None if there was none.

    The next start of a requeued job, `…-r1`, has no folder before it begins: the file of the
    first start describes it.
    """
    root, _, restart = log.parent.name.rpartition("-r")
    if restart.isdecimal() and len(restart) < 5 and not os.path.lexists(log.parent):
        first = read_submitted(log.parent.with_name(root) / log.name)
        return first and replace(first, session=log.parent.name, restart=int(restart))
    try:
        fields = json.loads(read_regular(submitted_beside(log), _MAX_BYTES))
        submitted = Submitted(**fields)
        id = submitted.slurm_job
        is_valid = (
            submitted.session == log.parent.name
            and isinstance(submitted.wall, (int, float))
            and isinstance(submitted.job, dict)
            and isinstance(submitted.job.get("options", {}), dict)
            and isinstance(submitted.host, str)
            and (id is None or (isinstance(id, str) and id.replace("_", "").isdigit()))
        )
    except (OSError, ValueError, TypeError, RecursionError):
        return None
    return submitted if is_valid else None


def write_submitted(log: Path, submitted: Submitted) -> None:
    """Write a submitted job, or write it again with the id of Slurm's job.

    Raises:
        LogError: it can't be written.
    """
    try:
        text = json.dumps(asdict(submitted))
        replace_private(submitted_beside(log), text.encode() + b"\n")
    except OSError as error:
        raise LogError(f"nothing can be kept in {log.parent}: {reason_of(error)}") from None
