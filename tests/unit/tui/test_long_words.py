"""What somebody typed is repeated in a message, however long it was, in a few words only."""

from __future__ import annotations

import pytest
from fakes.recorded import recorded_session, write_log

from dlmon.cli.main import _run

LONG = "x" * 100_000
SMALL = "mnist-mlp-small"


@pytest.mark.parametrize(
    "words",
    [
        ["run", LONG],
        [LONG],
        [f"--{LONG}"],
        *(["run", SMALL, f"--{option}", LONG] for option in ("device", "batch-size", "python")),
        ["attach", LONG],
        ["sweep", "--resume", LONG],
        ["sweep", SMALL, "--repeat", LONG],
        ["sweep", SMALL, "--vary", f"{LONG}=1"],
        ["sweep", SMALL, "--vary", f"threads={LONG}"],
        ["sweep", SMALL, "--vary", f"device={LONG},cpu"],
        ["watch", "--interval", LONG],
    ],
    ids=lambda words: " ".join(word[:20] for word in words),
)
def test_a_long_word_is_shortened_where_it_is_refused(words, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("DLMON_CONFIG", "")
    write_log(tmp_path / "dlmon" / "sessions", recorded_session())
    assert _run(words) == 2
    errors = capsys.readouterr().err
    assert errors.startswith("dlmon: ")
    assert len(errors) < 1000
    assert "x" * 20 in errors or "--resume" in words


def test_a_long_key_of_the_settings_is_shortened(tmp_path, monkeypatch, capsys):
    config = tmp_path / "config.toml"
    monkeypatch.setenv("DLMON_CONFIG", str(config))
    for text in (f"{LONG} = 1", f'bell = "{LONG}"', f'[run]\nmode = "{LONG}"'):
        config.write_text(text)
        assert _run(["list"]) == 0
        assert _run(["sessions"]) == 2
        assert len(capsys.readouterr().err) < 1000
