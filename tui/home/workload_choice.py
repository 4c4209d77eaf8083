"""Filter the workloads, and group them by family. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from workloads.catalog import Workload


def matching(workloads: Iterable[Workload], typed: str) -> list[Workload]:
    """Return the workloads that hold every word of `typed`, families together."""
    # Who begins a search with / elsewhere does so here.
    words = typed.lower().removeprefix("/").split()
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
