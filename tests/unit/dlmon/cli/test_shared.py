"""What every command does before it begins: whether the screen is drawn with plain characters."""

import io
import sys
from contextvars import ContextVar

import pytest
from fakes.recorded import recorded_session, write_log

import dlmon.cli.main
from dlmon.cli.command_line import run_command
from dlmon.cli.shared import settings_of
from dlmon.render import console


@pytest.mark.parametrize(
    ("locale", "encoding", "ascii"),
    [
        ({}, "utf-8", False),
        ({"LANG": "de_DE.UTF-8"}, "utf-8", False),
        ({"LC_CTYPE": "C.utf8"}, "utf-8", False),
        ({"LANG": "de_DE"}, "utf-8", False),
        ({"LANG": "de_DE"}, "iso8859-1", True),
        ({"LANG": "de_DE.ISO-8859-1"}, "utf-8", True),
        ({"LANG": "de_DE.ISO-8859-15@euro"}, "iso8859-15", True),
        ({"LC_ALL": "C", "LANG": "de_DE.UTF-8"}, "utf-8", True),
        ({"LC_ALL": "", "LANG": "en_US.UTF-8"}, "utf-8", False),
        ({}, "ascii", True),
    ],
)
def test_where_the_locale_is_not_utf_8_the_screen_is_drawn_in_ascii(
    monkeypatch, locale, encoding, ascii
):
    for name in ("LC_ALL", "LC_CTYPE", "LANG"):
        monkeypatch.delenv(name, raising=False)
    for name, value in locale.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(console, "_in_ascii", ContextVar("in_ascii", default=False))
    monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(io.BytesIO(), encoding))
    assert settings_of(None).ascii == ascii
    # Whoever asks for either gets it.
    assert settings_of(not ascii).ascii != ascii


@pytest.mark.parametrize(
    ("before", "after", "ascii"),
    [(["--ascii"], [], True), ([], ["--ascii"], True), ([], [], False)],
)
def test_ascii_before_or_after_a_command_is_for_all_that_it_prints(
    tmp_path, capsys, monkeypatch, before, after, ascii
):
    monkeypatch.setattr(console, "_in_ascii", ContextVar("in_ascii", default=False))
    monkeypatch.setenv("LANG", "C.UTF-8")
    log = write_log(tmp_path, recorded_session())
    run_command([*before, "attach", "--plain", *after, str(log)])
    assert capsys.readouterr().out.isascii() is ascii


def test_what_an_encoding_lacks_is_written_with_a_character_that_is_like_it(monkeypatch):
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, "ascii"))
    monkeypatch.setattr(sys, "argv", ["dlmon", "list"])
    monkeypatch.setattr(dlmon.cli.main, "_run", lambda words, show: print("✓ 1.5 ± 0.1 × 漢") or 0)
    with pytest.raises(SystemExit):
        dlmon.cli.main.main(lambda start: 0)
    sys.stdout.flush()
    assert written.getvalue() == b"* 1.5 ~ 0.1 x ??\n"
