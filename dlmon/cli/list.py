"""`dlmon list`: list the workloads."""

from __future__ import annotations

import json
from typing import Any

import click

from dlmon.cli.click_options import json_option
from workloads.catalog import WORKLOADS, Workload


@click.command("list")
@json_option
def list_workloads(as_json: bool) -> None:
    """List the workloads."""
    if as_json:
        print(json.dumps([_workload_json(workload) for workload in WORKLOADS.values()], indent=2))
        return
    from dlmon.figures.lists.session_list import describe_workloads
    from dlmon.render.console import table_console
    from dlmon.render.lines import print_sections

    print_sections(table_console(), describe_workloads(tuple(WORKLOADS.values())))


def _workload_json(workload: Workload) -> dict[str, Any]:
    return {
        "name": workload.name,
        "family": workload.family,
        "title": workload.title,
        "parameters": workload.parameters,
        "flops_per_sample": workload.train_flops,
        "forward_flops_per_sample": workload.forward_flops,
        "batch_size": workload.batch_size,
        "epochs": workload.epochs,
        "steps": workload.steps,
        "samples": workload.samples,
        "validation_samples": workload.validation_samples,
        "metric": workload.metric,
        "source": workload.source,
    }
