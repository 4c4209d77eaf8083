"""Submit a session, and find on the node what was submitted."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path

from dlmon.host import host_name
from dlmon.launch.children import PACKAGES_VARIABLE, python_command
from dlmon.launch.job import Job
from dlmon.log.folder import LOG_NAME, LogError, new_session_id, reason_of
from dlmon.log.label import Label, write_label
from dlmon.log.submitted import Submitted, read_submitted, write_submitted
from dlmon.private_files import make_new_private_folder, make_private_folder
from dlmon.slurm.commands import has_slurm, run_slurm
from dlmon.slurm.ending import restarts_of
from dlmon.slurm.submit import SCRIPT_NAME, SlurmOptions, batch_script, submit


def submit_session(job: Job, options: SlurmOptions, text: str) -> Path:
    """Submit a job of Slurm's that records a session, and return where its log will be.

    Args:
        job: what it runs.
        options: what a person asks of Slurm.
        text: the same as it was typed.

    Raises:
        SlurmError: there is no Slurm here, or it refuses the job; nothing is left of it.
        LogError: nothing can be kept in the log directory.
    """
    if not has_slurm():
        run_slurm(["sbatch", "--version"])
    wall = time.time()
    folder = Path(job.log_dir) / new_session_id(job.workload, wall)
    job = replace(job, session=folder.name, outlives_viewer=True, own_signal=options.own_signal)
    made = Submitted(
        session=folder.name,
        wall=wall,
        host=host_name(),
        job=asdict(job),
        options=text,
        time_limit_s=options.time_limit_s,
    )
    log = folder / LOG_NAME
    try:
        make_private_folder(folder.parent)
        make_new_private_folder(folder)
    except OSError as error:
        raise LogError(
            f"the log directory {folder.parent} can't be written ({reason_of(error)}); "
            "choose another with --log-dir"
        ) from None
    try:
        write_submitted(log, made)
        if job.name is not None:
            write_label(log, Label(job.name))
        script = folder / SCRIPT_NAME
        _write(script, batch_script(options, folder, job.name or job.workload, _command(folder)))
        number = submit(script, job.directory)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    # Without its number the session can't be followed in the queue; the job runs either way.
    write_submitted(log, replace(made, slurm_job=number))
    return log


def _command(folder: Path) -> list[str]:
    command = [*python_command("dlmon.supervisor"), str(folder)]
    packages = os.environ.get(PACKAGES_VARIABLE)
    # Where dlmon is not installed, what it starts needs to know where it is.
    return command if packages is None else ["env", f"{PACKAGES_VARIABLE}={packages}", *command]


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text)
    except (OSError, UnicodeEncodeError) as error:
        why = reason_of(error) if isinstance(error, OSError) else "a name in it is no text"
        raise LogError(f"{path} can't be written: {why}") from None


def submitted_job(folder: Path, environment: Mapping[str, str]) -> Job:
    """Return what is to be run in this job of Slurm's.

    A job that Slurm starts anew has a session of its own each time: the log of an earlier one is
    kept as it is.

    Args:
        folder: of the session that was submitted.
        environment: what Slurm has told the job.

    Raises:
        LogError: the folder can't be read here, or nothing was submitted with it.
    """
    submitted = read_submitted(folder / LOG_NAME)
    if submitted is None:
        seen = "holds nothing that was submitted" if folder.is_dir() else "is not there"
        raise LogError(
            f"{folder} {seen}: choose with --log-dir a directory that the login node and the nodes "
            "share"
        )
    with contextlib.suppress(TypeError, ValueError):
        job = Job.from_fields(submitted.job)
        restart = restarts_of(environment)
        if restart:
            job = _started_anew(folder, submitted, job, restart, environment)
        return replace(job, log_dir=str(folder.parent))
    raise LogError(f"what was submitted with {folder} is of another version of dlmon")


def restarted_folder(folder: Path, restart: int) -> Path:
    """Return the folder of the session of a job that Slurm has started anew so often."""
    return folder.with_name(f"{folder.name}-r{restart}") if restart else folder


def _started_anew(
    folder: Path, submitted: Submitted, job: Job, restart: int, environment: Mapping[str, str]
) -> Job:
    again = restarted_folder(folder, restart)
    job = replace(job, session=again.name)
    made = replace(
        submitted,
        session=again.name,
        wall=time.time(),
        job=asdict(job),
        slurm_job=submitted.slurm_job or environment.get("SLURM_JOB_ID"),
        restart=restart,
    )
    try:
        make_new_private_folder(again)
    except OSError as error:
        raise LogError(f"{again} can't be made: {reason_of(error)}") from None
    write_submitted(again / LOG_NAME, made)
    if job.name is not None:
        write_label(again / LOG_NAME, Label(job.name))
    return job
