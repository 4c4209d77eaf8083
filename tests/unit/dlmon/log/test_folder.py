from pathlib import Path

from dlmon.log.folder import location_options, new_session_id


def test_ids_sort_by_time_and_are_safe_as_names():
    assert new_session_id("cifar10-cnn", 0.0).split("-")[2:4] == ["cifar10", "cnn"]
    nasty = new_session_id("../../x y\0" + "z" * 100, 1_795_186_560.0)
    assert not set(nasty) & set("/\0. ")
    assert len(nasty) < 70
    assert new_session_id("a", 1e9) < new_session_id("a", 1e9 + 3_600)
    assert new_session_id("a", 1e9) != new_session_id("a", 1e9)


def test_a_place_is_named_by_the_options_with_which_a_command_looks_there():
    assert location_options(None) == ""
    assert location_options(None, "lab") == " --host lab"
    assert location_options("/logs", "lab") == " --host lab --log-dir /logs"
    assert location_options(Path("/my logs")) == " --log-dir '/my logs'"
    assert "\x1b" not in location_options("/\x1b[31m")
