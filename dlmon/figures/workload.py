"""The description of a workload in sentences."""

from __future__ import annotations

from dlmon.figures import units
from workloads.catalog import Workload

Sentence = tuple[str, str, str]
"""The muted beginning of a sentence, the rest of it, and the style of the rest."""


def described(workload: Workload, last: str, published: str) -> list[list[Sentence]]:
    """Return paragraphs of sentences about a workload."""
    start, colon, rest = last.partition(": ")
    result: Sentence = (start + colon, rest, "") if colon else ("", last, "dim")
    parameters = units.count(workload.parameters)
    flops = f"{_mega_or_more(workload.train_flops)}FLOP/sample"
    return [
        [("", workload.title, "strong")],
        [
            ("", f"{parameters} parameters, {flops}", ""),
            ("", f"batch {workload.batch_size}, {_run_length(workload)}", ""),
        ],
        [result, *([("published: ", published, "")] if published else [])],
        [("source: ", workload.source, "dim")],
    ]


def _run_length(workload: Workload) -> str:
    if workload.steps is not None:
        return f"{workload.steps} steps"
    return f"{workload.epochs} epochs of {workload.samples:,} samples"


def _mega_or_more(operations: int) -> str:
    """Write a number of operations with a prefix: 0.409 M, 236 M or 24.6 G."""
    return units.count(operations) if operations >= 1e6 else f"{operations / 1e6:.3g} M"
