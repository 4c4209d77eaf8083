"""What the callbacks of Keras share: the times of a test pass, and why an epoch opens late."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

from dlmon.records import Validation

_TASKS = "/proc/self/task"
# The cause of a pause is named from this length on, where the process was idle meanwhile, and
# not because others took the processors.
NAMED_PAUSE_NS = 500_000_000
IDLE_SHARE = 0.2
# After the first, only those are named that a viewer shows as pauses: a few, and what is longer
# than all of them.
LATER_PAUSE_NS = 1_000_000_000
MOST_NAMED = 5


def run_delay_ns() -> int:
    """Return how long threads that live now were ready to run, and others ran; 0 where unknown.

    From the second field of Linux's schedstat (Documentation/scheduler/sched-stats.rst).
    """
    try:
        tasks = list(Path(_TASKS).iterdir())
    except OSError:
        return 0
    waited_ns = 0
    for task in tasks:
        # A thread may end between the two calls, and a kernel may keep no such file.
        with contextlib.suppress(OSError, ValueError, IndexError):
            waited_ns += int((task / "schedstat").read_text(encoding="ascii").split()[1])
    return waited_ns


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


class PipelineTeardowns:
    """Detects openings in which TensorFlow tears down the last epoch's input pipeline.

    Keras replaces the iterator of the epoch before between the start of an epoch and its first
    batch. To delete it, TensorFlow waits for a thread of tf.data that sleeps, so this process
    uses next to no CPU meanwhile, and waits for none.
    """

    def __init__(
        self,
        cpu_clock: Callable[[], int],
        word: str,
        plural: str,
        delay_clock: Callable[[], int] = run_delay_ns,
    ) -> None:
        self._cpu_clock, self._word, self._plural = cpu_clock, word, plural
        self._delay_clock = delay_clock
        self._cpu_start = self._delay_start = 0
        self._took_ns = self._longest_named_ns = 0
        self._named = self.count = 0

    def mark_start(self) -> None:
        self._cpu_start, self._delay_start = self._cpu_clock(), self._delay_clock()

    def explain(self, number: str, took_ns: int) -> str:
        """Count an opening that was such a teardown; return a sentence on it, or "".

        There is one on the first, on a few more that were long, and on any that was longer yet.

        Args:
            number: of the epoch, counted from 1.
            took_ns: how long it took to open.
        """
        if took_ns < NAMED_PAUSE_NS:
            return ""
        if self._cpu_clock() - self._cpu_start > IDLE_SHARE * took_ns:
            return ""
        if self._delay_clock() - self._delay_start > IDLE_SHARE * took_ns:
            return ""
        self.count += 1
        self._took_ns += took_ns
        if not self._is_worth_naming(took_ns):
            return ""
        self._named += 1
        self._longest_named_ns = max(self._longest_named_ns, took_ns)
        return (
            f"{took_ns / 1e9:.1f} s at the start of {self._word} {number}: "
            f"TensorFlow takes down the last {self._word}'s input pipeline"
        )

    def _is_worth_naming(self, took_ns: int) -> bool:
        if self._named == 0:
            return True
        is_among_few = self._named < MOST_NAMED or took_ns > self._longest_named_ns
        return took_ns >= LATER_PAUSE_NS and is_among_few

    def summary(self) -> str:
        return (
            f"{self._took_ns / 1e9:.1f} s in all at the start of {self.count:,} {self._plural}: "
            f"TensorFlow took down the input pipelines of the {self._plural} before"
        )
