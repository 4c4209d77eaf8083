import os

import pytest

from dlmon.log.parts import ANNOUNCED, announce, announced, part_name, parts_in


def test_the_folder_of_an_announced_session_is_found_by_its_step(tmp_path):
    assert announced(tmp_path, "77.0.0", 1) is None
    (tmp_path / "20261127-run-1234").mkdir()
    announce(tmp_path, "77.0.0", "20261127-run-1234")
    assert announced(tmp_path, "77.0.0", 1) == tmp_path / "20261127-run-1234"
    assert announced(tmp_path, "77.1.0", 1) is None


@pytest.mark.parametrize("said", ["../elsewhere", "/tmp", "", "gone", "a\0b", "\xff"])
def test_what_names_no_folder_of_the_log_directory_is_no_announcement(tmp_path, said):
    directory = tmp_path / "sessions"
    (tmp_path / "elsewhere").mkdir()
    (directory / ANNOUNCED).mkdir(parents=True)
    (directory / ANNOUNCED / "77.0.0").write_bytes(said.encode("latin-1"))
    assert announced(directory, "77.0.0", 1) is None


def test_a_session_that_has_this_part_already_is_of_a_run_before_in_the_same_step(tmp_path):
    (tmp_path / "run").mkdir()
    announce(tmp_path, "77.0.0", "run")
    (tmp_path / "run" / part_name(1)).touch()
    assert announced(tmp_path, "77.0.0", 1) is None
    assert announced(tmp_path, "77.0.0", 2) == tmp_path / "run"


def test_an_old_announcement_is_of_another_step_of_the_same_number(tmp_path):
    (tmp_path / "run").mkdir()
    os.utime(announce(tmp_path, "77.0.0", "run"), (0, 0))
    assert announced(tmp_path, "77.0.0", 1) is None


def test_the_parts_of_a_session_are_those_that_have_a_number(tmp_path):
    for name in (part_name(1), part_name(12), "part-x.jsonl", "session.jsonl"):
        (tmp_path / name).touch()
    assert sorted(number for number, _ in parts_in(tmp_path)) == [1, 12]
