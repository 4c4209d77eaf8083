"""How long each workload took here the last time, with the options that the form has. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from dlmon.records.record import record
from workloads.catalog import Workload

# The first screen is painted before any result is read.
if TYPE_CHECKING:
    from dlmon.comparison.run import Timing
    from dlmon.log.directory import SessionEntry
    from dlmon.options.run import RunOptions

_SHAPE_THE_TIME = (
    *("device", "batch_size", "epochs", "steps", "threads", "cpus"),
    *("data", "mode", "precision", "jit", "backend", "python"),
)
"""What a run takes another time with; the rest is about how it is watched and kept."""


@record(frozen=True)
class LastResult:
    """What came of a run of a workload here.

    Attributes:
        timing: how long it took; None where that can't be said.
        wall: when it was started.
        name: what the person called it.
        ended: how it ended, and what it lacks of a time.
        is_complete: whether it ran to its end.
        options: what it was launched with, of what shapes its time.
        device: what it ran on.
    """

    timing: Timing | None
    wall: float
    name: str | None
    ended: str
    is_complete: bool
    options: Mapping[str, object]
    device: str | None

    def other_options(self, workload: Workload, wanted: RunOptions) -> dict[str, object]:
        """Return the options that it had other than these, and what they were."""
        return {
            name: self._option(name, workload)
            for name in _SHAPE_THE_TIME
            if self._is_other(name, workload, wanted)
        }

    def _is_other(self, name: str, workload: Workload, wanted: RunOptions) -> bool:
        if name == "epochs" and workload.metric != "run_seconds":
            # Of a time per epoch, or per batch.
            return False
        value = getattr(wanted, name)
        if value is None:
            value = getattr(workload, name, None)
        if name == "device" and self.device and value in (self.device, self.device.split(":")[0]):
            return False
        return bool(self._option(name, workload) != value)

    def _option(self, name: str, workload: Workload) -> object:
        from dlmon.options.run import OPTIONS

        value = self.options.get(name, OPTIONS[name].default)
        return getattr(workload, name, None) if value is None else value


def results_here(
    workloads: Iterable[Workload], entries: Sequence[SessionEntry], host: str
) -> dict[str, list[LastResult]]:
    """Return what came of each workload on `host`, the newest first; entries come oldest first.

    Of runs that differ in nothing but their time, the newest. A run that trained nothing
    (gradients, inference) does not count.
    """
    from dlmon.figures.comparison import mode_of, timing_of_result
    from dlmon.figures.sessions import outcome
    from dlmon.records import WITHOUT_EPOCHS, Status

    found: dict[str, list[LastResult]] = {workload.name: [] for workload in workloads}
    seen = set()
    for entry in reversed(entries):
        name, result = entry.header.workload, entry.result
        if name not in found or result is None or entry.header.host != host:
            continue
        if mode_of(result.options) in WITHOUT_EPOCHS:
            continue
        timing = timing_of_result(result, name)
        lacks = timing is None and not result.error
        options = {
            option: result.options[option] for option in _SHAPE_THE_TIME if option in result.options
        }
        if result.device == "cpu" and not entry.header.machine.gpus:
            # There `auto` is the same.
            options["device"] = "auto"
        made = LastResult(
            timing,
            entry.header.wall,
            entry.label.name,
            f"{result.status}, {outcome(entry)}" if lacks else str(result.status),
            result.status == Status.COMPLETED,
            options,
            result.device,
        )
        alike = (name, timing is None, made.is_complete, made.device, str(sorted(options.items())))
        if alike not in seen:
            seen.add(alike)
            found[name].append(made)
    return found


def last_result(
    results: Sequence[LastResult], workload: Workload, wanted: RunOptions
) -> LastResult | None:
    """Return the result that says most about a run with these options; newest come first.

    One with a time before one without; one of the same options before another; one that ran to
    its end before one that was cut short.
    """

    def order(result: LastResult) -> tuple[bool, bool]:
        # Of several that are alike in these, the first.
        has_other = bool(result.other_options(workload, wanted))
        return has_other, not result.is_complete

    timed = [result for result in results if result.timing is not None]
    return min(timed, key=order) if timed else next(iter(results), None)
