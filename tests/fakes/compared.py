"""Runs as they are compared, made without a log."""

from dataclasses import replace
from pathlib import Path

from dlmon.comparison.compared_run import RunFigures
from dlmon.comparison.references import compare
from dlmon.log.directory import SessionEntry
from dlmon.records import MachineFacts, SessionHeader, Status
from dlmon.session.run_figures import figures_of_entry

THIS = RunFigures(
    session="this",
    host="box",
    wall=1.0,
    status=Status.RUNNING,
    workload="cifar10-cnn",
    options={},
    versions={},
    machine=MachineFacts(),
)


def header_of(result, machine=None, **changes):
    """Return a header that a recorded run may have."""
    header = SessionHeader(
        schema=1,
        id=result.session,
        host="box",
        boot_id="boot",
        t=0,
        wall=1_767_200_000.0,
        workload=result.workload,
        options=result.options,
        machine=machine or MachineFacts(),
        versions={},
    )
    return replace(header, **changes)


def recorded(result, header=None):
    """Return what a recorded run gives for comparing."""
    header = header or header_of(result)
    path = Path("session.jsonl")
    return figures_of_entry(SessionEntry(header, path, Status(result.status), result, None))


def compared(metric, ours, defaults, this=THIS, earlier=()):
    """Return the rows of a run under some conditions; without a time it has none."""
    runs = [run if isinstance(run, RunFigures) else recorded(run) for run in earlier]
    return compare(metric, this, ours, defaults, runs)


def side(session, *throughputs, values=None, **changes):
    """Return the runs of one side of a comparison, each with a throughput."""
    known = {"batch_size": 100, "precision": "float32", "mode": "train", "data": "synthetic"}
    known |= {"samples": 50_000, "device": "cpu", "is_projected": False}
    known |= {"status": Status.COMPLETED, **changes}
    return [
        replace(
            THIS,
            session=f"{session}-{number}",
            values={"samples_per_second": one, **(values or {})},
            **known,
        )
        for number, one in enumerate(throughputs)
    ]
