"""A Slurm that all of its tests share, in one process of those that run tests."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from fakes.slurm import Slurm, lacks_slurm

FOLDER = Path(__file__).parent


def pytest_collection_modifyitems(items):
    why = lacks_slurm()
    for item in items:
        if item.path.is_relative_to(FOLDER):
            item.add_marker(pytest.mark.xdist_group("slurm"))
            if why is not None:
                item.add_marker(pytest.mark.skip(reason=why))


@pytest.fixture(scope="session")
def cluster():
    # The folder of pytest is too deep for a socket.
    folder = tempfile.mkdtemp(prefix="slurm-")
    started = Slurm(folder)
    yield started
    started.close()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def slurm(cluster, monkeypatch):
    """The cluster, for all that a test starts; its jobs end with the test."""
    for name, value in cluster.environment.items():
        monkeypatch.setenv(name, value)
    yield cluster
    cluster.cancel_all()
