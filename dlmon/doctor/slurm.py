"""Check Slurm, for `dlmon doctor`."""

from __future__ import annotations

import re

from dlmon.doctor.finding import Finding
from dlmon.records.sanitize import clean
from dlmon.slurm.commands import SlurmError, has_slurm, run_slurm
from dlmon.slurm.queue import partitions

TOPIC = "slurm"
OLDEST = (20, 11)
ANSWER_S = 10.0
_SHOWN_PARTITIONS = 6


def slurm_finding() -> Finding | None:
    """Return the finding about Slurm; None if it is not installed."""
    if not has_slurm():
        return None
    try:
        printed = run_slurm(["sbatch", "--version"], ANSWER_S).decode("utf-8", "replace")
    except SlurmError as error:
        return Finding(TOPIC, "warning", f"{error}.")
    version = clean(printed.strip().rpartition(" ")[2], 40)
    numbers = re.match(r"(\d{1,4})\.(\d{1,4})", version)
    if numbers is None or (int(numbers[1]), int(numbers[2])) < OLDEST:
        return Finding(TOPIC, "warning", f"Slurm {version}: dlmon knows those from 20.11 on.")
    try:
        names = partitions()
    except SlurmError as error:
        return Finding(TOPIC, "warning", f"Slurm {version}: {error}.", "Ask who runs the cluster.")
    more = f" and {len(names) - _SHOWN_PARTITIONS} more" * (len(names) > _SHOWN_PARTITIONS)
    listed = ", ".join(names[:_SHOWN_PARTITIONS])
    return Finding(TOPIC, "ok", f"Slurm {version}, partitions {listed}{more}; {_accounts()}")


def _accounts() -> str:
    try:
        run_slurm(["sacct", "--noheader", "--starttime=now"], ANSWER_S)
    except SlurmError:
        return "it keeps no accounts, so it forgets a job some minutes after its end."
    return "it keeps accounts."
