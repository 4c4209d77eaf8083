"""Submit sessions to Slurm and, on the node, read what was submitted."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from dlmon.log.folder import LOG_NAME, LogError, new_session_id, reason_of, unwritable
from dlmon.log.label import Label, write_label
from dlmon.log.submitted import Submitted, read_submitted, write_submitted
from dlmon.protocol.job import Job
from dlmon.slurm.commands import has_slurm, run_slurm
from dlmon.slurm.ending import restarts_of
from dlmon.slurm.submit import (
    OUTPUT_NAME,
    SCRIPT_NAME,
    SlurmOptions,
    array_script,
    batch_script,
    submit,
)
from dlmon.system.children import PACKAGES_VARIABLE, python_command
from dlmon.system.private_files import make_new_private_folder, make_private_folder
from dlmon.system.this_host import host_name

SUBMITTED_FLAG = "--submitted"
"""The flag of the supervisor's command; the folder of a submitted session follows it."""
_TRIES = 100


def submit_session(job: Job, options: SlurmOptions, text: str) -> Path:
    """Submit a job that records a session, and return the path of its future log.

    Raises:
        SlurmError: there is no Slurm here, or it refuses the job; no files remain.
        LogError: the log directory can't be written.
    """
    _require_slurm()
    folder = _new_folder(job)
    log = folder / LOG_NAME
    try:
        submitted = _write_job(folder, job, options, text)
        script = folder / SCRIPT_NAME
        name, command = job.name or job.workload, [*_command(), str(folder)]
        by_srun, text = job.script and options.has_several_tasks, json.dumps(asdict(submitted))
        output = folder / OUTPUT_NAME
        _write(script, batch_script(options, output, name, command, by_srun, text))
        number = submit(script, job.directory)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    # The number lets the queue be asked for the job.
    write_submitted(log, replace(submitted, slurm_job=number))
    return log


def submit_array(
    jobs: Sequence[Job], options: SlurmOptions, text: str, at_once: int | None, folder: Path
) -> list[Path]:
    """Submit a job array whose tasks each record a session; return the paths of their future logs.

    Args:
        jobs: the job of each task.
        options: the user's options for Slurm, for each task.
        text: the options as typed.
        at_once: the number of tasks that may run at the same time; None for all.
        folder: the folder for the batch script.

    Raises:
        SlurmError: there is no Slurm here, or it refuses the jobs; no files remain.
        LogError: the log directory can't be written.
    """
    _require_slurm()
    folders: list[Path] = []
    submitted: list[Submitted] = []
    try:
        for job in jobs:
            folders.append(_new_folder(job))
            submitted.append(_write_job(folders[-1], job, options, text))
        # An earlier array of a resumed sweep may still read its own file.
        stem = f"tasks-{folders[0].name}"
        tasks, script = folder / stem, folder / f"{stem}.sh"
        _write(tasks, "".join(f"{session_folder}\n" for session_folder in folders))
        array = f"--array=0-{len(jobs) - 1}" + ("" if at_once is None else f"%{at_once}")
        name = jobs[0].name or folder.name
        _write(script, array_script(options, folder, name, _command(), tasks, array))
        number = submit(script)
    except BaseException:
        for session_folder in folders:
            shutil.rmtree(session_folder, ignore_errors=True)
        raise
    logs = [session_folder / LOG_NAME for session_folder in folders]
    for task, log in enumerate(logs):
        write_submitted(log, replace(submitted[task], slurm_job=f"{number}_{task}"))
    return logs


def _require_slurm() -> None:
    if not has_slurm():
        run_slurm(["sbatch", "--version"])


def _new_folder(job: Job) -> Path:
    """Make the folder of a new session; several may begin in the same second."""
    parent = Path(job.log_dir)
    try:
        make_private_folder(parent)
        for _ in range(_TRIES):
            folder = parent / new_session_id(job.workload, time.time())
            with contextlib.suppress(FileExistsError):
                make_new_private_folder(folder)
                return folder
        raise FileExistsError(None, "no name is free")
    except OSError as error:
        raise unwritable(parent, error) from None


def _write_job(folder: Path, job: Job, options: SlurmOptions, text: str) -> Submitted:
    job = replace(job, session=folder.name, outlives_viewer=True, own_signal=options.own_signal)
    submitted = Submitted(
        session=folder.name,
        wall=time.time(),
        host=host_name(),
        job=asdict(job),
        options=text,
        time_limit_s=options.time_limit_s,
    )
    _write_submitted(folder, submitted, job)
    return submitted


def _write_submitted(folder: Path, submitted: Submitted, job: Job) -> None:
    write_submitted(folder / LOG_NAME, submitted)
    if job.name is not None:
        write_label(folder / LOG_NAME, Label(job.name))


def _command() -> list[str]:
    """Return the command of the supervisor, without the folder of its session."""
    command = [*python_command("dlmon.supervisor"), SUBMITTED_FLAG]
    packages = os.environ.get(PACKAGES_VARIABLE)
    # If dlmon is not installed, its processes are told the folder of its packages.
    return command if packages is None else ["env", f"{PACKAGES_VARIABLE}={packages}", *command]


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text)
    except (OSError, UnicodeEncodeError) as error:
        why = reason_of(error) if isinstance(error, OSError) else "a name in it is no text"
        raise LogError(f"{path} can't be written: {why}") from None


def submitted_job(
    folder: Path, environment: Mapping[str, str], read_text: Callable[[], str] = str
) -> Job:
    """Return the job to run in this Slurm job.

    If Slurm has restarted the Slurm job, it gets a new session: earlier logs stay as they are.

    Args:
        folder: the folder of the submitted session; made if this node doesn't see it.
        environment: the Slurm job's environment.
        read_text: returns what was submitted, as JSON, if this node doesn't see the folder.

    Raises:
        LogError: the folder can't be read here, or nothing was submitted with it.
    """
    submitted = read_submitted(folder / LOG_NAME)
    if submitted is None and not folder.is_dir():
        with contextlib.suppress(LogError, OSError, TypeError, ValueError):
            sent = Submitted(**json.loads(read_text()))
            make_private_folder(folder)
            number = environment.get("SLURM_JOB_ID")
            write_submitted(folder / LOG_NAME, replace(sent, slurm_job=number))
            submitted = read_submitted(folder / LOG_NAME)
    if submitted is None:
        problem = "holds nothing that was submitted" if folder.is_dir() else "is not there"
        raise LogError(
            f"{folder} {problem}: choose with --log-dir a directory that the login node and the "
            "nodes share"
        )
    with contextlib.suppress(TypeError, ValueError):
        job = Job.from_fields(submitted.job)
        restart = restarts_of(environment)
        if restart:
            job = _restarted_job(folder, submitted, job, restart, environment)
        return replace(job, log_dir=str(folder.parent))
    raise LogError(f"what was submitted with {folder} is of another version of dlmon")


def restarted_folder(folder: Path, restart: int) -> Path:
    """Return the folder of the session that a job records after its n-th restart by Slurm."""
    return folder.with_name(f"{folder.name}-r{restart}") if restart else folder


def _restarted_job(
    folder: Path, submitted: Submitted, job: Job, restart: int, environment: Mapping[str, str]
) -> Job:
    folder = restarted_folder(folder, restart)
    job = replace(job, session=folder.name)
    submitted = replace(
        submitted,
        session=folder.name,
        wall=time.time(),
        job=asdict(job),
        slurm_job=submitted.slurm_job or environment.get("SLURM_JOB_ID"),
        restart=restart,
    )
    try:
        make_new_private_folder(folder)
    except OSError as error:
        raise LogError(f"{folder} can't be made: {reason_of(error)}") from None
    _write_submitted(folder, submitted, job)
    return job
