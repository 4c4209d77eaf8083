"""Submit a session, and find on the node what was submitted."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from dlmon.log.folder import LOG_NAME, LogError, new_session_id, reason_of
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
"""Before the folder of a session, for the supervisor that runs it."""
_TRIES = 100


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
    _require_slurm()
    folder = _new_folder(job)
    log = folder / LOG_NAME
    try:
        made = _write_job(folder, job, options, text)
        script = folder / SCRIPT_NAME
        name, command = job.name or job.workload, [*_command(), str(folder)]
        in_each, text = job.script and options.has_several_tasks, json.dumps(asdict(made))
        output = folder / OUTPUT_NAME
        _write(script, batch_script(options, output, name, command, in_each, text))
        number = submit(script, job.directory)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    # Without its number the session can't be followed in the queue; the job runs either way.
    write_submitted(log, replace(made, slurm_job=number))
    return log


def submit_array(
    jobs: Sequence[Job], options: SlurmOptions, text: str, at_once: int | None, folder: Path
) -> list[Path]:
    """Submit a job array of which each task records a session; return where their logs will be.

    Args:
        jobs: what each task runs.
        options: what a person asks of Slurm for each.
        text: the same as it was typed.
        at_once: how many may run at the same time; None for all.
        folder: where the script is kept that is handed in.

    Raises:
        SlurmError: there is no Slurm here, or it refuses the jobs; nothing is left of them.
        LogError: nothing can be kept in the log directory.
    """
    _require_slurm()
    folders: list[Path] = []
    made: list[Submitted] = []
    try:
        for job in jobs:
            folders.append(_new_folder(job))
            made.append(_write_job(folders[-1], job, options, text))
        # Of a sweep that is resumed, an earlier array may still read its own.
        place = f"tasks-{folders[0].name}"
        tasks, script = folder / place, folder / f"{place}.sh"
        _write(tasks, "".join(f"{each}\n" for each in folders))
        array = f"--array=0-{len(jobs) - 1}" + ("" if at_once is None else f"%{at_once}")
        name = jobs[0].name or folder.name
        _write(script, array_script(options, folder, name, _command(), tasks, array))
        number = submit(script)
    except BaseException:
        for each in folders:
            shutil.rmtree(each, ignore_errors=True)
        raise
    logs = [each / LOG_NAME for each in folders]
    for task, (log, submitted) in enumerate(zip(logs, made, strict=True)):
        write_submitted(log, replace(submitted, slurm_job=f"{number}_{task}"))
    return logs


def _require_slurm() -> None:
    if not has_slurm():
        run_slurm(["sbatch", "--version"])


def _new_folder(job: Job) -> Path:
    """Make the folder of a new session; many may begin in one second."""
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
        raise LogError(
            f"the log directory {parent} can't be written ({reason_of(error)}); "
            "choose another with --log-dir"
        ) from None


def _write_job(folder: Path, job: Job, options: SlurmOptions, text: str) -> Submitted:
    job = replace(job, session=folder.name, outlives_viewer=True, own_signal=options.own_signal)
    made = Submitted(
        session=folder.name,
        wall=time.time(),
        host=host_name(),
        job=asdict(job),
        options=text,
        time_limit_s=options.time_limit_s,
    )
    write_submitted(folder / LOG_NAME, made)
    if job.name is not None:
        write_label(folder / LOG_NAME, Label(job.name))
    return made


def _command() -> list[str]:
    """Return the words of the supervisor; the folder of its session follows them."""
    command = [*python_command("dlmon.supervisor"), SUBMITTED_FLAG]
    packages = os.environ.get(PACKAGES_VARIABLE)
    # Where dlmon is not installed, what it starts needs to know where it is.
    return command if packages is None else ["env", f"{PACKAGES_VARIABLE}={packages}", *command]


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text)
    except (OSError, UnicodeEncodeError) as error:
        why = reason_of(error) if isinstance(error, OSError) else "a name in it is no text"
        raise LogError(f"{path} can't be written: {why}") from None


def submitted_job(
    folder: Path, environment: Mapping[str, str], read: Callable[[], str] = str
) -> Job:
    """Return what is to be run in this job of Slurm's.

    A job that Slurm restarts has a session of its own each time: the log of an earlier one is kept
    as it is.

    Args:
        folder: of the session that was submitted.
        environment: what Slurm has told the job.
        read: returns what was submitted where the folder is not seen here; it is made then.

    Raises:
        LogError: the folder can't be read here, or nothing was submitted with it.
    """
    submitted = read_submitted(folder / LOG_NAME)
    if submitted is None and not folder.is_dir():
        with contextlib.suppress(LogError, OSError, TypeError, ValueError):
            sent = Submitted(**json.loads(read()))
            make_private_folder(folder)
            number = environment.get("SLURM_JOB_ID")
            write_submitted(folder / LOG_NAME, replace(sent, slurm_job=number))
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
