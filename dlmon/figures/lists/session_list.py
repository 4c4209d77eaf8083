"""The lists of recorded sessions and sweeps, as text, as sections and as JSON."""

from __future__ import annotations

import contextlib
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dlmon.comparison.arguments import GIVEN, PROGRAM, arguments_of, is_secret
from dlmon.comparison.conditions import first_batch_compiled
from dlmon.figures import units
from dlmon.figures.columns import Column, has_words, number_column, table_of
from dlmon.figures.pairs import is_try, side_names, verdict_in_short, verdict_text
from dlmon.figures.quantity_text import rows_shown_in
from dlmon.figures.sections import Note, Section, Table
from dlmon.figures.session.compared_figure import (
    compared_metric,
    compile_text,
    mode_of,
    timed_unit,
    timing_of_result,
)
from dlmon.figures.session.doubts import doubts_of_all, in_doubt
from dlmon.figures.session.injections import injected_texts
from dlmon.figures.session.run_facts import cost_text, effective_text, energy_text, unusual_settings
from dlmon.figures.sweeps import findings, left_text, resumed_by, slot_text, swept_text, varied_text
from dlmon.log.directory import SessionEntry
from dlmon.log.folder import location_options
from dlmon.log.label import Label
from dlmon.options.run_options import in_words
from dlmon.protocol.stop import CAUSE_TEXT
from dlmon.quantities import throughputs_of
from dlmon.records import (
    Doubt,
    FailureKind,
    MachineUse,
    Requirement,
    Result,
    SessionHeader,
    Status,
    StopCause,
    to_json,
)
from dlmon.records.record import record
from dlmon.records.sanitize import clean, shown_path
from dlmon.script_name import from_script
from dlmon.session.reasons import NOTHING_SEEN, TOO_SHORT
from dlmon.sweep.log import SweepEntry, entry_of
from dlmon.sweep.pairs import broken_run, verdict_of
from dlmon.sweep.plan import SweepError
from workloads.catalog import Workload

if TYPE_CHECKING:
    from dlmon.remote.session_follower import ListedSweep
    from dlmon.session.snapshot import Snapshot

# The details show the whole reason.
_IN_BRIEF = {
    Requirement.STEADY_STATE: TOO_SHORT,
    Requirement.MODEL: "ended before training",
}

WHY_NO_RESULT = {
    Status.INTERRUPTED: "left no result",
    Status.UNKNOWN: "recorded on another machine; whether it still runs can't be seen from here",
}

_WITH_ITS_VIEWER = (
    StopCause.TERMINAL_CLOSED,
    StopCause.VIEWER_TERMINATED,
    StopCause.VIEWER_GONE,
)
_NOT_ASKED = (
    *_WITH_ITS_VIEWER,
    *(StopCause.SIGNAL, StopCause.TIME_LIMIT, StopCause.PREEMPTED),
    *(StopCause.REQUEUED, StopCause.CANCELLED),
)
_HOW_TO_KEEP = " (--detach, or d before that, keeps a run going)"

Recorded = SessionEntry | SweepEntry
"""An entry of a log directory."""


@record(frozen=True)
class RunOfSweep:
    """The sweep that a session is a run of, and the combination of the run as text."""

    sweep: SweepEntry
    text: str


# A list says already that the session failed, so leave this out before the error.
_EXIT_CODE_FIRST = re.compile(r"the (?:script|workload) ended with exit code \d+: (?=.)")


def status_text(status: Status, result: Result | None = None) -> str:
    """Return the status of a session, and who stopped it or why its result is unknown."""
    if status in WHY_NO_RESULT:
        return f"{status}: {WHY_NO_RESULT[status]}"
    return str(status) if result is None else f"{status}{_cause_text(result)}"


def ended_text(result: Result) -> str:
    """Return the status of a session that ended, its time, and who stopped it."""
    return f"{result.status} after {units.seconds(result.wall_s)}{_cause_text(result)}"


def _cause_text(result: Result) -> str:
    text = None if result.stopped_by is None else CAUSE_TEXT.get(result.stopped_by)
    how_to_keep = _HOW_TO_KEEP if result.stopped_by in _WITH_ITS_VIEWER else ""
    return "" if text is None else f": {text}{how_to_keep}"


def stopped_unasked_text(result: Result) -> str:
    """Return the status and the cause of a session that no user stopped; else nothing."""
    return status_text(result.status, result) if result.stopped_by in _NOT_ASKED else ""


def runs_of_sweeps(sweeps: Sequence[SweepEntry]) -> dict[str, RunOfSweep]:
    """Return the runs of the sweeps by the ids of their sessions."""
    runs = {}
    for entry in sweeps:
        plan = entry.plan
        for session, slot in entry.sweep.sessions.items():
            text = slot_text(plan, plan.combinations[slot.combination], slot.repeat)
            runs[session] = RunOfSweep(entry, text)
    return runs


def sweeps_of_host(listed: Iterable[ListedSweep]) -> list[SweepEntry]:
    """Return the sweeps that a host lists, oldest first."""
    entries = []
    for sweep in listed:
        # The list of another host may hold invalid sweeps.
        with contextlib.suppress(SweepError):
            entries.append(entry_of(*sweep))
    return sorted(entries, key=lambda entry: entry.header.wall)


def grouped(
    recorded: Sequence[Recorded], runs: Mapping[str, RunOfSweep], oldest_first: bool = False
) -> list[Recorded]:
    """Return the entries, newest or oldest first, with the runs of a sweep right below it.

    A sweep stands at the place of its newest run.
    """
    of_sweep: dict[str, list[Recorded]] = {
        entry.header.id: [entry] for entry in recorded if not isinstance(entry, SessionEntry)
    }
    groups = list(of_sweep.values())
    for entry in sorted(recorded, key=_began, reverse=not oldest_first):
        if isinstance(entry, SessionEntry):
            run = runs.get(entry.header.id)
            group = of_sweep.get(run.sweep.header.id) if run is not None else None
            if group is not None:
                group.append(entry)
            else:
                groups.append([entry])
    groups.sort(key=lambda group: max(map(_began, group)), reverse=not oldest_first)
    return [entry for group in groups for entry in group]


def _began(entry: Recorded) -> float:
    return entry.header.wall


def device_of(entry: SessionEntry) -> tuple[str, str]:
    """Return the device of a session and its name; until it is over, the requested device."""
    result, header = entry.result, entry.header
    if result is not None:
        return result.device or "", result.device_name or ""
    requested = str(header.options.get("device") or "")
    if requested == "cpu":
        return requested, header.machine.cpu_model or ""
    gpus = header.machine.gpus or ()
    return requested, next((gpu.name for gpu in gpus if requested == f"gpu:{gpu.index}"), "")


def bad_loss_text(entry: SessionEntry) -> str:
    """Say that the newest loss of a session is NaN or infinite; empty if it isn't, or unknown."""
    of_result = ((entry.result and entry.result.against) or {}).get(Doubt.NAN_LOSS.value, "")
    is_or_was = f"the loss {entry.why_no_loss}" if entry.why_no_loss else ""
    return re.sub("^the loss (?:was )?", "loss ", of_result or is_or_was)


def result_text(entry: SessionEntry) -> str:
    """Return the figure of a session in a list, or its status and why there is none."""
    if entry.status in (Status.RUNNING, Status.QUEUED):
        now = f"{entry.status}{_epoch_text(entry)}"
        return ": ".join(filter(None, (now, bad_loss_text(entry))))
    status = "" if entry.status == Status.COMPLETED else f"{entry.status}: "
    if entry.result is not None and entry.result.failure == FailureKind.OUT_OF_MEMORY:
        return f"{status}out of memory"
    return f"{status}{outcome(entry)}".replace(", in doubt: ", "; ")


def _epoch_text(entry: SessionEntry) -> str:
    """Return the epoch of a running session: , epoch 2/3; empty for a script without epochs."""
    wanted = entry.header.options.get("epochs")
    if entry.epoch is None or (type(wanted) is not int and entry.epoch == 1):
        return ""
    # With --seconds, more follow.
    is_one_of = type(wanted) is int and entry.epoch <= wanted
    return f", epoch {entry.epoch}{f'/{wanted}' if is_one_of else ''}"


def outcome(entry: SessionEntry, whole: bool = False, left_out: Iterable[str] = ()) -> str:
    """Return the time of a session, its error, or why it has neither.

    Args:
        entry: the session.
        whole: write reasons and warnings in full, not in a few words.
        left_out: the codes of warnings that stand elsewhere.
    """
    result = entry.result
    text = _outcome(entry, whole, left_out)
    if whole or result is None or result.error or result.stopped_by not in _WITH_ITS_VIEWER:
        return text
    return f"{text}; {CAUSE_TEXT[result.stopped_by]}"


def _outcome(entry: SessionEntry, whole: bool, left_out: Iterable[str]) -> str:
    result = entry.result
    if result is None:
        why = WHY_NO_RESULT.get(entry.status, f"still {entry.status}")
        return why if whole else why.partition(";")[0]
    if result.error:
        return result.error if whole else _EXIT_CODE_FIRST.sub("", result.error)
    if entry.header.is_machine_recording:
        return f"{units.clock(result.wall_s)}  {use_text(result.machine)}".rstrip()
    bad_loss = f"{bad_loss_text(entry)}; " if bad_loss_text(entry) else ""
    metric = compared_metric(entry.header.workload, mode_of(result.options), result)
    timing = timing_of_result(result, entry.header.workload)
    if timing is None:
        why = result.why.get(metric) or "no figure, and no reason was recorded"
        if whole:
            return f"{bad_loss}{why}"
        lacking = (result.lacking or {}).get(metric)
        brief = _lacking_in_brief(lacking, entry.header) or why.partition(": ")[0]
        return f"{bad_loss}{brief}"
    figure = f"{bad_loss}{units.band(timing)} {timed_unit(metric)}".rstrip()
    said = {Doubt.NAN_LOSS.value, *left_out}
    warnings = {code: text for code, text in (result.against or {}).items() if code not in said}
    doubts = f"in doubt: {'; '.join(warnings.values())}" if whole else in_doubt(warnings)
    return f"{figure}, {doubts}" if warnings else figure


def _lacking_in_brief(lacking: Requirement | None, header: SessionHeader) -> str | None:
    if lacking == Requirement.MODEL and header.is_script:
        return NOTHING_SEEN
    return None if lacking is None else _IN_BRIEF.get(lacking)


def id_with_name(id: str, label: Label) -> str:
    """Return the id of a session or a sweep, and its name if it has one."""
    return id if label.name is None else f"{id} ({label.name})"


def what_of(entry: Recorded) -> str:
    """Return the name of a recording, and its workload, or its script with its arguments.

    Sweeps begin with their kind.
    """
    if isinstance(entry, SweepEntry):
        name = entry.label.name
        return f"{kind_of(entry)} {'  '.join(filter(None, (name, swept_text(entry.plan))))}"
    return "  ".join(filter(None, (entry.label.name, call_text(entry.header))))


def kind_of(entry: SweepEntry) -> str:
    """Return the command that made the runs of a sweep: sweep, ab or try."""
    if entry.plan.pairs is None:
        return "sweep"
    return "try" if is_try(entry.plan) else "ab"


def call_text(header: SessionHeader) -> str:
    """Return the workload of a session, or its script and arguments, without secret values."""
    words = [workload_name(header)]
    (arguments,) = arguments_of([from_script(header.command or ())], header.workload)
    for name, value in arguments.items():
        shown = "…" if is_secret(name) else value
        if name.startswith("-"):
            words.append(name if value == GIVEN else f"{name} {shown}")
        elif name.startswith("argument "):
            words.append(shown)
        elif name != PROGRAM and " " not in name:
            words.append(f"{name}={shown}")
    return " ".join(words)


def workload_of(entry: Recorded) -> str:
    """Return the name of the workload; for a sweep over several, their number."""
    if isinstance(entry, SessionEntry):
        return workload_name(entry.header)
    return swept_text(entry.plan)


def workload_name(header: SessionHeader) -> str:
    """Return the workload of a session; "machine" for a recording of the machine alone."""
    return "machine" if header.is_machine_recording else header.workload


def stop_delay_text(header: SessionHeader) -> str:
    """Say how a session stops on request; empty for a recording, which stops at once."""
    if header.is_script:
        return ": the script was asked to end"
    return "" if header.is_machine_recording else " after the current batch"


def use_text(use: MachineUse | None) -> str:
    """Return the use of a machine: CPU 12 %, GPU 0 97 %, 1.2 MJ; empty if unknown."""
    if use is None:
        return ""
    parts = [] if use.cpu_pct is None else [f"CPU {units.percent(use.cpu_pct)}"]
    parts += [f"{device_name(name)} {units.percent(pct)}" for name, pct in use.gpu_pct.items()]
    if use.energy_j:
        parts.append(energy_used(use))
    return ", ".join(parts)


def energy_used(use: MachineUse) -> str:
    """Return the energy used by each device: CPU 82 kJ, GPU 0 1.2 MJ."""
    return ", ".join(f"{device_name(name)} {units.energy(j)}" for name, j in use.energy_j.items())


def device_name(name: str) -> str:
    """Return the name of a device for the screen: GPU 0 for gpu:0."""
    return name.upper().replace(":", " ")


def sweep_outcome(entry: SweepEntry) -> str:
    """Return what a sweep found, else its progress and what it varies: `1 of 2, batch 32, 64`."""
    if entry.plan.pairs is not None:
        base, new = side_names(entry.plan)
        if text := verdict_text(entry.sweep):
            # Lists say the status too.
            is_said = entry.status == Status.FAILED
            return text if is_said else f"{verdict_in_short(entry.sweep)}: {text}"
        return f"{done_text(entry)}, {base} → {new}"
    broken = broken_run(entry.sweep) if entry.plan.is_repeat else None
    if broken is not None and broken[1].reason is not None:
        return f"{done_text(entry)}, {broken[1].reason}"
    if entry.status == Status.COMPLETED and (found := findings(entry.sweep)):
        return found[0].partition("; ")[0]
    progress, varied = done_text(entry), varied_text(entry.plan)
    return f"{progress}, {varied}" if varied else progress


def done_text(entry: SweepEntry) -> str:
    """Return how many combinations of a sweep, its repeats or its pairs are done: 1 of 2."""
    if entry.plan.pairs is not None:
        return units.counted(len(verdict_of(entry.sweep).pairs), "pair")
    if entry.plan.is_repeat:
        runs = len(entry.plan.order)
        return f"{runs - len(entry.sweep.remaining())} of {runs}"
    return f"{entry.sweep.combinations_over} of {len(entry.plan.combinations)}"


def done_in_words(entry: SweepEntry) -> str:
    """Return the same with its noun: 1 of 2 combinations."""
    noun = "runs" if entry.plan.is_repeat else "combinations"
    return done_text(entry) if entry.plan.pairs is not None else f"{done_text(entry)} {noun}"


def can_be_resumed(entry: SweepEntry) -> bool:
    """Return whether a sweep isn't running, and would run something if it were resumed."""
    return entry.status != Status.RUNNING and left_text(entry.sweep) is not None


def resume_command(entry: SweepEntry, by_path: bool = False) -> str:
    """Return the command that resumes a sweep; with its path, it works for any log directory."""
    return resumed_by(shlex.quote(str(entry.path.parent)) if by_path else entry.header.id)


# ---- what `dlmon list` and `dlmon sessions` print ----

_LONGEST_NAME, _LONGEST_OUTCOME = 200, 1_000
# The limit for the name of a folder.
_LONGEST_ID = 255


def describe_workloads(workloads: Sequence[Workload]) -> Iterator[Section]:
    """Yield a table of the workloads, and their sources."""
    sources = list(dict.fromkeys(workload.source for workload in workloads))
    columns: tuple[Column[Workload], ...] = (
        Column("name", lambda workload: workload.name),
        number_column("parameters", lambda workload: f"{workload.parameters:,}"),
        number_column("FLOP/sample", lambda workload: units.count(workload.train_flops)),
        number_column("batch", lambda workload: str(workload.batch_size)),
        number_column("runs for", _length_of),
        Column("source", lambda workload: f"[{sources.index(workload.source) + 1}]"),
        Column("what it is", lambda workload: workload.title),
    )
    yield table_of(columns, workloads)
    yield Note(tuple(f"[{number}] {source}" for number, source in enumerate(sources, 1)))


def _length_of(workload: Workload) -> str:
    if workload.steps is None:
        return f"{workload.epochs} epochs"
    return f"{workload.steps} steps"


def describe_recorded(
    entries: Sequence[SessionEntry],
    sweeps: Sequence[SweepEntry],
    directory: Path,
    by_path: bool = False,
    resumable: bool = True,
) -> Iterator[Section]:
    """Yield a table of the sessions, newest last, one of the sweeps, and commands to resume these.

    Args:
        entries: the sessions.
        sweeps: the sweeps.
        directory: the log directory.
        by_path: name the log directory in commands.
        resumable: sweeps can be resumed here; False for those of another host.
    """
    if entries:
        yield from _sessions(entries, runs_of_sweeps(sweeps))
    if sweeps:
        yield _sweeps(sweeps)
        commands = tuple(
            f"{left_text(entry.sweep)}: {clean(resume_command(entry, by_path))}"
            for entry in sweeps
            if resumable and can_be_resumed(entry)
        )
        if commands:
            yield Note(commands)
    if not entries and not sweeps:
        options = location_options(directory if by_path else None)
        yield Note((f"no sessions in {shown_path(directory)} yet; dlmon run{options} starts one",))


def _sessions(
    entries: Sequence[SessionEntry], runs: Mapping[str, RunOfSweep]
) -> Iterator[Table | Note]:
    results = (entry.result for entry in entries)
    shared = doubts_of_all([result.against or {} for result in results if result is not None])

    def device_text(entry: SessionEntry) -> str:
        device, name = device_of(entry)
        return name or device

    columns: tuple[Column[SessionEntry], ...] = (
        Column("session", _id_of),
        *_COLUMNS,
        _named("device", device_text, 3),
        _named("in a sweep", lambda e: runs[e.header.id].text if e.header.id in runs else "", 4),
        Column("result", lambda entry: clean(outcome(entry, left_out=shared), _LONGEST_OUTCOME)),
    )
    yield table_of(columns, entries, is_cut=True).filled()
    if shared:
        yield Note((f"each run shown: {'; '.join(shared.values())}",))


def _sweeps(sweeps: Sequence[SweepEntry]) -> Table:
    columns: tuple[Column[SweepEntry], ...] = (
        Column("sweep", _id_of),
        *_COLUMNS,
        Column("kind", kind_of),
        _named("done", done_text, 6),
        _named("result", _sweep_result),
    )
    return table_of(columns, sweeps, is_cut=True).filled()


def _sweep_result(entry: SweepEntry) -> str:
    """Return what a sweep found, or else what it varies."""
    text = sweep_outcome(entry).removeprefix(f"{done_text(entry)}, ")
    return text if text != done_text(entry) else f"{entry.plan.repeats} times each"


def _id_of(entry: Recorded) -> str:
    return clean(entry.header.id, _LONGEST_ID)


def _named(name: str, text: Callable[[Any], str], dropped: int = 0) -> Column[Any]:
    """Return a column of texts that aren't our own, cleaned."""
    return Column(name, lambda entry: clean(text(entry), _LONGEST_NAME), dropped=dropped)


_COLUMNS: tuple[Column[Any], ...] = (
    Column("started", lambda entry: units.day_and_time(entry.header.wall), dropped=1),
    _named("name", lambda entry: entry.label.name or "", 5),
    _named("workload", lambda entry: workload_of(entry), 2),
    _named("status", lambda entry: entry.status),
)
"""The columns of both lists: of sessions and of sweeps."""


def session_json(entry: SessionEntry, run: RunOfSweep | None = None) -> dict[str, Any]:
    """Return a session, and the sweep that it is a run of, as `sessions --json` prints it."""
    result, name = entry.result, entry.label.name
    return {
        "session": entry.header.id,
        "name": name,
        "note": entry.label.note,
        "workload": entry.header.workload,
        "status": entry.status,
        "host": entry.header.host,
        "wall": entry.header.wall,
        "pid": entry.pid,
        "log": str(entry.path),
        "options": entry.header.options,
        "result": None if result is None else {**to_json(result), "name": name},
        "sweep": None if run is None else sweep_entry_json(run.sweep),
    }


def sweep_entry_json(entry: SweepEntry) -> dict[str, Any]:
    """Return a sweep as `sessions --json` prints it with each of its sessions."""
    plan, sweep = entry.plan, entry.sweep
    return {
        "id": entry.header.id,
        "kind": kind_of(entry),
        "name": entry.label.name,
        "status": entry.status,
        "wall": entry.header.wall,
        "pid": entry.pid,
        "log": str(entry.path),
        "workloads": list(plan.workloads),
        "vary": {variation.key: list(variation.values) for variation in plan.variations},
        "repeat": plan.repeats,
        "combinations": len(plan.combinations),
        "combinations_done": sweep.combinations_over,
        "runs": len(plan.order),
        "runs_left": len(sweep.remaining()),
        "resume": resume_command(entry, by_path=True) if can_be_resumed(entry) else None,
    }


def settings_text(entry: SessionEntry) -> str:
    """Return the settings and the device of a session, or the machine of a recording."""
    if entry.header.is_machine_recording:
        cpu = units.device(entry.header.machine.cpu_model or "")
        return f"{workload_of(entry)} {entry.header.host}  {cpu}".rstrip()
    options, result = entry.header.options, entry.result
    device, name = device_of(entry)
    # The device of "auto" is known once the run is over.
    device_text = "" if device == "auto" else units.device(name or device)
    parts = [call_text(entry.header), f"on {device_text}" if device_text else ""]
    length = {name: options.get(name) for name in ("batch_size", "epochs", "steps")}
    words = {name: in_words({name: value}) for name, value in length.items() if value}
    trained, wanted = None if result is None else result.epochs, length["epochs"]
    if isinstance(wanted, int) and trained is not None and trained < wanted:
        words["epochs"] = f"{trained} of {words['epochs']}"
    parts.extend(words.values())
    parts.extend((*unusual_settings(options), *injected_texts(entry.header)))
    data = result.data if result is not None else None
    parts.append(f"{data} data" if data else "")
    return "  ".join(part for part in parts if part)


def speed_text(result: Result, header: SessionHeader) -> str:
    """Return the throughput, the times, the cost and the energy of a session."""
    parts = list(map(units.throughput, throughputs_of(result)))
    if result.step_ms is not None:
        parts.append(f"{units.step_time(result.step_ms.median)} per step")
    if result.compile_s is not None:
        compiled = first_batch_compiled(header)
        # Without compilation, leave out the first batch of a validation, as the live screen does.
        validation_s = 0.0 if compiled else result.validation_compile_s or 0.0
        parts.append(compile_text(max(0.0, result.compile_s - validation_s), compiled))
    parts.append(f"took {units.seconds(result.wall_s)}")
    parts.extend((cost_text(result), energy_text(result), effective_text(result)))
    parts.extend(map(" ".join, rows_shown_in("details", result)))
    return "   ".join(part for part in parts if part)


def recording_headline(
    snapshot: Snapshot, status: str, use: MachineUse, folder: str
) -> tuple[str, tuple[str, ...]]:
    """Return the headline of a recording of a machine, and the sentences that explain it.

    Args:
        snapshot: the figures of its session.
        status: its status, or "stopping".
        use: the use of the machine over all of the time.
        folder: where it is written.
    """
    began, lasted_s = snapshot.header.wall, snapshot.elapsed_s
    now, for_s = began + lasted_s, snapshot.header.options.get("for_s")
    word, when = "RECORDING", f"since {_moment(began, now)}"
    if status == "stopping":
        word = "STOPPING"
    elif status != Status.RUNNING:
        word, when = "RECORDED", f"{_moment(began, now)} to {_moment(now, began)}, {status}"
    elif isinstance(for_s, (int, float)):
        when += f", until {_moment(began + for_s, now)} ({units.clock(for_s)})"
    shares = {device_name(gpu): pct for gpu, pct in use.gpu_pct.items()}
    shares |= {} if use.cpu_pct is None else {"CPU": use.cpu_pct}
    busiest = sorted(shares, key=lambda name: -shares[name])[:_MOST_BUSIEST]
    means = ", ".join(f"{name} {units.percent(shares[name])}" for name in busiest)
    busy = (f"busiest on average: {means}",) if means else ()
    return f"{word} {units.short_clock(lasted_s)}", (when, *busy, f"→ written to {folder}")


_MOST_BUSIEST = 3


def _moment(wall: float, other_wall: float) -> str:
    """Write a time of day, with its day if the other time is on another day."""
    day = units.day_and_time(wall)
    is_same_day = day.split()[0] == units.day_and_time(other_wall).split()[0]
    return units.time_of_day(wall) if is_same_day else day


def matching(
    entries: Sequence[Recorded], typed: str, runs: Mapping[str, RunOfSweep] | None = None
) -> list[Recorded]:
    """Return the entries that contain every typed word; `runs` are those of sweeps, by session."""
    if not typed.strip():
        return list(entries)
    return [
        entry
        for entry in entries
        if has_words(_searched(entry, (runs or {}).get(entry.header.id)), typed)
    ]


def _searched(entry: Recorded, run: RunOfSweep | None) -> str:
    header = entry.header
    texts = [header.id, what_of(entry), entry.status, header.host]
    texts += [entry.label.note or "", units.day_and_time(header.wall)]
    if isinstance(entry, SweepEntry):
        texts.append(sweep_outcome(entry))
    else:
        texts += [*device_of(entry), bad_loss_text(entry)]
    if run is not None:
        texts += [run.sweep.header.id, run.sweep.label.name or "", run.text]
    return " ".join(texts)


def split_for_comparison(
    sessions: Sequence[SessionEntry],
) -> tuple[list[SessionEntry], list[SessionEntry]] | None:
    """Split sessions into those to compare with and those to compare; None for fewer than two.

    If the sessions have two names, split by name, the name of the oldest session first. Otherwise
    compare all with the oldest.
    """
    oldest_first = sorted(sessions, key=lambda entry: entry.header.wall)
    if len(oldest_first) < 2:
        return None
    names = {entry.label.name for entry in oldest_first}
    if len(names) == 2 and None not in names:
        name = oldest_first[0].label.name
        base = [session for session in oldest_first if session.label.name == name]
    else:
        base = oldest_first[:1]
    return base, [session for session in oldest_first if session not in base]
