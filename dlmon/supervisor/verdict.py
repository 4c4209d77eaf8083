"""How a session ended: its status, why in words, what it cost, and the result record."""

from __future__ import annotations

import math
import re
import signal
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dlmon.comparison.compared_run import cpus_of
from dlmon.comparison.price import parse_price
from dlmon.protocol.job import Job
from dlmon.protocol.stop import signal_name
from dlmon.records import (
    Epoch,
    Failure,
    FailureKind,
    MachineUse,
    Model,
    Output,
    Requirement,
    Result,
    SessionHeader,
    Status,
    StopCause,
)
from dlmon.records.sanitize import clean
from dlmon.session.effective import Effective
from dlmon.session.machine_history import NO_WHOLE_EPOCH, EnergyMeter, NotMeasured
from dlmon.session.reasons import (
    NEVER_STEADY,
    NO_PRICE,
    NO_WORKLOAD,
    NOTHING_RECORDED,
    NOTHING_SEEN,
    STEADY_TAKES,
    TOO_SHORT,
)
from dlmon.session.snapshot import Snapshot

MOST_LOOPS = 100
# What Python, PyTorch, TensorFlow, JAX and C++ call it in an exception, or before they crash.
# The allocator's own line may be all that a crash leaves time for.
_OUT_OF_MEMORY = re.compile(
    r"MemoryError\b|std::bad_alloc|out of memory|resource_?exhausted|failed to allocate"
    r"|OOM when allocating|not enough memory",
    re.IGNORECASE,
)
# The exit code of a workload that refuses its options (workloads/__main__.py).
_REFUSED = 69
_FIGURES_OF_A_RUN = (
    "device",
    "seconds_per_epoch",
    "run_seconds",
    "samples_per_second",
    "step_ms",
    "compile_s",
    "epochs",
    "batches",
    "stalls",
)
_FIGURES_OF_A_MODEL = ("device", "compile_s", "effective_flop_s", "peak_share")
_BY_SLURM = (*(StopCause.TIME_LIMIT, StopCause.PREEMPTED, StopCause.REQUEUED, StopCause.CANCELLED),)
_CRASHES = (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS)


@dataclass(frozen=True)
class Ending:
    """How the workload's process ended.

    `exit_code` is negative for a signal, None when it never started.
    `stopped_by` says who had asked it to end, None where nobody had. `failure`
    is the reason that it reported itself. `out_of_memory` says that the kernel
    had just killed something for want of memory, `last_output` are the last
    lines that it printed. `is_script` says that it was a person's own, and
    `why_nothing_trained` why no training was seen in it, whatever ended it. Of
    one that ran already, how it ended can't be known: it `was_not_ours`.
    """

    exit_code: int | None
    stopped_by: StopCause | None
    failure: Failure | None
    out_of_memory: bool
    last_output: Sequence[Output] = ()
    is_script: bool = False
    why_nothing_trained: str | None = None
    was_not_ours: bool = False


def make_result(
    job: Job,
    log: str,
    snapshot: Snapshot,
    energy: EnergyMeter,
    ending: Ending,
    now_ns: int,
    wall: float,
    nodes: Mapping[str, EnergyMeter] | None = None,
) -> Result:
    """Return the result record of a session that has ended, with what it cost by then.

    Of a run on several machines, `nodes` has the energy of the others, by their names.
    """
    header, model, validity = snapshot.header, snapshot.measured_model, snapshot.validity
    batch_size = model.batch_size if model is not None else job.options.get("batch_size")
    status, error, kind = _status(ending, batch_size)
    wall_s, price = (now_ns - header.t) / 1e9, job.options.get("price")
    measured = measure(
        model,
        [(energy, snapshot.gpus), *_of_other_machines(snapshot, nodes or {})],
        snapshot.epochs,
        snapshot.effective,
        wall_s,
        None if price is None else str(price),
        cpus_of(job.options, header.machine),
    )
    lacking = snapshot.lacking
    unsteady = [name for name in lacking if lacking[name] == Requirement.STEADY_STATE]
    too_short = _too_short(snapshot, status)
    why = {**snapshot.why, **snapshot.token_shares.why, **measured.pop("why")}
    why |= dict.fromkeys(unsteady, too_short)
    if snapshot.seconds_per_epoch is not None and not snapshot.seconds_per_epoch.projected:
        why.pop("validation", None)
    if ending.was_not_ours:
        why["exit_code"] = "dlmon did not start its process, and can't know how it ended"
    if model is None and ending.is_script:
        nothing_trained = why_nothing_trained(ending) or NOTHING_SEEN
        why |= dict.fromkeys((*lacking, *_FIGURES_OF_A_MODEL), nothing_trained)
    elif model is None:
        why["device"] = "the workload ended before it chose one"
    elif model.device is None:
        why["device"] = model.why.get("device", "a script does not say which one it uses")
    return Result(
        status=status,
        stopped_by=ending.stopped_by if status == Status.STOPPED else None,
        session=header.id,
        log=log,
        workload=job.workload,
        device=model.device if model else None,
        devices=model.devices if model else None,
        device_name=_device_name(snapshot),
        data=model.data if model else None,
        options=_options(job, model, snapshot.model),
        wall_s=round(wall_s, 3),
        seconds_per_epoch=snapshot.seconds_per_epoch,
        run_seconds=snapshot.run_seconds,
        samples_per_second=snapshot.samples_per_second,
        step_ms=snapshot.step_ms,
        compile_s=snapshot.compile_s,
        validation_compile_s=None
        if snapshot.compile_s is None
        else round(snapshot.validation_compile_s, 6),
        error=error,
        failure=kind,
        exit_code=ending.exit_code,
        epochs=len(snapshot.epochs),
        batches=snapshot.batches,
        stalls=snapshot.stalls,
        opening_stalls=snapshot.opening_stalls,
        **measured,
        samples_per_epoch=(model.samples_per_epoch or None) if model else None,
        lacking=lacking or None,
        valid=None if validity is None else validity.is_valid,
        against=None
        if validity is None
        else {d.value: text for d, text in validity.against.items()},
        account={part.value: round(took_s, 3) for part, took_s in snapshot.account.items()},
        counts_steps=snapshot.counts_steps or None,
        loops=snapshot.longest_loops(MOST_LOOPS) if len(snapshot.loops) > 1 else None,
        tokens_per_second=snapshot.tokens_per_second,
        not_padding=snapshot.not_padding,
        trained_on=snapshot.trained_on,
        t=now_ns,
        wall=wall,
        why=why,
    )


def why_nothing_trained(ending: Ending) -> str | None:
    """Return why no training was seen in a script; None where an exception says it."""
    code = ending.exit_code
    if code is not None and code > 0 and find_error(ending.last_output, code) is not None:
        return None
    return ending.why_nothing_trained


def _options(job: Job, model: Model | None, last: Model | None) -> dict[str, Any]:
    """Return what a run was asked for; of a script, as what it trains turned out to be.

    Only the `last` of its loops says how many epochs all of them are to have.
    """
    if model is None:
        return job.options
    if not job.script:
        # On several devices it follows from how many there are.
        return {**job.options, "batch_size": model.batch_size}
    names = ("batch_size", "precision", "backend")
    seen = {name: getattr(model, name) for name in names}
    # What was read elsewhere may be wrong.
    seen["epochs"] = None if last is None or last.length_from is not None else last.epochs
    return {**job.options, **{name: value for name, value in seen.items() if value is not None}}


def make_machine_result(
    header: SessionHeader,
    log: str,
    use: MachineUse,
    *,
    stopped_by: StopCause | None,
    now_ns: int,
    wall: float,
) -> Result:
    """Return the result record of a machine that was recorded without a workload."""
    return Result(
        status=Status.COMPLETED if stopped_by is None else Status.STOPPED,
        stopped_by=stopped_by,
        session=header.id,
        log=log,
        workload=header.workload,
        device=None,
        options=header.options,
        wall_s=round((now_ns - header.t) / 1e9, 3),
        machine=use,
        t=now_ns,
        wall=wall,
        why=dict.fromkeys(_FIGURES_OF_A_RUN, NO_WORKLOAD),
    )


def _too_short(snapshot: Snapshot, status: Status) -> str:
    """Say why a run that is over has no figure, and about how long its batches took."""
    if not snapshot.batches:
        return NOTHING_RECORDED
    why, step_ms = NEVER_STEADY, snapshot.rough_step_ms
    if step_ms is not None:
        about = f"{step_ms:.3g} ms" if step_ms < 999.5 else f"{step_ms / 1000:.3g} s"
        why = f"{TOO_SHORT}, about {about} per batch: {STEADY_TAKES}"
    # Two batches more than it takes: the first is left out.
    seconds = max(5, math.ceil((step_ms or 0.0) * 12 / 1000))
    of_ours = status == Status.COMPLETED and not snapshot.header.is_script
    return f"{why}; --seconds {seconds} trains that long" if of_ours else why


def _status(ending: Ending, batch_size: object) -> tuple[Status, str | None, FailureKind | None]:
    """Return completed, stopped or failed; and of what failed why, in words and as a code."""
    code = ending.exit_code
    if ending.stopped_by in _BY_SLURM and code is not None:
        # A script that saves its state then ends as if all were done.
        return Status.STOPPED, None, None
    if code == 0 or (ending.was_not_ours and ending.stopped_by is None):
        return Status.COMPLETED, None, None
    if ending.stopped_by is not None:
        return Status.STOPPED, None, None
    if ending.failure is not None:
        return Status.FAILED, ending.failure.text, ending.failure.kind
    who = "the script" if ending.is_script else "the workload"
    if code is None or code >= 0:
        found = None if code is None else find_error(ending.last_output, code)
        is_refusal = code == _REFUSED and not ending.is_script
        kind = FailureKind.REFUSED if is_refusal else FailureKind.UNKNOWN
        if found is not None and code == 1:
            is_memory = _OUT_OF_MEMORY.search(found)
            kind = FailureKind.OUT_OF_MEMORY if is_memory else FailureKind.EXCEPTION
        why = "" if found is None else f": {found}"
        return Status.FAILED, f"{who} ended with exit code {code}{why}", kind
    # What a script wrote before a crash may be of another of its processes.
    said = () if ending.is_script or -code not in _CRASHES else ending.last_output
    kind = FailureKind.KILLED if -code == signal.SIGKILL else FailureKind.SIGNAL
    what = ""
    if -code == signal.SIGKILL and ending.out_of_memory:
        what = "memory ran out"
    elif line := next((line.text for line in said if _OUT_OF_MEMORY.search(line.text)), None):
        what = "GPU memory ran out" if "GPU" in line else "memory ran out"
    if what:
        kind = FailureKind.OUT_OF_MEMORY
        what += f" (batch size {batch_size:,}): " if isinstance(batch_size, int) else ": "
    return Status.FAILED, f"{what}{who} ended by {signal_name(-code)}", kind


def _device_name(snapshot: Snapshot) -> str | None:
    model = snapshot.model
    if model is None:
        return None
    if model.device_name is not None and len(model.gpus) > 1:
        return f"{len(model.gpus)} × {model.device_name}"
    of_cpu = snapshot.header.machine.cpu_model if model.device == "cpu" else None
    return model.device_name or of_cpu


LONGEST_LINE = 240

_TRACEBACK = "Traceback (most recent call last):"
_OF_AN_EXCEPTION = 1
"""The exit code that Python gives a script that an exception ended."""
# Whatever an exception is called, it is one after a traceback; without one, its name has to say so.
_AFTER_TRACEBACK = re.compile(r"[^\W\d][\w.]*(?::.*)?")
_EXCEPTION = re.compile(r"(?:[^\W\d]\w*\.)*(?:[A-Z]\w*)?(?:Error|Exception|Interrupt|Exit): \S.*")
_PROGRESS = re.compile(
    r"\W*(?:epoch|step|iter\w*|batch|(?:train\w*\W+)?loss)\b.*\d.* | \s*\d+/\d+\s.*",
    re.VERBOSE | re.IGNORECASE,
)
# Of a process that torchrun started; and of torchrun, which says no more than that one failed.
_RANK = re.compile(r"(\[(?:rank|default)\d+\]): ?(?!\[[IWEF]\d)")
_CHILD_FAILED = re.compile(r"[\w.]*\.ChildFailedError:?\s*")
# Python itself, where there is no such script.
_NO_SCRIPT = re.compile(r"\S*python[\d.]*: (can't open file .*|No module named .*)")


def find_error(output: Sequence[Output], exit_code: int) -> str | None:
    """Return the exception of the last line, or of the last traceback; None where there is none.

    What follows a traceback belongs to its message, or was said while the script ended. Where
    training went on, the script has handled it, and so has one with an exit code of its own.

    Args:
        output: the last lines that it wrote.
        exit_code: what it ended with.
    """
    lines = _of_one_process([replace(one, text=one.text.rstrip()) for one in output])
    last = lines[-1].text if lines else ""
    begin = _last_traceback(lines)
    if no_script := _NO_SCRIPT.fullmatch(last):
        return _said(no_script[1])
    if begin is not None and exit_code != _OF_AN_EXCEPTION:
        return None
    if begin is None or _EXCEPTION.fullmatch(last):
        return _said(last) if _EXCEPTION.fullmatch(last) else None
    line, after = _exception(lines, begin)
    # What another stream holds may have been written before: into a pipe it comes late.
    stream = lines[begin].stream
    went_on = any(one.stream == stream and _PROGRESS.fullmatch(one.text) for one in after)
    return None if went_on or not _AFTER_TRACEBACK.fullmatch(line) else _said(line)


def _of_one_process(lines: Sequence[Output]) -> list[Output]:
    """Return what the first process of several says that has a traceback, and what none says.

    What torchrun says last is left out: that one of them failed.
    """
    ranks = [_RANK.match(line.text) for line in lines]
    kept = [replace(line, text=_RANK.sub("", line.text, count=1)) for line in lines]
    of_ranks = list(zip(ranks, kept, strict=True))
    failed = [rank[1] for rank, line in of_ranks if rank and line.text.strip() == _TRACEBACK]
    found = [
        line
        for rank, line in of_ranks
        if line.text and (rank is None or not failed or rank[1] == failed[0])
    ]
    last = _last_traceback(found)
    if last is not None and _CHILD_FAILED.fullmatch(_exception(found, last)[0]):
        before = found[:last]
        return before if _last_traceback(before) is not None else found
    return found


def _last_traceback(lines: Sequence[Output]) -> int | None:
    begins = [number for number, line in enumerate(lines) if line.text.strip() == _TRACEBACK]
    return begins[-1] if begins else None


def _exception(lines: Sequence[Output], begin: int) -> tuple[str, Sequence[Output]]:
    """Return what stands after the indented frames of a traceback, and the lines that follow it."""
    stream = lines[begin].stream
    for number in range(begin + 1, len(lines)):
        line = lines[number]
        if line.stream == stream and not line.text.startswith(" "):
            return line.text, lines[number + 1 :]
    return "", ()


def _said(line: str) -> str:
    return clean(line, LONGEST_LINE).rstrip(":")


def measure(
    model: Model | None,
    energy: Sequence[MachineEnergy],
    epochs: Sequence[Epoch],
    effective: Effective,
    wall_s: float,
    price: str | None,
    cpus: int | None,
) -> dict[str, Any]:
    """Return what a run that has ended cost, as fields of its `Result`; `why` has the reasons.

    Args:
        model: what runs.
        energy: of each machine that trained.
        epochs: that have ended.
        effective: the operations per second.
        wall_s: the run's wall time.
        price: as it was typed.
        cpus: how many a price per CPU counts: those that the run may use.
    """
    cost, why_no_cost = _cost_usd(price, wall_s, cpus)
    energy_j_per_epoch, why = _energy_by_device(model, energy, epochs)
    why |= effective.why if why_no_cost is None else {**effective.why, "cost_usd": why_no_cost}
    return {
        "energy_j_per_epoch": energy_j_per_epoch,
        "cost_usd": cost,
        **vars(effective),
        "why": why,
    }


MachineEnergy = tuple[EnergyMeter, Sequence[int]]
"""What has folded a machine's samples, and the GPUs that were trained on, by NVML's numbers."""

_Figure = tuple[float | None, str | None]
"""A figure, or None and why it is unknown."""


def _cost_usd(price: str | None, wall_s: float, cpus: int | None) -> _Figure:
    if price is None:
        return None, NO_PRICE
    try:
        cost = parse_price(price).cost_usd(wall_s, cpus)
    except ValueError as refused:
        return None, str(refused)
    if cost is None:
        return None, "the price is per CPU, and the number of CPUs is not known"
    return cost, None


def _of_other_machines(
    snapshot: Snapshot, nodes: Mapping[str, EnergyMeter]
) -> Iterator[MachineEnergy]:
    gpus: defaultdict[str, set[int]] = defaultdict(set)
    for one in snapshot.trainers:
        if one.trainer.host is not None:
            gpus[one.trainer.host].update(one.gpus)
    for host, numbers in gpus.items():
        yield nodes.get(host) or EnergyMeter(), sorted(numbers)


def _energy_by_device(
    model: Model | None, energy: Sequence[MachineEnergy], epochs: Sequence[Epoch]
) -> tuple[dict[str, float] | None, dict[str, str]]:
    """Return joules per epoch by device, and why those that are missing are unknown."""
    if model is not None and model.why_no_epochs is not None:
        return None, {"energy_j_per_epoch": model.why_no_epochs}
    whole = [epoch for epoch in epochs if epoch.whole and epoch.end > epoch.begin]
    if not whole:
        return None, {"energy_j_per_epoch": NO_WHOLE_EPOCH}
    counters = {"cpu": [meter.cpu for meter, _ in energy]}
    if model is not None and model.device is not None and model.device.startswith("gpu"):
        of_gpus = [meter.gpu(number) for meter, gpus in energy for number in gpus or (None,)]
        counters = {"gpu": of_gpus, **counters}
    measured: dict[str, float] = {}
    reasons: dict[str, str] = {}
    for name, each in counters.items():
        try:
            measured[name] = sum(counter.per_epoch(whole) for counter in each)
        except NotMeasured as reason:
            reasons[name] = str(reason)
    if measured:
        return measured, {f"energy_j_per_epoch.{name}": why for name, why in reasons.items()}
    why = "; ".join(f"{name.upper()}: {reason}" for name, reason in reasons.items())
    return None, {"energy_j_per_epoch": why}
