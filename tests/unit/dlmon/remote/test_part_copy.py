"""When the session is found whose parts are copied from other hosts."""

from __future__ import annotations

import pytest
from fakes.recorded import recorded_session, write_log

from dlmon.log.parts import announce, join, joined_step
from dlmon.remote import part_copy


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(part_copy, "BEGINS_S", 0.05)
    monkeypatch.setattr(part_copy, "POLL_S", 0.01)


def test_a_session_that_is_over_or_has_not_begun_is_none(tmp_path):
    assert part_copy.session_folder(tmp_path, "vit") is None
    assert join(tmp_path, "vit") == 0
    log = write_log(tmp_path, recorded_session())
    announce(tmp_path, joined_step("vit"), log.parent.name)
    assert part_copy.session_folder(tmp_path, "vit") is None


def test_the_running_session_of_the_name_is_found(tmp_path, monkeypatch):
    assert join(tmp_path, "vit") == 0
    log = write_log(tmp_path, recorded_session())
    announce(tmp_path, joined_step("vit"), log.parent.name)
    monkeypatch.setattr(part_copy, "_runs", lambda folder: True)
    assert part_copy.session_folder(tmp_path, "vit") == log.parent
