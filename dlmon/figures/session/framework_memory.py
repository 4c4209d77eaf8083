"""What is said of the GPU memory that frameworks hold, and of where it ran out. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from dlmon.figures import units
from dlmon.records import FailureKind, FrameworkMemory, OutOfMemory, Result
from dlmon.records.memory import read_out_of_memory
from dlmon.session.framework_memory import MemoryGrowth, amount
from dlmon.session.limits.run_samples import program_name
from dlmon.session.snapshot import Snapshot

# An error is looked for in this many of the last lines.
_LAST_LINES = 60
# The peak has grown where it is more than this many times that of the first epoch.
_GREW = 1.1


def memory_text(snapshot: Snapshot) -> str:
    """Return what the allocator holds, most of all, and whether that grows; empty for unknown."""
    use, result = snapshot.memory, snapshot.result
    said = [] if use.newest is None else list(_held(use.newest))
    if use.growth is not None:
        said.append(_growth_text(use.growth, result))
    if use.errors:
        said.append("ran out once" if use.errors == 1 else f"ran out {use.errors:,} times")
    return ", ".join(said)


def _held(newest: FrameworkMemory) -> Iterator[str]:
    yield f"allocated {amount(newest.allocated_mib)}"
    if newest.reserved_mib is not None:
        yield f"reserved {amount(newest.reserved_mib)}"
    limit = "" if newest.limit_mib is None else f" of {amount(newest.limit_mib)}"
    yield f"peak {amount(newest.peak_mib)}{limit}"
    if newest.retries:
        yield "1 retry" if newest.retries == 1 else f"{newest.retries:,} retries"


def _growth_text(growth: MemoryGrowth, result: Result | None) -> str:
    """Return by how much it grows, and when it is full, or would have been."""
    each = f"{amount(growth.epoch_mib)} per epoch"
    if growth.full_in is None or (result and result.failure == FailureKind.OUT_OF_MEMORY):
        return f"the peak {'grows' if result is None else 'grew'} {each}"
    epochs = units.counted(max(1, round(growth.full_in)), "epoch")
    if result is None:
        return f"the peak grows {each}: full in about {epochs}"
    return f"the peak grew {each}: full after about {epochs} more"


def memory_numbers(snapshot: Snapshot) -> dict[str, int | None]:
    """Return the same as numbers; nothing where no framework said any."""
    newest, use = snapshot.memory.newest, snapshot.memory
    if newest is None and not use.errors:
        return {}
    names = ("allocated_mib", "reserved_mib", "peak_mib", "limit_mib", "retries")
    found = {f"gpu_memory_{name}": getattr(newest, name, None) for name in names}
    return {**found, "out_of_memory": use.errors}


def failed_for_memory(snapshot: Snapshot) -> OutOfMemory | None:
    """Return what is known of the error that a run failed by; None where it was no GPU's memory."""
    result, noted = snapshot.result, snapshot.memory.error
    if result is None or result.failure != FailureKind.OUT_OF_MEMORY:
        return None
    said = read_out_of_memory(result.error or "")
    on_cpu = snapshot.model is not None and snapshot.model.device == "cpu"
    # JAX says the same of either memory.
    if said is None or (on_cpu and said.device is None):
        return None
    # What is said of a failure is cut; after another error the script may have gone on.
    lines = [read_out_of_memory(line.text) for line in snapshot.output[-_LAST_LINES:]]
    same = [each for each in (said, noted, *lines) if each and each.asked_mib == said.asked_mib]
    return max(same, key=lambda one: sum(figure is not None for figure in vars(one).values()))


def explain_failure(snapshot: Snapshot) -> str:
    """Return what was asked for, what was free, who held the rest, and what had grown."""
    error, use = failed_for_memory(snapshot), snapshot.memory
    if error is None:
        return ""
    gpu = "" if error.device is None else f" of GPU {error.device}"
    said = [] if error.asked_mib is None else [f"{amount(error.asked_mib)}{gpu} was asked for"]
    if error.free_mib is not None:
        of = "" if error.total_mib is None else f" of {amount(error.total_mib)}"
        said.append(f"{amount(error.free_mib)}{of} was free")
    if error.allocated_mib is not None:
        held = f"tensors held {amount(error.allocated_mib)}"
        if error.unused_mib is not None:
            held += f" and the allocator {amount(error.unused_mib)} more that none used"
        said.append(held)
    elif use.newest is not None:
        said.append(f"tensors had held {amount(use.newest.peak_mib)} at most")
    if error.others_mib:
        said.append(f"other processes held {amount(error.others_mib)}")
    elif (other := _other_program(snapshot)) is not None:
        said.append(f"{other[0]} held {amount(other[1])}")
    first, last = use.first, use.last
    if first is not None and last is not None and last.mib > _GREW * first.mib:
        grew = f"{amount(first.mib)} in epoch {first.epoch + 1} to {amount(last.mib)}"
        said.append(f"the peak grew from {grew} in epoch {last.epoch + 1}")
    return "; ".join(said)


def against_failure(snapshot: Snapshot) -> str:
    """Return what to try, by what the error and the readings before it say; empty for nothing."""
    error, growth, model = failed_for_memory(snapshot), snapshot.memory.growth, snapshot.model
    advised: list[str] = []
    if error is None:
        return ""
    if growth is not None:
        each = amount(growth.epoch_mib)
        advised.append(f"find what is kept from epoch to epoch: {each} more after each")
    if error.asked_mib is not None:
        if error.unused_mib is not None and error.unused_mib >= error.asked_mib:
            why = f"{amount(error.unused_mib)} was there in pieces"
            advised.append(f"set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True: {why}")
        other, lacking_mib = _other_program(snapshot), error.asked_mib - (error.free_mib or 0.0)
        if other is not None and other[1] >= lacking_mib:
            advised.append(f"train without {other[0]} on the GPU: it held {amount(other[1])}")
    if model is not None and (model.batch_size or 0) > 1:
        advised.append(f"use a smaller batch than {model.batch_size:,}")
    return "; or ".join(advised)


def _other_program(snapshot: Snapshot) -> tuple[str, float] | None:
    """Return which program that isn't the run's had most of its GPUs' memory, and how much."""
    rows = (snapshot.machine.processes if snapshot.machine is not None else None) or ()
    others = [
        (row.gpu_memory_mib, row)
        for row in rows
        if row.of_run is False and row.gpu_memory_mib and {*row.gpus} & {*snapshot.gpus}
    ]
    if not others:
        return None
    mib, row = max(others, key=lambda one: one[0])
    return f"{program_name(row.command) or 'another program'} (pid {row.pid})", mib
