"""Search for the batch sizes of a script: the largest that fits, and the smallest fast one. Pure.

Sizes are doubled until memory runs out, or on a CPU until two doublings in a row bring nothing.
Then sizes between two that were tried say more exactly where memory runs out, and where the
throughput no longer grows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from dlmon.records import RunStatus
from dlmon.records.record import record
from dlmon.sweep.progress import Sweep
from dlmon.sweep.results import CombinationRow, ranking_rows

AUTO = "auto"
"""The value of `--vary set:batch_size=` that asks for the search."""
FIRST_SIZE, LARGEST_SIZE = 8, 1 << 20
_STEPS_PER_DOUBLING = 4
# The wide interval of a single run on a busy machine must not end the search.
_MUCH = 1.1


@record(frozen=True)
class BatchSearch:
    """What a search says of batch sizes so far.

    Attributes:
        fitting: the rows of the sizes that trained, by size.
        refused: the rows of the others.
        is_on_gpu: whether the runs trained on a GPU, which has memory of its own.
    """

    fitting: Mapping[int, CombinationRow]
    refused: Mapping[int, CombinationRow]
    is_on_gpu: bool

    @property
    def largest(self) -> int | None:
        """The largest size that trained."""
        return max(self.fitting, default=None)

    @property
    def too_large(self) -> int | None:
        """The smallest size that did not train; None if each did."""
        return min(self.refused, default=None)

    @property
    def enough(self) -> int | None:
        """The smallest size than which no larger one is faster."""
        sizes = sorted(self.fitting)
        return next((size for size in sizes if not self._grows_from(size)), None)

    def _grows_from(self, size: int) -> bool:
        """Return whether a larger size is faster, beyond the interval or by much."""
        rows = (row for other, row in self.fitting.items() if other > size)
        ratios = (row.speed_up_over(self.fitting[size]) for row in rows)
        return any(r and r.value > (_MUCH if r.may_be_one else 1) for r in ratios)


def sizes_of(sweep: Sweep) -> BatchSearch:
    """Return what a search says so far."""
    rows = [row for row in ranking_rows(sweep) if row.outcomes[0] is not None]
    by_size = {int(next(iter(row.combination.varied.values()))): row for row in rows}
    fitting = {size: row for size, row in by_size.items() if row.value is not None}
    results = [o.result for row in fitting.values() for o in row.outcomes if o and o.result]
    return BatchSearch(
        fitting=fitting,
        refused={size: row for size, row in by_size.items() if size not in fitting},
        is_on_gpu=any(f"{result.device}".startswith("gpu") for result in results),
    )


def next_size(sweep: Sweep) -> int | None:
    """Return the size to try next; None if the search is over."""
    sizes = sizes_of(sweep)
    statuses = {row.status for row in sizes.refused.values()}
    if statuses - {RunStatus.OUT_OF_MEMORY, RunStatus.IMPOSSIBLE}:
        # The script fails for another reason, or was stopped.
        return None
    if sizes.largest is None:
        below = (sizes.too_large or 2 * FIRST_SIZE) // 2
        return below or None
    if sizes.too_large is None and not _is_far_enough(sizes):
        return 2 * sizes.largest if sizes.largest < LARGEST_SIZE else None
    if sizes.too_large is not None:
        between = _between(sizes.largest, sizes.too_large)
        if between is not None:
            return between
    smaller = [size for size in sizes.fitting if size < (sizes.enough or 0)]
    return _between(max(smaller), sizes.enough or 0, 2) if smaller else None


def _is_far_enough(sizes: BatchSearch) -> bool:
    """Return whether larger sizes are left out: on a CPU, filling the memory serves nobody."""
    return not sizes.is_on_gpu and (sizes.largest or 0) >= 4 * (sizes.enough or math.inf)


def _between(low: int, high: int, parts: int = _STEPS_PER_DOUBLING) -> int | None:
    """Return the size in the middle, in whole parts of a doubling; None if both are next to it."""
    part = max(1, (1 << (low.bit_length() - 1)) // parts)
    middle = low + (high - low) // (2 * part) * part
    return middle if low < middle < high else None
