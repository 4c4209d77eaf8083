"""Warnings name the line that they name where nothing of ours stands in between."""

import pickle
import traceback
import warnings

import pytest

from dlmon.instrument.warning_places import leave_out

OURS, LIBRARY, SCRIPT = "/ours/wrapping.py", "/lib/library.py", "/home/script.py"
FILES = {
    LIBRARY: "import warnings\ndef warn(level):\n    warnings.warn('old', stacklevel=level)\n",
    OURS: "def wrapped(level):\n    warn(level)\ndef again(level):\n    wrapped(level)\n",
    SCRIPT: "def inner(level):\n\n    again(level)\ndef outer(level):\n    inner(level)\n",
}


@pytest.fixture
def outer(monkeypatch):
    """Return a function that calls what warns, through two functions of ours."""
    monkeypatch.setattr(warnings, "warn", warnings.warn)
    leave_out("/ours/")
    names = {}
    for file, text in FILES.items():
        exec(compile(text, file, "exec"), names)
    return names["outer"]


@pytest.mark.parametrize(
    ("level", "place"),
    [
        (0, (LIBRARY, 3)),
        (1, (LIBRARY, 3)),
        (2, (SCRIPT, 3)),
        (3, (SCRIPT, 5)),
        (4, (__file__, None)),
    ],
)
def test_callers_are_counted_without_ours(outer, level, place):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        outer(level)
    [warning] = caught
    file, line = place
    assert warning.filename == file
    assert line in (None, warning.lineno)


def test_a_level_beyond_every_caller_names_none(outer):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        outer(10_000)
    assert caught[0].filename == "sys"


def test_a_warning_that_is_made_an_error_has_no_frame_more(outer):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning) as raised:
            outer(2)
    *_, last = traceback.extract_tb(raised.value.__traceback__)
    assert (last.filename, last.lineno) == (LIBRARY, 3)


def test_what_is_no_warning_is_refused_as_ever(outer):
    with pytest.raises(TypeError):
        warnings.warn("text", stacklevel="2")
    with pytest.raises(TypeError):
        warnings.warn("text", int, stacklevel=2)
    assert pickle.loads(pickle.dumps(warnings.warn)) is warnings.warn
