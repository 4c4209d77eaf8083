"""Turn the arguments of `sweep` into a plan, and a combination into the job of a run."""

from __future__ import annotations

import difflib
import os
import re
import secrets
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from dlmon.alerts.alert_settings import AlertSettings
from dlmon.alerts.dispatch import send_sweep_alert, settings_of_runs
from dlmon.log.folder import LogError, id_of, log_directory_of
from dlmon.log.label import Label, read_label, write_label
from dlmon.options.jobs import make_job
from dlmon.options.read import read_options
from dlmon.options.run_options import (
    ALL,
    LEAST_TIME_IN_SWEEP_S,
    SHARED,
    VARIED,
    RunOptions,
    known_options,
)
from dlmon.options.script_sweep import (
    ScriptJobs,
    check_keys_differ,
    check_script_plan,
    read_variation,
)
from dlmon.protocol.job import Job
from dlmon.records import WITHOUT_EPOCHS, Value, Variation
from dlmon.records.sanitize import SHOWN_LENGTH, clean, quoted
from dlmon.remote.host_names import GROUP_MARK
from dlmon.sweep.hosts import LocalHost, SweepHost
from dlmon.sweep.log import SweepWriter, new_header
from dlmon.sweep.plan import (
    HOST,
    Combination,
    Plan,
    SweepError,
    check_number_of_runs,
    combinations_of,
    fair_order,
)
from dlmon.sweep.runner import SweepRun
from workloads.catalog import WORKLOADS, UnknownWorkload, find

_MOST_SEED = 1 << 32


def make_plan(
    workload: str,
    shared: RunOptions,
    vary: Sequence[str],
    repeats: int,
    seed: int,
    groups: Mapping[str, Sequence[str]] | None = None,
    in_slurm: bool = False,
) -> Plan:
    """Return the plan of a sweep.

    Args:
        workload: its name, or `ALL`.
        shared: the options of all runs.
        vary: the values of `--vary`, each KEY=A,B,...
        repeats: the number of runs of each combination.
        seed: the seed for the order of runs.
        groups: the groups of hosts in the settings.
        in_slurm: Slurm's nodes run it, so that what this host lacks is no reason to refuse.

    Raises:
        SweepError: the arguments are wrong, or no combination can be run.
    """
    workloads = _workloads(workload)
    if shared.host is not None and shared.host.startswith(GROUP_MARK):
        raise SweepError(
            f"--host names one machine: write --vary host={clean(shared.host, SHOWN_LENGTH)} for "
            "all those of a group"
        )
    here = shared.host is None and HOST not in map(_varied_key, vary)
    variations = tuple(_variation(text, workloads, here, groups or {}) for text in vary)
    check_keys_differ(variations)
    if len(workloads) == 1 and not variations and repeats == 1:
        raise SweepError(
            f"there is nothing to sweep: say what to vary, such as --vary batch_size=32,64, or "
            f"use dlmon run {workloads[0]}"
        )
    check_number_of_runs(workloads, variations, repeats)
    chosen = {
        **vars(shared),
        "python": _absolute(shared.python) if here else shared.python,
        "seconds": LEAST_TIME_IN_SWEEP_S if shared.seconds is None else shared.seconds,
    }
    options = {name: value for name, value in chosen.items() if name in SHARED}
    plan = Plan(
        workloads=workloads,
        variations=variations,
        options=options,
        metrics={name: _metric(name, shared, variations) for name in workloads},
        repeats=repeats,
        order=fair_order(combinations_of(workloads, variations), repeats, seed),
    )
    refusals = [refusal(plan, combination, not in_slurm) for combination in plan.combinations]
    if None not in refusals:
        raise SweepError(f"no combination can be run: {refusals[0]}")
    return plan


def check_plan(plan: Plan) -> None:
    """Check that this version knows the workloads and options of a plan from a file.

    Raises:
        SweepError: it doesn't.
    """
    if plan.script is not None:
        is_known = check_script_plan(plan)
    else:
        values = [*plan.options.items()]
        values += [(v.key, value) for v in plan.variations for value in v.values]
        is_known = (
            set(plan.workloads) <= set(WORKLOADS)
            and set(plan.varied) <= set(VARIED)
            and all(name in SHARED and known_options({name: value}) for name, value in values)
        )
    if not is_known:
        raise SweepError("this sweep was started by another version of dlmon: resume it with that")


def run_options(plan: Plan, combination: Combination) -> RunOptions:
    """Return the options of a combination's runs."""
    options: dict[str, Any] = {**plan.options, **combination.varied}
    return RunOptions(**options)


def refusal(plan: Plan, combination: Combination, here: bool = True) -> str | None:
    """Return a sentence that says why a combination can't be run; None if it can."""
    if plan.script is not None:
        return None
    return run_options(plan, combination).problem(WORKLOADS[combination.workload], here)


def job_of(
    plan: Plan, combination: Combination, sweep: Path, alerts: AlertSettings | None = None
) -> Job:
    """Return the job of a combination's runs, which have the name of the sweep."""
    workload = WORKLOADS[combination.workload]
    options = replace(run_options(plan, combination), name=read_label(sweep).name)
    run_alerts = None if alerts is None else settings_of_runs(alerts)
    job = make_job(workload, log_directory_of(sweep), options, run_alerts)
    return replace(job, sweep=id_of(sweep))


def begin_sweep(
    directory: Path,
    plan: Plan,
    seed: int,
    wall: float,
    name: str | None,
    alerts: AlertSettings | None = None,
    slurm: str | None = None,
    at_once: int | None = None,
) -> SweepRun:
    """Make the log of a new sweep, and return its runner.

    With `slurm`, the options for Slurm, the runs are the tasks of a job array, of which at most
    `at_once` run at a time.

    Raises:
        LogError: the log can't be made, or the name is not allowed.
        SweepError: another sweep of this directory is running.
    """
    writer = SweepWriter.create(
        directory, replace(new_header(plan, seed, wall), slurm=slurm, at_once=at_once)
    )
    try:
        if name is not None:
            write_label(writer.path, Label(name))
    except LogError:
        writer.close()
        raise
    return run_of(writer, alerts)


def run_of(writer: SweepWriter, alerts: AlertSettings | None = None) -> SweepRun:
    """Return the runner of a sweep; its `run` begins the runs."""
    plan = writer.sweep.plan
    make_job: Callable[[Combination], Job]
    make_job = partial(job_of, plan, sweep=writer.path, alerts=alerts)
    copies = None
    if plan.script is not None:
        make_job = script_jobs = ScriptJobs(plan, writer.path, alerts)
        copies = script_jobs.copies
    refuse = partial(refusal, plan, here=writer.header.slurm is None)
    if writer.header.slurm is None:
        run = SweepRun(writer, make_job, refuse, _make_host)
    else:
        from dlmon.sweep.array import ArrayRun

        run = ArrayRun(writer, make_job, refuse)
    if copies is not None:
        run.prepare, run.clean_up = copies
    if alerts is not None:
        run.at_end = partial(_tell_end, run, alerts)
    return run


async def _tell_end(run: SweepRun, alerts: AlertSettings) -> str | None:
    """Send the alert that a sweep is over; return why it could not be sent, if so."""
    writer = run.writer
    statuses = Counter(str(outcome.status) for outcome in run.sweep.outcomes.values())
    counts = ", ".join(f"{count:,} {status}" for status, count in statuses.items())
    name, took_s = read_label(writer.path).name, time.time() - writer.header.wall
    return await send_sweep_alert(alerts, writer.header.id, name, took_s, counts)


def _make_host(name: str | None) -> SweepHost:
    if name is None:
        return LocalHost()
    # Most sweeps run on this host.
    from dlmon.remote.sweep_host import RemoteHost

    return RemoteHost(name)


def new_seed() -> int:
    """Return a seed for the order of a new sweep."""
    return secrets.randbelow(_MOST_SEED)


def _workloads(name: str) -> tuple[str, ...]:
    if name == ALL:
        return tuple(WORKLOADS)
    try:
        return (find(name).name,)
    except UnknownWorkload as error:
        raise SweepError(f"{error} ({ALL} stands for all of them)") from None


def _varied_key(text: str) -> str:
    """Return the name in a text of `--vary`, which may not be that of an option."""
    return text.partition("=")[0].strip().lstrip("-").replace("-", "_")


def _variation(
    text: str, workloads: Sequence[str], here: bool, groups: Mapping[str, Sequence[str]]
) -> Variation:
    """Read a value of `--vary`, such as batch_size=32,64.

    Raises:
        SweepError: the form is wrong, the option unknown, or a value wrong.
    """
    _, equals, typed = text.partition("=")
    if not equals:
        raise SweepError(f"--vary takes KEY=A,B,... such as batch_size=32,64, not {quoted(text)}")
    key = _varied_key(text)
    if key not in VARIED:
        raise SweepError(_unknown_key(key))
    for part in filter(str.strip, typed.split(",")):
        # 1,024 would be read as 1 and 24.
        if part != part.strip() or re.fullmatch(r"0\d+", part, re.ASCII):
            raise SweepError(
                f"--vary {key} has the value {quoted(part)}: write it without blanks and leading "
                "zeros, and write no commas within a number"
            )
    return read_variation(key, typed, groups, partial(_read_value, workloads, here, key))


def _unknown_key(key: str) -> str:
    nearest = difflib.get_close_matches(key, VARIED, n=1, cutoff=0.5)
    names_with_word = [name for name in VARIED if key and key in name.split("_")]
    similar = names_with_word or nearest
    hint = f"did you mean {similar[0]}?" if similar else f"use {', '.join(VARIED)}"
    return f"there is no option {quoted(key)} to vary; {hint}"


def _read_value(workloads: Sequence[str], here: bool, key: str, text: str) -> Value:
    """Return a value of an option, for a sweep of these workloads.

    Raises:
        SweepError: the text can't be read, or no workload can be run with it on any host. A value
            that only these workloads or this host refuse is an impossible combination instead.
    """
    typed = read_options({key: text}, RunOptions())
    for problem in typed.unreadable.values():
        raise SweepError(problem)
    value = getattr(typed.options, key)
    if key == "python" and here:
        value = _absolute(value)
    if not isinstance(value, (str, int, float)):
        raise SweepError(f"--vary {key} can't be {quoted(text)}")
    problems = [typed.options.problem(workload, here=False) for workload in WORKLOADS.values()]
    if None not in problems:
        raise SweepError(typed.options.problem(WORKLOADS[workloads[0]], here=False))
    return value


def _absolute(python: str | None) -> str | None:
    """Make the path of an interpreter absolute, so that `--resume` works from another directory.

    Raises:
        SweepError: the path is relative to a deleted directory.
    """
    if python is None or os.sep not in python:
        return python
    try:
        # Don't resolve links: Python finds its virtual environment by the link's path.
        return os.path.abspath(os.path.expanduser(python))  # noqa: PTH100, PTH111
    except OSError:
        raise SweepError(
            "the working directory is gone: name the interpreter by its whole path"
        ) from None


def _metric(workload: str, shared: RunOptions, variations: Sequence[Variation]) -> str:
    """Return the metric for comparing the runs of a workload.

    If the batch size, the devices or the mode vary, it is the time of a sample, because steps then
    have different sizes, and modes other than training have no epochs.
    """
    varied = {variation.key for variation in variations}
    metric = WORKLOADS[workload].metric
    if varied & {"batch_size", "devices", "mode"}:
        return "ms_per_sample"
    if metric == "step_ms" or shared.mode in WITHOUT_EPOCHS:
        return "step_ms"
    # If the number of epochs varies, the times of whole runs differ trivially.
    is_of_run = metric == "run_seconds" and "epochs" not in varied
    return "run_seconds" if is_of_run else "seconds_per_epoch"
