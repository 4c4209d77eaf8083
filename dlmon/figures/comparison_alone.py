"""What is said in place of a comparison where there is nothing to compare with. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from dlmon.comparison.compare import ComparisonRow
from dlmon.figures.comparison import timing_of
from dlmon.records import Status
from dlmon.session.snapshot import Snapshot
from workloads.catalog import WORKLOADS

NO_FIGURE = "This run has no figure to compare."
_NEXT = {
    Status.RUNNING: "Once this run completes, the next is compared with it.",
    Status.COMPLETED: "The next run is compared with this one.",
    Status.STOPPED: "The next run is compared with this one.",
}


def nothing_to_compare(rows: Sequence[ComparisonRow], snapshot: Snapshot, status: Status) -> str:
    """Say that there is nothing to compare with, and what will be.

    Empty where there is something, and where the row of the run says what stands nowhere else.

    Args:
        rows: of the comparison with all earlier runs that are known.
        snapshot: of the session.
        status: how it stands.
    """
    header, has_figure = snapshot.header, timing_of(snapshot) is not None
    if not has_figure and status != Status.RUNNING:
        return NO_FIGURE
    is_known = header.is_script or header.workload in WORKLOADS
    if not is_known or any(row.kind != "this" or row.cost_usd is not None for row in rows):
        return ""
    # What has no figure, or failed, is not compared with.
    coming = _NEXT.get(status, "") if has_figure else ""
    return f"No earlier run to compare with. {coming}".rstrip()
