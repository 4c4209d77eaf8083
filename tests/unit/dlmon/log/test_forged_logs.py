"""Logs that nobody recorded: none breaks a list of sessions, or what is printed of one."""

import json
import shutil

import pytest
from fakes.forged_logs import LONG, forge_logs, write_lines
from fakes.recorded import recorded_session
from rich.cells import cell_len

from dlmon.cli.main import _run
from dlmon.log.folder import LOG_NAME, LogError
from dlmon.records import encode
from dlmon.render.follow import follow


@pytest.fixture(scope="module")
def forged(tmp_path_factory):
    """A directory of forged logs, and a true one."""
    directory = tmp_path_factory.mktemp("forged") / "sessions"
    forge_logs(directory)
    return directory


@pytest.fixture
def dlmon(monkeypatch, capsys):
    """Return a function that runs a command in this process."""

    def run(*arguments):
        code = _run([str(argument) for argument in arguments])
        return code, *capsys.readouterr()

    return run


def assert_only_text(printed):
    lines = printed.splitlines()
    assert all(line.isprintable() for line in lines), next(x for x in lines if not x.isprintable())


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_directory_of_forged_logs_is_listed_with_the_true_one_among_them(forged, dlmon):
    code, printed, complaint = dlmon("sessions", "--log-dir", forged)
    assert (code, complaint) == (0, "")
    assert_only_text(printed)
    true = recorded_session()[0].id
    assert any(line.startswith(true) and " completed " in line for line in printed.splitlines())
    assert max(map(cell_len, printed.splitlines())) < 5_000


@pytest.mark.slow
def test_a_directory_of_forged_logs_is_valid_json(forged, dlmon):
    code, printed, complaint = dlmon("sessions", "--json", "--log-dir", forged)
    assert (code, complaint) == (0, "")
    assert printed.isascii()
    reported = json.loads(printed, parse_constant=pytest.fail)
    assert len({entry["log"] for entry in reported}) == len(reported) > 500


@pytest.mark.slow
@pytest.mark.parametrize("part", range(8))
def test_what_is_printed_of_a_forged_log_is_text(forged, tmp_path, capsys, part):
    shown = 0
    for folder in sorted(forged.iterdir())[part::60]:
        # Alone: it is listed among the others above.
        shutil.copytree(folder, tmp_path / folder.name)
        try:
            follow(tmp_path / folder.name / LOG_NAME, None)
            shown += 1
        except LogError:
            continue
        finally:
            shutil.rmtree(tmp_path / folder.name)
        for printed in capsys.readouterr():
            assert_only_text(printed)
    assert shown


def test_one_log_with_a_name_of_65_000_characters_leaves_the_others_their_rows(tmp_path, dlmon):
    header, *records = (json.loads(encode(record)) for record in recorded_session())
    write_lines(tmp_path, "true", [header, *records])
    write_lines(tmp_path, "long", [{**header, "id": "long", "workload": LONG}, *records])
    code, printed, _ = dlmon("sessions", "--log-dir", tmp_path)
    _, *rows = printed.splitlines()
    assert code == 0
    assert {row.split()[0] for row in rows} == {header["id"], "long"}
