"""Run Slurm's command-line programs."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence

from dlmon.exit_codes import FAILED, WRONG_ARGUMENTS
from dlmon.records.sanitize import clean

ANSWER_S = 30.0
LONGEST_REASON = 300
# Times come as Unix seconds, whatever time zone and format the site uses.
_ENVIRONMENT = {"SLURM_TIME_FORMAT": "%s", "LC_ALL": "C.UTF-8"}
_NO_CONFIGURATION = b"Could not establish a configuration source"
_REFUSAL = "Batch job submission failed: "


class SlurmError(Exception):
    """Slurm is missing, refuses or does not answer; the message is one sentence for the user."""

    def __init__(self, message: str, exit_code: int = WRONG_ARGUMENTS) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def has_slurm() -> bool:
    """Return whether jobs can be submitted from this host."""
    return shutil.which("sbatch") is not None


def run_slurm(words: Sequence[str], timeout_s: float = ANSWER_S) -> bytes:
    """Run a Slurm command, without a shell, and return its stdout.

    Raises:
        SlurmError: the program is not installed, does not answer, or refuses.
    """
    program = words[0]
    try:
        done = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout_s,
            env={**os.environ, **_ENVIRONMENT},
            # A signal to the job's process group must not end the command that asks for its reason.
            start_new_session=True,
            check=False,
        )
    except FileNotFoundError:
        raise SlurmError(
            f"there is no Slurm here ({program} is not installed): type this on a login node of "
            "the cluster"
        ) from None
    except OSError as error:
        raise SlurmError(f"{program} can't be run: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise SlurmError(f"Slurm did not answer {program} in {timeout_s:.0f} s", FAILED) from None
    if done.returncode and _NO_CONFIGURATION in done.stderr:
        raise SlurmError(
            "Slurm is installed here, and finds no configuration of a cluster: type this on a "
            "login node, or set SLURM_CONF to its slurm.conf"
        )
    if done.returncode:
        raise SlurmError(f"Slurm refused it: {reason_in(done.stderr, program)}")
    return done.stdout


def reason_in(errors: bytes, program: str) -> str:
    """Return, as one line, the reason for a failure from what the program wrote to stderr."""
    lines = [
        clean(line.strip()).removeprefix(f"{program}: ").removeprefix("error: ")
        for line in errors.decode("utf-8", "replace").splitlines()
    ]
    lines = [line for line in lines if line and not line.startswith('Try "')]
    if not lines:
        return f"{program} did not say why"
    # The last line names the refusal; the lines before it say what is wrong.
    last = lines[-1].removeprefix(_REFUSAL)
    return clean("; ".join(dict.fromkeys((*lines[-3:-1], last))), LONGEST_REASON)
