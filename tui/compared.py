"""Put a session among the published numbers of its workload and this machine's earlier runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from dlmon.comparison import (
    STEP_MS,
    Conditions,
    Row,
    Run,
    Timing,
    busy_at_start,
    compare,
    cpus_of,
    factor,
    timing_of_step,
    usd_per_hour_of,
)
from dlmon.interpreter import TITLES
from dlmon.records import Result, SessionHeader
from dlmon.session import NEVER_STEADY, NOT_STEADY, Snapshot
from dlmon.sessions import SessionEntry
from tui import figures
from workloads.catalog import WORKLOADS, Workload

EARLIER_SESSIONS = 5
"""So many earlier sessions are compared with; a sweep would else push all else out of view."""

INFERENCE = "inference"


def default_conditions(workload: Workload) -> Conditions:
    """Return what a workload's published numbers were taken with."""
    return Conditions(
        workload=workload.name,
        batch_size=workload.batch_size,
        samples=workload.samples,
        epochs=workload.epochs,
        precision=workload.precision,
        mode=workload.mode,
    )


def earlier_sessions(entries: Sequence[SessionEntry], header: SessionHeader) -> list[SessionEntry]:
    """Return the newest earlier sessions of the same work and machine that have a figure."""
    earlier = [
        entry
        for entry in entries
        if entry.result is not None
        and entry.result.status in ("completed", "stopped")
        and timing_of_result(entry.result, header.workload) is not None
        and entry.header.workload == header.workload
        and mode_of(entry.header.options) == mode_of(header.options)
        and entry.header.host == header.host
        and entry.header.wall < header.wall
    ]
    return sorted(earlier, key=lambda entry: entry.header.wall)[-EARLIER_SESSIONS:]


def mode_of(options: Mapping[str, Any]) -> str:
    """Return what a session was launched to do: train, where its options don't tell."""
    mode = options.get("mode")
    return mode if isinstance(mode, str) else "train"


def compared_metric(workload: str, mode: str) -> str:
    """Return what runs are compared by: a batch's time in inference, which has no epochs."""
    if mode == INFERENCE:
        return STEP_MS
    known = WORKLOADS.get(workload)
    return known.metric if known is not None else "seconds_per_epoch"


def metric_of(snapshot: Snapshot) -> str:
    """Return what a session is compared by."""
    return compared_metric(snapshot.header.workload, mode_of(snapshot.header.options))


def timing_of(snapshot: Snapshot) -> Timing | None:
    """Return the time that a session is compared by."""
    metric = metric_of(snapshot)
    if metric == STEP_MS:
        return timing_of_step(snapshot.step_ms)
    return snapshot.run_seconds if metric == "run_seconds" else snapshot.seconds_per_epoch


def timing_of_result(result: Result, workload: str) -> Timing | None:
    """Return the time that a session is compared by, as it was recorded."""
    metric = compared_metric(workload, mode_of(result.options))
    if metric == STEP_MS:
        return timing_of_step(result.step_ms)
    return result.run_seconds if metric == "run_seconds" else result.seconds_per_epoch


def epoch_word(header: SessionHeader) -> str:
    """Return what to call going through the samples once: in inference that is no epoch."""
    return "pass" if mode_of(header.options) == INFERENCE else "epoch"


def timed_unit(metric: str) -> str:
    """Say what a time is of: an epoch, a run or a batch."""
    return {"run_seconds": "a run", STEP_MS: "a batch"}.get(metric, "an epoch")


def unusual_settings(options: Mapping[str, Any]) -> list[str]:
    """Return how a session computes, as far as that is not the default."""
    jit, cpus = options.get("jit"), options.get("cpus")
    backend = _unless(options.get("backend"), "tensorflow")
    told = [
        mode_of(options) if mode_of(options) != "train" else None,
        _unless(options.get("precision"), "float32"),
        TITLES.get(backend, backend) if backend else None,
        f"JIT {jit}" if _unless(jit, "auto") else None,
        "another Python" if options.get("python") else None,
        None if cpus is None else "1 CPU" if cpus == 1 else f"{cpus} CPUs",
    ]
    return [text for text in told if text]


def _unless(value: object, usual: str) -> str | None:
    return value if isinstance(value, str) and value != usual else None


def run_names(snapshot: Snapshot, earlier: Sequence[SessionEntry]) -> dict[str, str]:
    """Return what to call earlier sessions, by id: when they began, and what was another then."""
    header, model = snapshot.header, snapshot.model
    device = model.device if model else None
    cpu = header.machine.cpu_model if device == "cpu" else None
    here = (model.device_name if model else None) or cpu or device
    names = {}
    for entry in earlier:
        name = f"run of {figures.moment(entry.header.wall, header.wall)}"
        result = entry.result
        there = (result.device_name or result.device) if result is not None else None
        elsewhere = [figures.device(there)] if there and there != here else []
        names[entry.header.id] = ", ".join([name, *elsewhere, *other_settings(entry, header)])
    return names


def other_settings(entry: SessionEntry, header: SessionHeader) -> list[str]:
    """Return how an earlier session computed, as far as this one does it otherwise.

    It did the same work, so the two compare; but a person should know what makes the difference.
    """
    theirs, ours = _computed(entry.header), _computed(header)
    return [
        text for option, text in theirs.items() if text and ours[option] and text != ours[option]
    ]


def _computed(header: SessionHeader) -> dict[str, str]:
    """Say how a session computes, by option; empty where that isn't known."""
    options, cpus = header.options, cpus_of(header.options, header.machine)
    backend, threads, python = (options.get(name) for name in ("backend", "threads", "python"))
    backend = backend if isinstance(backend, str) else "tensorflow"
    return {
        "backend": TITLES.get(backend, backend),
        "cpus": "" if cpus is None else "1 CPU" if cpus == 1 else f"{cpus} CPUs",
        "threads": f"threads {threads if type(threads) is int else 'auto'}",
        "jit": f"JIT {_unless(options.get('jit'), 'auto') or 'auto'}",
        "python": python if isinstance(python, str) else "the Python of dlmon",
    }


def factor_of_nearest(rows: Sequence[Row], steady: bool) -> str:
    """Return this run against the published number that is nearest to it, or why there is none."""
    this = next((row for row in rows if row.kind == "this"), None)
    if this is None:
        return ""
    others = [row for row in rows if row.kind == "published"]
    if others and not any(row.comparable for row in others):
        return difference(others[0].badges[0])
    factors = [(other, factor(this, other, steady)) for other in others]
    known = [(other, value) for other, value in factors if value is not None]
    if not known:
        return ""
    other, value = min(known, key=lambda pair: max(pair[1], 1 / pair[1]))
    return f"{_told_factor(this, other, value)} as {figures.device(other.label)}"


def factor_of_run_before(
    rows: Sequence[Row], earlier: Sequence[SessionEntry], names: Mapping[str, str], steady: bool
) -> str:
    """Return this run against the newest earlier one of which that can be told."""
    this = next((row for row in rows if row.kind == "this"), None)
    by_session = {row.session: row for row in rows if row.kind == "earlier"}
    for entry in reversed(earlier):
        other = by_session.get(entry.header.id)
        value = factor(this, other, steady) if this and other else None
        if this and other and value is not None:
            called = names[entry.header.id]
            if entry is earlier[-1]:
                _, comma, otherwise = called.partition(", ")
                called = f"run before{comma}{otherwise}"
            return f"{_told_factor(this, other, value)} as the {called}"
    return ""


def difference(badge: str) -> str:
    """Say what keeps the published numbers from being compared, and which side has what."""
    theirs, differs, ours = badge.partition(", not ")
    return f"published: {theirs}, here: {ours}" if differs else f"published: {badge}"


def _told_factor(this: Row, other: Row, value: float) -> str:
    """Tell a factor; none where each value lies within the other's band, or in both."""
    low, high = _band(this)
    other_low, other_high = _band(other)
    if high > low and low <= other_high and other_low <= high:
        return "about as fast"
    return figures.factor(value)


def _band(row: Row) -> tuple[float, float]:
    low, high = row.low, row.high
    return (row.value if low is None else low), (row.value if high is None else high)


_ENDED = {"failed": "failed", "stopped": "was stopped", "interrupted": "was interrupted"}


def why_no_time(snapshot: Snapshot, status: str) -> str:
    """Say why a session has no time that is compared: of one that is over, nothing comes yet."""
    why = snapshot.why
    reason = why.get("seconds_per_epoch") or why.get("run_seconds", "")
    if metric_of(snapshot) == STEP_MS:
        reason = why.get("step_ms", reason)
    if status == "running":
        return reason
    if reason == NOT_STEADY:
        return NEVER_STEADY
    if snapshot.model is None:
        return f"the run {_ENDED.get(status, 'ended')} before the model was built"
    return reason


def comparison_rows(snapshot: Snapshot, earlier: Sequence[SessionEntry]) -> tuple[Row, ...]:
    """Return the rows of the comparison, fastest first; none for a workload not of ours."""
    header, model = snapshot.header, snapshot.model
    workload = WORKLOADS.get(header.workload)
    if workload is None:
        return ()
    defaults = default_conditions(workload)
    steps_cap = header.options.get("steps")
    conditions = Conditions(
        workload=workload.name,
        batch_size=model.batch_size if model else _whole(header.options.get("batch_size")),
        samples=model.samples_per_epoch if model else workload.samples,
        epochs=model.epochs if model else _whole(header.options.get("epochs")),
        precision=(model and model.precision) or _word(header.options, "precision", workload),
        mode=(model and model.mode) or _word(header.options, "mode", workload),
        data=model.data if model else None,
        steps_cap=steps_cap if isinstance(steps_cap, int) else None,
    )
    timing = timing_of(snapshot)
    this = None
    if timing is not None:
        device = model.device if model else None
        cpus = cpus_of(header.options, header.machine)
        this = Run(
            label="this run",
            timing=timing,
            session=header.id,
            framework=_framework(snapshot),
            busy=busy_at_start(header.machine, device),
            vcpus=cpus,
            usd_per_hour=usd_per_hour_of(header.options, cpus),
        )
    rows = compare(
        metric_of(snapshot),
        conditions,
        defaults,
        this,
        [entry.result for entry in earlier if entry.result is not None],
        {entry.header.id: entry.header for entry in earlier},
    )
    otherwise = {entry.header.id: other_settings(entry, header) for entry in earlier}
    return tuple(
        replace(row, label=", ".join([row.label, *otherwise[row.session]]))
        if row.kind == "earlier" and row.session in otherwise
        else row
        for row in rows
    )


def _framework(snapshot: Snapshot) -> str | None:
    """Name what a session trains with, and its version where that was told."""
    backend = snapshot.model.backend if snapshot.model else None
    if not backend:
        return None
    version = snapshot.header.versions.get("backend_version")
    # As the published numbers write it.
    name = TITLES.get(backend, backend)
    return f"{name} {version}" if isinstance(version, str) else name


def device_text(snapshot: Snapshot) -> str:
    """Name the device that the session trains on: the CPU's model, or the GPU's name."""
    model, machine = snapshot.model, snapshot.header.machine
    if model is None or model.device is None:
        return str(snapshot.header.options.get("device") or "")
    if model.device == "cpu":
        return f"CPU {machine.cpu_model or ''}".strip()
    number = "" if model.gpu_index is None else f" {model.gpu_index}"
    return f"GPU{number} {model.device_name or ''}".strip()


def _word(options: Mapping[str, Any], option: str, workload: Workload) -> str | None:
    """Return an option, the workload's own where there is none; None where it is no word."""
    value = options.get(option, getattr(workload, option))
    return value if isinstance(value, str) else None


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
