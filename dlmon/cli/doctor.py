"""`dlmon doctor`: examine this machine, or another host."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dlmon.cli.click_options import host_option_of, json_option, log_dir_option
from dlmon.cli.shared import UserError, chosen_log_directory, on_host, result_of
from dlmon.exit_codes import FAILED
from dlmon.records.sanitize import clean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dlmon.doctor.finding import Finding


@click.command(short_help="Say what this machine offers, and what is missing.")
@click.option(
    "--calibrate", is_flag=True, help="First measure how fast this machine multiplies matrices."
)
@click.option(
    "--quick", is_flag=True, help="Don't ask TensorFlow, JAX and PyTorch which GPUs they see."
)
@json_option
@host_option_of(
    "Another machine to examine, which ssh reaches; --log-dir is then one of that machine."
)
@log_dir_option
def doctor(
    calibrate: bool, quick: bool, as_json: bool, host: str | None, log_dir: Path | None
) -> None:
    """Say what this machine, or another one, offers and what is missing."""
    findings: Sequence[Finding]
    if host is not None:
        if calibrate:
            raise UserError(f"--calibrate measures this machine: run it on {host} itself")
        findings = _findings_on_host(host, quick, on_host(log_dir))
    else:
        findings = _findings_here(calibrate, quick, log_dir)
    if as_json:
        print(json.dumps([asdict(finding) for finding in findings], indent=2))
    else:
        print_findings(findings)


def _findings_here(calibrate: bool, quick: bool, log_dir: Path | None) -> Sequence[Finding]:
    from dlmon.comparison.peaks import CalibrationError
    from dlmon.doctor.examination import run_doctor

    try:
        return run_doctor(
            chosen_log_directory(log_dir),
            _report if calibrate else None,
            quick=quick,
            asking=_report if sys.stderr.isatty() else lambda text: None,
        )
    except CalibrationError as error:
        raise UserError(str(error), FAILED) from None


def _findings_on_host(host: str, quick: bool, log_dir: str | None) -> Sequence[Finding]:
    """Return the findings of another host; skip answers that are not findings."""
    from dlmon.doctor.finding import finding_of
    from dlmon.remote.host_requests import examine_remote

    answers = result_of(examine_remote(host, quick, log_dir))
    return [finding for finding in map(finding_of, answers) if finding is not None]


def _report(text: str) -> None:
    print(clean(text), file=sys.stderr, flush=True)


def print_findings(findings: Sequence[Finding]) -> None:
    """Print the findings, each with its next step."""
    from rich.text import Text

    from dlmon.render.console import table_console
    from dlmon.render.lines import print_line

    console = table_console()
    marks = {
        "ok": ("✓", "green"),
        "missing": ("✗", "red"),
        "warning": ("!", "yellow"),
        "absent": ("–", "dim"),
    }
    for finding in findings:
        mark, style = marks[finding.state]
        line = Text.assemble(
            (f"{mark} ", style), (f"{finding.topic}: ", "bold"), clean(finding.text)
        )
        print_line(console, line)
        if finding.next_step:
            print_line(console, Text(f"    → {clean(finding.next_step)}", style="dim"))
