"""What an earlier dlmon wrote opens today: `tests/data/VERSION` is as that version left it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from dlmon.comparison.sides import NotComparable, compare_sides
from dlmon.log.directory import find_log, find_session, list_sessions
from dlmon.options.settings import read_settings
from dlmon.records import Slot, SweepHeader, decode
from dlmon.session.follower import SessionFollower
from dlmon.session.run_figures import read_figures
from dlmon.sweep.log import list_sweeps

DATA = Path(__file__).parents[1] / "data"
VERSIONS = sorted(DATA.iterdir())
MEMORY = "memory ran out with batch size 512 (MemoryError: Unable to allocate 1.5 GiB)"


@pytest.fixture(params=VERSIONS, ids=lambda version: version.name)
def sessions(request, tmp_path):
    """Return a copy of what a version recorded, which a test may write to."""
    return Path(shutil.copytree(request.param / "sessions", tmp_path / "sessions"))


def test_each_line_is_a_record(sessions):
    for path in sessions.rglob("*.jsonl"):
        for line in path.read_bytes().splitlines():
            assert decode(line) is not None, line[:100]


def test_its_sessions_are_listed_and_folded(sessions):
    entries = list_sessions(sessions)
    assert [(entry.header.workload, entry.status) for entry in entries] == [
        ("mnist-mlp-small", "completed"),
        ("mnist-mlp-small", "failed"),
    ]
    assert entries[1].result.error == MEMORY
    follower = SessionFollower(find_session(entries[0].header.id, sessions))
    while follower.poll():
        pass
    snapshot = follower.session.snapshot()
    assert snapshot.result == entries[0].result
    assert (len(snapshot.epochs), snapshot.batches) == (2, 80)
    assert snapshot.model.batch_size == 64
    assert follower.session.machine.latest.cpu.cores is not None
    follower.close()


def test_its_sessions_give_figures_to_compare(sessions):
    completed, failed = (read_figures(entry.path) for entry in list_sessions(sessions))
    assert (completed.batch_size, completed.precision, completed.mode) == (64, "float32", "train")
    assert completed.values["compile_s"] > 0
    assert completed.valid is False
    with pytest.raises(NotComparable, match="no throughput to compare"):
        compare_sides([completed], [failed])


def test_its_sweep_is_listed_and_found(sessions):
    (entry,) = list_sweeps(sessions)
    assert entry.status == "completed"
    assert entry.plan.workloads == ("mnist-mlp-small",)
    assert [variation.values for variation in entry.plan.variations] == [(64, 512)]
    completed, failed = (entry.sweep.outcomes[Slot(index, 0)] for index in (0, 1))
    assert (completed.status, completed.result.batches) == ("completed", 80)
    assert (failed.status, failed.reason) == ("out of memory", MEMORY)
    assert find_log(SweepHeader, "last", sessions) == entry.path


def test_its_settings_are_read():
    for version in VERSIONS:
        settings = read_settings(version / "config.toml")
        assert (settings.theme, settings.bell, settings.log_dir) == (
            "dlmon-light",
            True,
            "/data/dlmon",
        )
        assert (settings.run.device, settings.run.seconds, settings.run.pcie) == ("gpu:0", 5, True)
