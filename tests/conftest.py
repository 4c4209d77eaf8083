"""Settings that every test shares."""

import os
import pwd
import time

import pytest
from hypothesis import settings

from tui.formatting.glyphs import UNICODE, use_glyphs

# Two noisy cores: a slow example is no failure.
settings.register_profile("dlmon", deadline=None)
settings.load_profile("dlmon")


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


@pytest.fixture(autouse=True)
def _glyphs_of_no_other_test():
    """Let an app that an earlier test made with plain characters draw nothing here."""
    use_glyphs(UNICODE)


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
