"""Settings that every test shares."""

import gc
import itertools
import os
import pwd
import re
import signal
import time
from pathlib import Path

import pytest
from hypothesis import settings

from dlmon.render.console import print_in_ascii

# Two noisy cores: a slow example is no failure.
settings.register_profile("dlmon", deadline=None)
settings.load_profile("dlmon")

# Thousands of tests and the modules that they import live to the end, and an app is made of tens
# of thousands of objects, which live as long as its test: looking through all of them for garbage
# every 700 new ones took a fifth of the time.
gc.set_threshold(50_000, 20, 50)

_folder_numbers = itertools.count()

_SOURCE = Path(__file__).parents[1]


def pytest_collection_finish():
    """Look no more for garbage among what was there before the first test."""
    gc.collect()
    gc.freeze()


def pytest_make_parametrize_id(config, val, argname):
    """Name a test by how long a text is that nobody would read."""
    return f"{argname} of {len(val)}" if isinstance(val, (str, bytes)) and len(val) > 80 else None


@pytest.fixture
def tmp_path(request, tmp_path_factory):
    """Return a folder of this test's own, as pytest's fixture of this name does.

    That one lists the folders of all earlier tests to find a number that is free.
    """
    name = re.sub(r"\W", "_", request.node.name)[:30]
    return tmp_path_factory.mktemp(f"{name}{next(_folder_numbers)}", numbered=False)


@pytest.fixture(scope="session", autouse=True)
def _nothing_of_the_persons_own(tmp_path_factory):
    """Keep the person's settings, theme and sessions out of the tests, and these out of theirs."""
    folder = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME"):
            patch.setenv(name, str(folder / name.lower()))
        for name in ("DLMON_CONFIG", "DLMON_PUBLISHED", "NO_COLOR"):
            if name in os.environ:
                patch.delenv(name)
        yield


@pytest.fixture(scope="session", autouse=True)
def _nothing_is_ignored():
    """Start nothing that ignores a signal, as `nohup make test &` would: it hands that on.

    Here they do nothing still; what handles a signal hands on no more than its default.
    """
    before = {
        number: signal.signal(number, lambda *_: None)
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
        if signal.getsignal(number) == signal.SIG_IGN
    }
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture(scope="session", autouse=True)
def _nothing_is_left_in_the_source():
    """Leave no file beside the source; what the tools themselves put there has a dot before it."""

    def names():
        return {path.name for path in _SOURCE.iterdir() if not path.name.startswith(".")}

    before = names()
    yield
    assert names() - before <= {"snapshot_report.html"}


@pytest.fixture(autouse=True)
def _characters_of_no_other_test():
    """Let an app that an earlier test made with plain characters print nothing here."""
    print_in_ascii(False)


@pytest.fixture
def no_home(monkeypatch):
    """Let there be no home directory, as for a user of a container that nobody named."""

    def nobody(uid):
        raise KeyError(f"getpwuid(): uid not found: {uid}")

    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", nobody)


@pytest.fixture
def utc(monkeypatch):
    """Let local time be UTC."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()
