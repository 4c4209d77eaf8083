"""When the batches of a pass over test samples ended."""

from __future__ import annotations

from dlmon.records import Validation


class TimedPass:
    """When a pass over test samples began, and when its batches ended.

    Args:
        begin: when it began.
    """

    def __init__(self, begin: int) -> None:
        self.begin = begin
        self.ends: list[tuple[int, int]] = []
        """The index and the end of each batch hook, in the order in which they were called."""

    @property
    def steps(self) -> int:
        """How many batches the hooks claim: with steps_per_execution maybe more than there are."""
        return max((batch for batch, _ in self.ends), default=-1) + 1

    @property
    def first_end(self) -> int:
        """When the first batch ended; there is one."""
        return min(end for _, end in self.ends)

    def validation(self, end: int, most_steps: int | None) -> Validation:
        """Return the record of a pass that ended, and had a batch.

        Args:
            end: when it ended.
            most_steps: how many batches there are, where that is known.
        """
        steps = min(self.steps, most_steps or self.steps)
        first_steps = min(min(batch for batch, _ in self.ends) + 1, steps)
        return Validation(
            begin=self.begin,
            first_end=self.first_end,
            last_end=max(end for _, end in self.ends),
            end=end,
            steps=steps,
            first_steps=first_steps if first_steps > 1 else None,
        )
