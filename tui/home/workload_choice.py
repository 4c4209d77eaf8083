"""Filter the workloads, group them by family, and say how long each took here. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from dlmon.records.record import record
from workloads.catalog import Workload

# The first screen is painted before any result is read.
if TYPE_CHECKING:
    from dlmon.comparison.compare import Timing
    from dlmon.log.directory import SessionEntry


@record(frozen=True)
class LastResult:
    """How long a workload took here the last time, when that was, and what it is called."""

    timing: Timing
    wall: float
    name: str | None = None


def matching(workloads: Iterable[Workload], typed: str) -> list[Workload]:
    """Return the workloads that hold every word of `typed`, families together."""
    words = typed.lower().split()
    found = [workload for workload in workloads if all(w in _searched(workload) for w in words)]
    families = list(dict.fromkeys(workload.family for workload in found))
    return sorted(found, key=lambda workload: families.index(workload.family))


def _searched(workload: Workload) -> str:
    return f"{workload.name} {workload.family} {workload.title}".lower()


def with_headings(workloads: Sequence[Workload]) -> list[Workload | str]:
    """Put the name of each family before its workloads."""
    lines: list[Workload | str] = []
    family = None
    for workload in workloads:
        if workload.family != family:
            family = workload.family
            lines.append(family)
        lines.append(workload)
    return lines


def pieces(text: str, typed: str) -> list[tuple[str, bool]]:
    """Cut `text` where it begins or ceases to hold a word of `typed`."""
    lowered = text.lower()
    marked = [False] * len(text)
    for word in typed.lower().split():
        start = lowered.find(word)
        while start >= 0:
            marked[start : start + len(word)] = [True] * len(word)
            start = lowered.find(word, start + 1)
    cut: list[tuple[str, bool]] = []
    for character, mark in zip(text, marked, strict=False):
        if cut and cut[-1][1] == mark:
            cut[-1] = (cut[-1][0] + character, mark)
        else:
            cut.append((character, mark))
    return cut


def last_results(
    workloads: Iterable[Workload], entries: Sequence[SessionEntry], host: str
) -> dict[str, LastResult]:
    """Return the newest result of each workload on `host`; entries come oldest first.

    An incomplete run counts only where there is no complete one; a run that trained nothing
    (gradients, inference) does not count.
    """
    from dlmon.records import WITHOUT_EPOCHS, Status
    from tui.formatting.comparison import mode_of, timing_of_result

    names = {workload.name for workload in workloads}
    newest: dict[str, LastResult] = {}
    completed = set()
    for entry in entries:
        name, result = entry.header.workload, entry.result
        if name not in names or result is None or entry.header.host != host:
            continue
        if mode_of(result.options) in WITHOUT_EPOCHS:
            continue
        timing = timing_of_result(result, name)
        whole = result.status == Status.COMPLETED
        if timing is not None and (whole or name not in completed):
            newest[name] = LastResult(timing, entry.header.wall, entry.label.name)
            completed |= {name} if whole else set()
    return newest
