"""The GPU memory of a framework, and why it ran out, as text."""

from __future__ import annotations

from collections.abc import Iterator
from operator import itemgetter

from dlmon.figures import units
from dlmon.records import FailureKind, FrameworkMemory, OutOfMemory, Process, Result
from dlmon.records.memory import MIB, read_out_of_memory
from dlmon.records.words import memory_amount
from dlmon.script_name import program_name
from dlmon.session.framework_memory import MemoryGrowth
from dlmon.session.machine_history import facts_of_gpu
from dlmon.session.snapshot import Snapshot

# The number of last lines of output that may hold the error.
_LAST_LINES = 60
# The peak has grown if it is more than this many times that of the first epoch.
_GREW = 1.1
# Optimizers with two states for each parameter.
_TWO_STATES = ("Adam", "AdamW", "NAdam", "RAdam")


def memory_text(snapshot: Snapshot) -> str:
    """Return the memory of the allocator, its peak and its growth; empty if unknown."""
    use, result = snapshot.memory, snapshot.result
    parts = [] if use.newest is None else list(_allocated(use.newest))
    if use.growth is not None:
        parts.append(_growth_text(use.growth, result))
    if use.errors:
        parts.append("ran out once" if use.errors == 1 else f"ran out {use.errors:,} times")
    return ", ".join(parts)


def _allocated(newest: FrameworkMemory) -> Iterator[str]:
    yield f"allocated {memory_amount(newest.allocated_mib)}"
    if newest.reserved_mib is not None:
        yield f"reserved {memory_amount(newest.reserved_mib)}"
    limit = "" if newest.limit_mib is None else f" of {memory_amount(newest.limit_mib)}"
    yield f"peak {memory_amount(newest.peak_mib)}{limit}"
    if newest.retries:
        yield "1 retry" if newest.retries == 1 else f"{newest.retries:,} retries"


def _growth_text(growth: MemoryGrowth, result: Result | None) -> str:
    """Return the growth of the peak, and when it fills the memory, or would have."""
    growth_text = f"{memory_amount(growth.epoch_mib)} per epoch"
    if growth.full_in is None or (result and result.failure == FailureKind.OUT_OF_MEMORY):
        return f"the peak {'grows' if result is None else 'grew'} {growth_text}"
    epochs = units.counted(max(1, round(growth.full_in)), "epoch")
    if result is None:
        return f"the peak grows {growth_text}: full in about {epochs}"
    return f"the peak grew {growth_text}: full after about {epochs} more"


def memory_numbers(snapshot: Snapshot) -> dict[str, int | None]:
    """Return the memory of the allocator as numbers; nothing if no framework reported any."""
    newest, use = snapshot.memory.newest, snapshot.memory
    if newest is None and not use.errors:
        return {}
    names = ("allocated_mib", "reserved_mib", "peak_mib", "limit_mib", "retries")
    numbers = {f"gpu_memory_{name}": getattr(newest, name, None) for name in names}
    return {**numbers, "out_of_memory": use.errors}


def out_of_memory_error(snapshot: Snapshot) -> OutOfMemory | None:
    """Return the error of a run that failed as GPU memory ran out; None for any other end."""
    result = snapshot.result
    if result is None or result.failure != FailureKind.OUT_OF_MEMORY:
        return None
    error = read_out_of_memory(result.error or "")
    on_cpu = snapshot.model is not None and snapshot.model.device == "cpu"
    # JAX reports the memory of the host in the same words.
    if error is None or (on_cpu and error.device is None):
        return None
    # The text of a failure is cut, so look for the same error in the output, too.
    errors = [read_out_of_memory(line.text) for line in snapshot.output[-_LAST_LINES:]]
    copies = [copy for copy in (error, snapshot.memory.error, *errors) if copy]
    copies = [copy for copy in copies if copy.asked_mib == error.asked_mib]
    return max(copies, key=lambda copy: sum(value is not None for value in vars(copy).values()))


def explain_out_of_memory(snapshot: Snapshot) -> str:
    """Say how much was asked for, how much was free, who held the rest, and what had grown."""
    error, use = out_of_memory_error(snapshot), snapshot.memory
    if error is None:
        return ""
    gpu = "" if error.device is None else f" on GPU {error.device}"
    room = [] if error.asked_mib is None else [f"{memory_amount(error.asked_mib)} asked for"]
    if error.free_mib is not None:
        of = "" if error.total_mib is None else f" of {memory_amount(error.total_mib)}"
        room.append(f"{memory_amount(error.free_mib)}{of} free")
    parts = [f"{', '.join(room)}{gpu}"] if room else []
    if error.allocated_mib is not None:
        held = f"this run held {memory_amount(error.allocated_mib)}"
        if error.unused_mib is not None:
            held += f" and {memory_amount(error.unused_mib)} unused"
        parts.append(held)
    elif use.newest is not None:
        parts.append(f"this run had held {memory_amount(use.newest.peak_mib)} at most")
    if error.others_mib:
        parts.append(f"other processes held {memory_amount(error.others_mib)}")
    elif (program := _other_program(snapshot)) is not None:
        parts.append(f"{program[0]} held {memory_amount(program[1])}")
    first, last = use.first, use.last
    if first is not None and last is not None and last.mib > _GREW * first.mib:
        grew = f"{memory_amount(first.mib)} in epoch {first.epoch + 1} to {memory_amount(last.mib)}"
        parts.append(f"the peak grew from {grew} in epoch {last.epoch + 1}")
    return "; ".join(parts)


def held_before(snapshot: Snapshot) -> str:
    """Say how much memory a GPU that trained held at its last reading; empty if unknown."""
    for gpu in (snapshot.machine and snapshot.machine.gpus) or ():
        total_mib = facts_of_gpu(snapshot.header.machine, gpu.index).memory_mib
        if gpu.index in snapshot.gpus and gpu.memory_used_mib is not None and total_mib:
            held = units.memory_in_use(gpu.memory_used_mib, total_mib)
            return f"GPU {gpu.index} last held {held}, without the allocation that failed"
    return ""


def memory_holders(snapshot: Snapshot) -> tuple[tuple[str, float], ...]:
    """Return who held how much of a GPU, in MiB, as its memory ran out; empty if not known.

    What the network's tensors held is estimated from its float32 parameters and its optimizer, if
    all of that fits in what was allocated.
    """
    error, model = out_of_memory_error(snapshot), snapshot.model
    if error is None or error.allocated_mib is None:
        return ()
    parameters = None if model is None else model.parameters
    weights_mib, states = (parameters or 0) * 4 / MIB, {}
    if model is not None and weights_mib >= 1:
        states = {"about the weights": 1, "gradients": 1}
        states |= {model.optimizer: 2} if model.optimizer in _TWO_STATES else {}
    if weights_mib * sum(states.values()) > error.allocated_mib:
        states = {}
    of_network = [(name, copies * weights_mib) for name, copies in states.items()]
    rest_mib = error.allocated_mib - sum(mib for _, mib in of_network)
    held = (
        *of_network,
        ("activations and other tensors" if of_network else "tensors of this run", rest_mib),
        ("unused by its allocator", error.unused_mib),
        ("other processes", error.others_mib),
        ("free", error.free_mib),
    )
    return tuple((name, mib) for name, mib in held if mib)


def out_of_memory_advice(snapshot: Snapshot) -> str:
    """Return what to try after memory ran out; empty without advice."""
    error, growth, model = out_of_memory_error(snapshot), snapshot.memory.growth, snapshot.model
    batch_size = (model.batch_size if model is not None else None) or 1
    smaller = [f"use a smaller batch than {batch_size:,}"] * (batch_size > 1)
    if error is None:
        return "".join(smaller)
    advice: list[str] = []
    uses_system = _uses_system_memory(snapshot)
    if growth is not None:
        growth_text = f"{memory_amount(growth.epoch_mib)} more after each"
        advice.append(f"find what is kept from epoch to epoch: {growth_text}")
    if error.asked_mib is not None:
        if error.unused_mib is not None and error.unused_mib >= error.asked_mib:
            why = f"{memory_amount(error.unused_mib)} was there in pieces"
            advice.append(f"set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True: {why}")
        program, lacking_mib = _other_program(snapshot), error.asked_mib - (error.free_mib or 0.0)
        others_mib = error.others_mib or 0.0
        if program is None and others_mib >= max(1.0, lacking_mib):
            held = f"they held {memory_amount(others_mib)}"
            advice.append(f"train without the other processes on the GPU: {held}")
        if program is not None and program[1] >= lacking_mib:
            on_gpu = "" if uses_system else " on the GPU"
            advice.append(
                f"train without {program[0]}{on_gpu}: it held {memory_amount(program[1])}"
            )
    limit_mib = snapshot.header.machine.memory_limit_mib
    if uses_system and limit_mib is not None:
        advice.append(
            f"raise the memory limit of {memory_amount(limit_mib)}: the GPU has no other memory"
        )
    return "; or ".join((*advice, *smaller))


def _uses_system_memory(snapshot: Snapshot) -> bool:
    facts = snapshot.header.machine
    kinds = [facts_of_gpu(facts, index).memory_kind for index in snapshot.gpus]
    return bool(kinds) and set(kinds) == {"system"}


def _other_program(snapshot: Snapshot) -> tuple[str, float] | None:
    """Return the program beside the run with the most memory of its GPUs, and how much in MiB.

    For GPUs that use the system's memory, all memory of a program counts.
    """
    rows = (snapshot.machine.processes if snapshot.machine is not None else None) or ()
    programs: list[tuple[float, Process]]
    if _uses_system_memory(snapshot):
        held = ((row.gpu_memory_mib or 0) + (row.rss_mib or 0) for row in rows)
        programs = [(mib, row) for mib, row in zip(held, rows, strict=True) if row.of_run is False]
    else:
        programs = [
            (row.gpu_memory_mib, row)
            for row in rows
            if row.of_run is False and row.gpu_memory_mib and {*row.gpus} & {*snapshot.gpus}
        ]
    if not programs:
        return None
    mib, row = max(programs, key=itemgetter(0))
    return f"{program_name(row.command) or 'another program'} (pid {row.pid})", mib
