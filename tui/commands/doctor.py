"""`dlmon doctor`: what this machine offers and what is missing."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

import click

from dlmon.exit_codes import FAILED
from tui.commands.click_options import json_option, log_dir_option
from tui.commands.shared import UserError, chosen_log_directory


@click.command()
@click.option(
    "--calibrate", is_flag=True, help="First measure how fast this machine multiplies matrices."
)
@click.option(
    "--quick", is_flag=True, help="Don't ask TensorFlow, JAX and PyTorch which GPUs they see."
)
@json_option
@log_dir_option
def doctor(calibrate: bool, quick: bool, as_json: bool, log_dir: Path | None) -> None:
    """Say what this machine offers and what is missing."""
    from dlmon.comparison.peaks import CalibrationError
    from dlmon.doctor.run import run_doctor
    from tui.plain.tables import print_findings

    try:
        findings = run_doctor(
            chosen_log_directory(log_dir),
            _report if calibrate else None,
            quick=quick,
            asking=_report if sys.stderr.isatty() else lambda text: None,
        )
    except CalibrationError as error:
        raise UserError(str(error), FAILED) from None
    if as_json:
        print(json.dumps([asdict(finding) for finding in findings], indent=2))
    else:
        print_findings(findings)


def _report(text: str) -> None:
    from dlmon.records.sanitize import clean

    print(clean(text), file=sys.stderr, flush=True)
