import os

import pytest
from fakes.recorded import recorded_session, write_log

from dlmon.log.folder import LOG_NAME, LogError, id_of
from dlmon.log.label import Label, write_label
from dlmon.log.prune import is_link, remove, size_bytes

# ---- how it is removed ----


@pytest.fixture
def log(tmp_path):
    return write_log(tmp_path / "sessions", recorded_session(samples=2_000))


@pytest.fixture
def held(log, hold):
    hold(log)
    return log


def test_a_session_is_removed_with_all_that_dlmon_made_beside_it(log):
    write_label(log, Label("x"))
    for name in ("session-2.jsonl", "session.index.jsonl", "session.index", ".session.jsonl"):
        log.with_name(name).write_bytes(b"1234")
    log.with_name(".label.json.12.0a1b2c3d").write_bytes(b"1234")
    assert size_bytes(log) == sum(path.stat().st_size for path in log.parent.iterdir())
    other = write_log(log.parent.parent, recorded_session(samples=2_000), "other")
    remove(log)
    assert list(log.parent.parent.iterdir()) == [other.parent]


def test_what_dlmon_did_not_make_stays_and_so_does_its_folder(log):
    mine = {log.with_name(name) for name in ("notes.txt", "session.jsonl.bak", "label.json.old")}
    for path in mine:
        path.write_text("mine")
    log.with_name("folder").mkdir()
    with pytest.raises(LogError, match="stays: it holds files that dlmon didn't make"):
        remove(log)
    assert set(log.parent.iterdir()) == {*mine, log.with_name("folder")}


def test_a_session_that_began_to_run_meanwhile_stays_with_all_its_files(held):
    newest = held.with_name("session-2.jsonl")
    newest.touch()
    before = set(held.parent.iterdir())
    for path in (held, newest):
        with pytest.raises(LogError, match=f"{id_of(held)} is running: it is not removed"):
            remove(path)
        assert set(held.parent.iterdir()) == before


def test_a_folder_that_is_a_link_is_left_alone_with_what_it_leads_to(log, tmp_path):
    link = tmp_path / "other" / "linked"
    link.parent.mkdir()
    link.symlink_to(log.parent)
    assert is_link(link / LOG_NAME)
    assert not is_link(log)
    with pytest.raises(LogError, match="linked can't be removed"):
        remove(link / LOG_NAME)
    assert size_bytes(link / LOG_NAME) == 0
    assert log.exists()


def test_a_link_in_a_folder_stays_and_nothing_that_it_leads_to_is_touched(log, tmp_path):
    precious = tmp_path / "precious"
    precious.write_text("mine")
    log.with_name("label.json").symlink_to(precious)
    with pytest.raises(LogError, match="stays"):
        remove(log)
    assert precious.read_text() == "mine"
    assert log.with_name("label.json").is_symlink()


@pytest.mark.parametrize("name", ["..hidden", "-rf", "a b", "\x1b[31m", "é\n", "*"])
def test_a_folder_is_removed_whatever_its_name(log, name):
    folder = log.parent.rename(log.parent.with_name(name))
    remove(folder / LOG_NAME)
    assert not list(folder.parent.iterdir())


@pytest.mark.skipif(os.geteuid() == 0, reason="root may remove everything")
def test_what_may_not_be_removed_is_one_sentence(log):
    log.parent.chmod(0o500)
    with pytest.raises(LogError, match="can't be removed: permission denied"):
        remove(log)
    log.parent.chmod(0o700)
