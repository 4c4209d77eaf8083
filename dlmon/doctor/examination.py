"""Collect the findings of `dlmon doctor`, from the sensors and the frameworks."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path

from dlmon.comparison.conditions import BUSY_CPU_PCT
from dlmon.comparison.peaks import CalibrationError, calibration_path
from dlmon.doctor.calibrate import calibrate
from dlmon.doctor.checks import any_asleep, examine
from dlmon.doctor.finding import Finding
from dlmon.doctor.frameworks import Framework, ask_framework, is_installed
from dlmon.doctor.slurm import slurm_finding
from dlmon.launch.sensors_process import FACTS_S, SensorsProcess
from dlmon.records import TITLES, Facts


def run_doctor(
    directory: Path,
    calibrating: Callable[[str], object] | None = None,
    *,
    quick: bool = False,
    asking: Callable[[str], object] = lambda text: None,
) -> tuple[Finding, ...]:
    """Return the findings about this machine.

    Args:
        directory: the log directory.
        calibrating: if given, measure the matmul peaks first, and call this with progress lines.
        quick: skip the frameworks' reports of their GPUs, which take seconds.
        asking: called with a line of text before each framework is asked.

    Raises:
        CalibrationError: nothing could be measured, or the peaks can't be saved.
    """
    path = None
    with contextlib.suppress(RuntimeError):  # no home directory
        path = calibration_path()
    if calibrating is not None and path is None:
        raise CalibrationError(
            "there is no home directory to keep a calibration in: set HOME or XDG_STATE_HOME"
        )
    answer = asyncio.run(_first_facts())
    facts = answer if isinstance(answer, Facts) else None
    if calibrating is not None and path is not None:
        busy_pct = (facts.machine.cpu_pct if facts else None) or 0.0
        if busy_pct >= BUSY_CPU_PCT:
            calibrating(f"the CPU is {busy_pct:.0f} % busy now: the peak will come out too low")
        for problem in calibrate(path, facts.machine.cpu_model if facts else None, calibrating):
            calibrating(problem)
    why_no_facts = answer if isinstance(answer, str) else None
    asleep = facts is not None and any_asleep(facts.machine)
    frameworks = None if quick or asleep else _ask_frameworks(asking)
    findings = examine(facts, why_no_facts, directory, calibration=path, frameworks=frameworks)
    slurm = slurm_finding()
    return findings if slurm is None else (*findings, slurm)


def _ask_frameworks(asking: Callable[[str], object]) -> list[Framework]:
    """Ask the frameworks one after another: in parallel, they would slow each other down."""
    frameworks = []
    for module in filter(is_installed, TITLES):
        asking(f"asking {TITLES[module]} which GPUs it sees …")
        frameworks.append(ask_framework(module))
    return frameworks


async def _first_facts() -> Facts | str:
    answer: asyncio.Future[Facts | str] = asyncio.get_running_loop().create_future()

    def finish(result: Facts | str) -> None:
        if not answer.done():
            answer.set_result(result)

    sensors = SensorsProcess(1.0, finish, lambda sample: None, finish)
    sensors.start()
    try:
        return await asyncio.wait_for(answer, FACTS_S)
    except asyncio.TimeoutError:
        return f"the sensors did not answer within {FACTS_S:.0f} s"
    finally:
        sensors.close()
