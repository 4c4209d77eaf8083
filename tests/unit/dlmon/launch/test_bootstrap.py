"""What runs on a box before dlmon is there: which files it keeps, where, and which it trusts."""

import ast
import os
import sys
from pathlib import Path

import pytest

from dlmon.launch import bootstrap

FILES = {"dlmon/__init__.py": b"", "dlmon/remote/agent.py": b"print()\n", "LICENSE": b"\xff\x00"}
HASH = bootstrap.hash_of(FILES)


@pytest.fixture
def kept(tmp_path):
    """Return a folder in which the files are kept."""
    bootstrap.write_folder(str(tmp_path), HASH, FILES)
    return tmp_path / HASH


def test_its_text_can_be_read_by_python_3_6():
    source = Path(bootstrap.__file__).read_text()
    tree = ast.parse(source, feature_version=(3, 6))
    imported = {
        name.name
        for node in ast.walk(tree)
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for name in node.names
    }
    assert imported <= sys.stdlib_module_names
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]


def link_a_file(kept):
    content = kept / "LICENSE"
    content.rename(kept.parent / "elsewhere")
    content.symlink_to(kept.parent / "elsewhere")


SPOILED = {
    "a file that is a link": link_a_file,
    "a pipe": lambda kept: os.mkfifo(kept / "numpy.py"),
    "a folder that is a link": lambda kept: (kept / "psutil").symlink_to(kept.parent),
    "a link that leads nowhere": lambda kept: (kept / "psutil.py").symlink_to("nowhere"),
    "a file that a group may change": lambda kept: (kept / "LICENSE").chmod(0o660),
    "a file that anybody may change": lambda kept: (kept / "LICENSE").chmod(0o606),
    "a folder that a group may change": lambda kept: (kept / "dlmon").chmod(0o770),
    "a top that a group may change": lambda kept: kept.chmod(0o770),
    "one file more": lambda kept: (kept / "dlmon" / "more.py").touch(),
    "one file less": lambda kept: (kept / "LICENSE").unlink(),
    "a file that was changed": lambda kept: (kept / "LICENSE").write_bytes(b"other"),
    "a file of another name": lambda kept: (kept / "LICENSE").rename(kept / "LICENCE"),
}


@pytest.mark.parametrize("spoil", SPOILED.values(), ids=SPOILED)
def test_a_folder_with_anything_but_what_it_should_hold_is_not_whole(kept, spoil):
    spoil(kept)
    assert not bootstrap.is_whole(str(kept), HASH)


def test_compiled_modules_leave_a_folder_whole_and_nothing_makes_none_so(kept):
    compiled = kept / "dlmon" / "__pycache__"
    compiled.mkdir(mode=0o775)
    (compiled / "agent.cpython-311.pyc").touch()
    assert bootstrap.is_whole(str(kept), HASH)
    assert not bootstrap.is_whole(str(kept / "nowhere"), HASH)
    assert not bootstrap.is_whole(str(compiled), bootstrap.hash_of({}))


def test_one_that_another_connection_kept_in_the_meantime_is_taken(kept, monkeypatch):
    rename = os.rename

    def rename_late(old, new):
        rename(old, new)
        if str(old) == str(kept):
            # The other one is there again before we are.
            bootstrap.write_folder(str(kept.parent), HASH, FILES)

    monkeypatch.setattr(os, "rename", rename_late)
    bootstrap.write_folder(str(kept.parent), HASH, FILES)
    assert bootstrap.is_whole(str(kept), HASH)


def test_a_folder_of_our_own_is_closed_to_others(tmp_path):
    path = tmp_path / "a" / "b"
    bootstrap.make_private(str(path))
    path.chmod(0o777)
    bootstrap.make_private(str(path))
    assert path.stat().st_mode & 0o777 == 0o700


def test_a_folder_that_is_a_link_or_a_file_is_not_ours(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path)
    (tmp_path / "file").touch()
    for name in ("link", "file"):
        with pytest.raises(OSError, match="is not a folder of ours"):
            bootstrap.make_private(str(tmp_path / name))


def test_the_cache_is_the_first_place_and_relative_ones_are_none(monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/c")
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/r")
    own = f"dlmon-{os.geteuid()}"
    assert bootstrap.parent_folders()[:2] == ["/c/dlmon/boxes", f"/r/{own}"]
    assert bootstrap.parent_folders()[-1] == f"/dev/shm/{own}"
    monkeypatch.setenv("XDG_CACHE_HOME", "c")
    monkeypatch.setenv("XDG_RUNTIME_DIR", "r")
    monkeypatch.setenv("HOME", "/h")
    assert bootstrap.parent_folders()[0] == "/h/.cache/dlmon/boxes"
    assert all(map(os.path.isabs, bootstrap.parent_folders()))
