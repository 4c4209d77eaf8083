import os
from contextlib import closing
from dataclasses import replace

import pytest
from fakes.recorded import recorded_session

from dlmon.log.folder import LogError, part_name, parts_in
from dlmon.log.parts import ANNOUNCED, announce, announced, join, joined_step, leave
from dlmon.log.writer import LogWriter
from dlmon.system.this_host import host_name


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


# ---- a run that hosts join by a name ----


@pytest.fixture
def begin(tmp_path):
    """Return a function that writes the log of a session and announces it, as part 0 does."""
    header, *_ = recorded_session(epochs=1)

    def begin_session(**changes):
        writer = LogWriter(tmp_path, replace(header, **changes))
        announce(tmp_path, joined_step("vit"), writer.path.parent.name)
        return writer

    return begin_session


def test_the_first_to_join_is_part_0_and_each_other_has_a_number_of_its_own(tmp_path, begin):
    assert join(tmp_path, "vit") == 0
    # It has yet to announce its session.
    assert join(tmp_path, "vit") == 1
    with closing(begin()) as writer:
        assert [join(tmp_path, "vit") for _ in range(2)] == [2, 3]
        assert announced(tmp_path, joined_step("vit"), 3) == writer.path.parent
        assert join(tmp_path, "another") == 0


def test_who_joins_after_the_end_begins_another_run(tmp_path, begin):
    assert join(tmp_path, "vit") == 0
    begin().close()
    leave(tmp_path, "vit")
    assert [join(tmp_path, "vit") for _ in range(2)] == [0, 1]


@pytest.mark.parametrize("host", [None, "elsewhere"])
def test_a_run_whose_first_part_was_killed_is_not_joined(tmp_path, begin, host):
    join(tmp_path, "vit")
    writer = begin(host=host or host_name())
    # It has no result and no writer.
    writer.close()
    if host is not None:
        # A lock of another host may not be seen here, but its log grows as it runs.
        assert join(tmp_path, "vit") == 1
        os.utime(writer.path, (0, 0))
    assert join(tmp_path, "vit") == 0
    assert announced(tmp_path, joined_step("vit"), 1) is None


def test_a_run_of_which_no_session_was_made_is_not_joined(tmp_path):
    join(tmp_path, "vit")
    os.utime(tmp_path / ANNOUNCED / "join-vit", (0, 0))
    assert [join(tmp_path, "vit") for _ in range(2)] == [0, 1]


@pytest.mark.parametrize("said", ["../elsewhere", "gone", "a\0b", "\xff"])
def test_an_announcement_of_no_session_is_not_joined(tmp_path, said):
    join(tmp_path, "vit")
    (tmp_path / ANNOUNCED / "join-vit" / "session").write_bytes(said.encode("latin-1"))
    os.utime(tmp_path / ANNOUNCED / "join-vit", (0, 0))
    assert join(tmp_path, "vit") == 0


def test_a_log_directory_that_cannot_be_written_says_so(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(LogError, match="--join needs a log directory that it can write: not a dir"):
        join(tmp_path / "file", "vit")
