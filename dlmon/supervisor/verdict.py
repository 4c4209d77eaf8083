"""Make the result record of a session: its status, the reason in words, and its cost."""

from __future__ import annotations

import math
import re
import signal
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dlmon.comparison.price import cpus_of, parse_price
from dlmon.protocol.job import Job
from dlmon.protocol.stop import signal_name
from dlmon.quantities import QUANTITIES
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
from dlmon.records.words import STEPS_PER_S
from dlmon.session.effective import Effective
from dlmon.session.exception_line import find_error
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
# Messages of Python, PyTorch, TensorFlow, JAX and C++ in an exception or before a crash. The
# allocator's own line may be the only one.
_OUT_OF_MEMORY = re.compile(
    r"MemoryError\b|std::bad_alloc|out of memory|resource_?exhausted|failed to allocate"
    r"|OOM when allocating|not enough memory|can(?:'t|not) allocate memory",
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
# Of the epochs a result has the number.
_REPORTED = {one.key.partition(".")[0] for one in QUANTITIES if one.is_reported} - {"epochs"}
_FIGURES_OF_A_MODEL = ("device", "compile_s", "effective_flop_s", "peak_share")
_BY_SLURM = (*(StopCause.TIME_LIMIT, StopCause.PREEMPTED, StopCause.REQUEUED, StopCause.CANCELLED),)
_CRASHES = (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS)


@dataclass(frozen=True)
class Ending:
    """The end of the workload's process.

    Attributes:
        exit_code: negative for a signal; None if it never started.
        stopped_by: who asked it to end; None if nobody did.
        failure: the reason that it reported itself.
        out_of_memory: true if the kernel had just killed a process because memory ran out.
        last_output: the last lines that it printed.
        is_script: true for a person's own script.
        why_nothing_trained: why no training was seen in it; None if some was.
        was_not_ours: true if dlmon did not start it, and so can't know how it ended.
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
    """Return the result record of a session that has ended.

    In a run on several hosts, `nodes` has the energy of the other hosts, by their names.
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
        validation_compile_s=None
        if snapshot.compile_s is None
        else round(snapshot.validation_compile_s, 6),
        error=error,
        failure=kind,
        exit_code=ending.exit_code,
        epochs=epochs_ended(snapshot.epochs, status),
        opening_stalls=snapshot.opening_stalls,
        **measured,
        **{name: getattr(snapshot, name) for name in _REPORTED if hasattr(snapshot, name)},
        samples_per_epoch=(model.samples_per_epoch or None) if model else None,
        lacking=lacking or None,
        valid=None if validity is None else validity.is_valid,
        against=None
        if validity is None
        else {d.value: text for d, text in validity.warnings.items()},
        account={part.value: round(took_s, 3) for part, took_s in snapshot.time_breakdown.items()},
        counts_steps=snapshot.throughput_unit == STEPS_PER_S or None,
        loops=snapshot.longest_loops(MOST_LOOPS) if len(snapshot.loops) > 1 else None,
        t=now_ns,
        wall=wall,
        why=why,
    )


def why_nothing_trained(ending: Ending) -> str | None:
    """Return why no training was seen in a script; None if it ended by an exception."""
    code = ending.exit_code
    if code is not None and code > 0 and find_error(ending.last_output, code) is not None:
        return None
    return ending.why_nothing_trained


def _options(job: Job, model: Model | None, last: Model | None) -> dict[str, Any]:
    """Return the options of a run, with the measured ones of a script.

    Only the model of the `last` loop has the number of epochs of all loops.
    """
    if model is None:
        return job.options
    if not job.script:
        # The batch size depends on the number of devices.
        return {**job.options, "batch_size": model.batch_size}
    measured = {name: getattr(model, name) for name in ("batch_size", "precision", "backend")}
    # A number of epochs that is not from the script itself may be wrong.
    measured["epochs"] = None if last is None or last.length_from is not None else last.epochs
    return {**job.options, **{name: value for name, value in measured.items() if value is not None}}


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
    """Return why a run was too short for a steady state, with the rough time of its batches."""
    if not snapshot.batches:
        return NOTHING_RECORDED
    why, step_ms = NEVER_STEADY, snapshot.rough_step_ms
    if step_ms is not None:
        about = f"{step_ms:.3g} ms" if step_ms < 999.5 else f"{step_ms / 1000:.3g} s"
        why = f"{TOO_SHORT}, about {about} per batch: {STEADY_TAKES}"
    # The time of 12 batches: two more than needed, because the first is not counted.
    seconds = max(5, math.ceil((step_ms or 0.0) * 12 / 1000))
    is_workload = status == Status.COMPLETED and not snapshot.header.is_script
    return f"{why}; --seconds {seconds} trains that long" if is_workload else why


def _status(ending: Ending, batch_size: object) -> tuple[Status, str | None, FailureKind | None]:
    """Return completed, stopped or failed, and the reason of a failure in words and as a code."""
    code = ending.exit_code
    if ending.stopped_by in _BY_SLURM and code is not None:
        # A script that saves its state on a signal may then exit with 0.
        return Status.STOPPED, None, None
    if code == 0 or (ending.was_not_ours and ending.stopped_by is None):
        return Status.COMPLETED, None, None
    if ending.stopped_by is not None:
        return Status.STOPPED, None, None
    if ending.failure is not None:
        return Status.FAILED, ending.failure.text, ending.failure.kind
    who = "the script" if ending.is_script else "the workload"
    if code is None or code >= 0:
        error = None if code is None else find_error(ending.last_output, code)
        is_refusal = code == _REFUSED and not ending.is_script
        kind = FailureKind.REFUSED if is_refusal else FailureKind.UNKNOWN
        if error is not None and code == 1:
            is_memory = _OUT_OF_MEMORY.search(error)
            kind = FailureKind.OUT_OF_MEMORY if is_memory else FailureKind.EXCEPTION
        why = "" if error is None else f": {error}"
        return Status.FAILED, f"{who} ended with exit code {code}{why}", kind
    # A script's lines before a crash may be of another of its processes.
    lines = () if ending.is_script or -code not in _CRASHES else ending.last_output
    kind = FailureKind.KILLED if -code == signal.SIGKILL else FailureKind.SIGNAL
    memory = ""
    if -code == signal.SIGKILL and ending.out_of_memory:
        memory = "memory ran out"
    elif line := next((line.text for line in lines if _OUT_OF_MEMORY.search(line.text)), None):
        memory = "GPU memory ran out" if "GPU" in line else "memory ran out"
    if memory:
        kind = FailureKind.OUT_OF_MEMORY
        memory += f" (batch size {batch_size:,}): " if isinstance(batch_size, int) else ": "
    return Status.FAILED, f"{memory}{who} ended by {signal_name(-code)}", kind


def _device_name(snapshot: Snapshot) -> str | None:
    model = snapshot.model
    if model is None:
        return None
    if model.device_name is not None and len(model.gpus) > 1:
        return f"{len(model.gpus)} × {model.device_name}"
    cpu_model = snapshot.header.machine.cpu_model if model.device == "cpu" else None
    return model.device_name or cpu_model


def measure(
    model: Model | None,
    energy: Sequence[MachineEnergy],
    epochs: Sequence[Epoch],
    effective: Effective,
    wall_s: float,
    price: str | None,
    cpus: int | None,
) -> dict[str, Any]:
    """Return energy, cost and operations of a run as fields of its `Result`, with `why`.

    Args:
        model: the model that trained.
        energy: the energy of every host that trained.
        epochs: the epochs that have ended.
        effective: the operations per second.
        wall_s: the run's wall time.
        price: the price as typed.
        cpus: the number of CPUs that the run may use, for a price per CPU.
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
"""The energy meter of a host, and NVML's numbers of the GPUs that trained."""

_Figure = tuple[float | None, str | None]
"""A figure, or None and why it is unknown."""


def _cost_usd(price: str | None, wall_s: float, cpus: int | None) -> _Figure:
    if price is None:
        return None, NO_PRICE
    try:
        cost = parse_price(price).cost_usd(wall_s, cpus)
    except ValueError as error:
        return None, str(error)
    if cost is None:
        return None, "the price is per CPU, and the number of CPUs is not known"
    return cost, None


def _of_other_machines(
    snapshot: Snapshot, nodes: Mapping[str, EnergyMeter]
) -> Iterator[MachineEnergy]:
    gpus: defaultdict[str, set[int]] = defaultdict(set)
    for rank in snapshot.trainers:
        if rank.trainer.host is not None:
            gpus[rank.trainer.host].update(rank.gpus)
    for host, numbers in gpus.items():
        yield nodes.get(host) or EnergyMeter(), sorted(numbers)


def epochs_ended(epochs: Sequence[Epoch], status: Status) -> int:
    """Return the number of epochs that ended, without the one that a stop or an error cut."""
    *earlier, last = epochs or (None,)
    is_cut = (
        last is not None
        and status != Status.COMPLETED
        and not last.whole
        # A script that leaves every epoch early, or --steps, cuts them all.
        and all(epoch.whole or (epoch.steps or 0) > (last.steps or 0) for epoch in earlier)
    )
    return len(epochs) - is_cut


def _energy_by_device(
    model: Model | None, energy: Sequence[MachineEnergy], epochs: Sequence[Epoch]
) -> tuple[dict[str, float] | None, dict[str, str]]:
    """Return joules per epoch by device, and the reasons of missing ones."""
    if model is not None and model.why_no_epochs is not None:
        return None, {"energy_j_per_epoch": model.why_no_epochs}
    whole = [epoch for epoch in epochs if epoch.is_timed]
    if not whole and any(epoch.whole and epoch.profiled for epoch in epochs):
        return None, {"energy_j_per_epoch": "a profiler slowed every whole epoch"}
    if not whole:
        return None, {"energy_j_per_epoch": NO_WHOLE_EPOCH}
    counters = {"cpu": [meter.cpu for meter, _ in energy]}
    if model is not None and model.device is not None and model.device.startswith("gpu"):
        gpu_counters = [meter.gpu(number) for meter, gpus in energy for number in gpus or (None,)]
        counters = {"gpu": gpu_counters, **counters}
    measured: dict[str, float] = {}
    reasons: dict[str, str] = {}
    for name, device_counters in counters.items():
        try:
            measured[name] = sum(counter.per_epoch(whole) for counter in device_counters)
        except NotMeasured as reason:
            reasons[name] = str(reason)
    if measured:
        return measured, {f"energy_j_per_epoch.{name}": why for name, why in reasons.items()}
    why = "; ".join(f"{name.upper()}: {reason}" for name, reason in reasons.items())
    return None, {"energy_j_per_epoch": why}
