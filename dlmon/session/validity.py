"""Whether a session's figures may be compared by, and what speaks against it.

Pure. Each sentence states what was measured of this run; what was not measured speaks against
nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from dlmon.comparison.conditions import BUSY_CPU_PCT, busy_at_start, cores
from dlmon.records import AccountPart, Doubt, MachineFacts, Model
from dlmon.records.record import record
from dlmon.session.limits.seen import WAITED_FOR_CPU
from dlmon.session.readings import TrainingReadings
from dlmon.statistics.steady_state import SteadyState

MIN_STEADY_S = 5.0
"""So long a sweep trains at the least, too."""
DRIFT = 0.02
STALLED = 0.02
THROTTLED_PCT = 5.0
STEAL_PCT = 2.0


@record(frozen=True)
class Validity:
    """What speaks against comparing by a session's figures, a sentence each without its period."""

    against: dict[Doubt, str]

    @property
    def is_valid(self) -> bool:
        return not self.against


def find_doubts(
    steady: SteadyState,
    account: Mapping[AccountPart, float],
    readings: TrainingReadings,
    machine: MachineFacts,
    model: Model | None,
    ended: bool,
) -> Validity | None:
    """Return what speaks against a session's figures; None before anything of it was steady.

    Of one that ended before it trained there are no figures to speak against.

    Args:
        steady: has folded its batches.
        account: where its time went.
        readings: of its steady training.
        machine: what was known of the machine at the start.
        model: what runs.
        ended: whether it is over: until then it may yet last long enough.
    """
    if not steady.steady and (model is None or not ended):
        return None
    against: dict[Doubt, str] = {}
    if ended and steady.seconds < MIN_STEADY_S:
        against[Doubt.TOO_SHORT] = _too_short(steady.seconds)
    drift = steady.blocks.drift()
    if drift is not None and abs(drift) >= DRIFT:
        how = f"{100 * abs(drift):.0f} % {'faster' if drift > 0 else 'slower'}"
        against[Doubt.NOT_STEADY] = f"not steady: its second half was {how} than its first"
    stalled_s = account.get(AccountPart.STALLS, 0.0)
    training_s = stalled_s + account.get(AccountPart.TRAINING, 0.0)
    if stalled_s > STALLED * training_s:
        share = 100 * stalled_s / training_s
        against[Doubt.STALLS] = f"stalls took {share:.1f} % of the time of its batches"
    gpu_index = model.gpu_index if model is not None else None
    of_readings = _doubts_of(readings, gpu_index)
    others = _cpu_shared(readings, machine.cores, gpu_index is not None)
    if others is not None:
        of_readings[Doubt.CPU_SHARED] = others
    busy = busy_at_start(machine, model.device if model is not None else None)
    at_start = {
        Doubt.BUSY_AT_START: busy,
        Doubt.ON_BATTERY: "the machine ran on battery" if machine.on_battery else None,
    }
    if model is not None and model.inferred is not None:
        against[Doubt.INFERRED_SAMPLES] = f"samples were inferred: {model.inferred}"
    against |= of_readings
    against |= {doubt: text for doubt, text in at_start.items() if text is not None}
    return Validity({doubt: against[doubt] for doubt in Doubt if doubt in against})


def _doubts_of(readings: TrainingReadings, gpu_index: int | None) -> dict[Doubt, str]:
    """Return what the readings of steady training say against its figures."""
    found: dict[Doubt, str] = {}
    throttled = []
    slowed_pct, stopped_pct = (
        readings.mean_or_zero("slowed_pct"),
        readings.mean_or_zero("stopped_pct"),
    )
    if slowed_pct > THROTTLED_PCT:
        causes = " and ".join(readings.slowed_by)
        throttled.append(
            f"GPU {gpu_index} was slowed by {causes} in {slowed_pct:.0f} % of readings"
        )
    if stopped_pct > THROTTLED_PCT:
        throttled.append(f"the CPU limit stopped the run in {stopped_pct:.0f} % of periods")
    if throttled:
        found[Doubt.THROTTLED] = ", ".join(throttled)
    if readings.on_gpu is not None:
        memory_mib, pid, name = readings.on_gpu
        found[Doubt.GPU_SHARED] = (
            f"another program had {memory_mib / 1024:.1f} GiB on GPU {gpu_index} "
            f"({name}, pid {pid})"
        )
    steal_pct = readings.mean_or_zero("steal_pct")
    if steal_pct > STEAL_PCT:
        found[Doubt.STEAL] = f"the host took {steal_pct:.1f} % of this virtual machine's CPUs"
    return found


def _cpu_shared(readings: TrainingReadings, allowed: int | None, on_gpu: bool) -> str | None:
    """Say what other programs took of the CPUs, by the measure of a machine busy at the start.

    A GPU may train as fast while others compute beside it, and so may a run that is `allowed` some
    of the CPUs only: there it has to wait for one.
    """
    total = readings.cores or allowed
    took = readings.mean_or_zero("other_cores")
    if total is None or took < BUSY_CPU_PCT / 100 * total:
        return None
    text = f"other programs took {took:.1f} of {cores(total)}"
    if not on_gpu and allowed is not None and allowed >= total:
        return text
    waited_pct = readings.mean_or_zero("run_cpu_wait_pct")
    if waited_pct < 100 * WAITED_FOR_CPU:
        return None
    return f"{text}, and the run waited for a CPU {waited_pct:.0f} % of the time"


def _too_short(steady_s: float) -> str:
    if steady_s <= 0:
        return "too short: it was never steady"
    # Rounded up, 4.96 s would be as many as are asked for.
    seconds = math.floor(10 * steady_s) / 10
    return f"too short: {seconds:.1f} s of steady batches, at least {MIN_STEADY_S:.0f} s are needed"
