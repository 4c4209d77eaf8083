"""The folder that another interpreter runs from: its content, its name, and its making."""

import errno
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import dlmon
from dlmon.launch.bundle import BundleError, bundle_folder, package_files

ROOT = Path(dlmon.__file__).parents[1]


def names_in(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_it_holds_both_packages_as_packages_and_nothing_else(tmp_path):
    folder = bundle_folder(tmp_path)
    assert {path.name for path in folder.iterdir()} == {"dlmon", "workloads"}
    names = names_in(folder)
    tables = {"dlmon/comparison/published.csv", "dlmon/comparison/devices.csv"}
    modules = {"dlmon/__init__.py", "dlmon/instrument/fits.py", "workloads/__main__.py"}
    assert tables | modules <= names
    assert not [name for name in names if name.startswith(("dlmon/cli", "dlmon/render"))]
    assert not [name for name in names if "__pycache__" in name]
    for name in names:
        assert (folder / name).read_bytes() == (ROOT / name).read_bytes()


@pytest.fixture
def few_files(monkeypatch):
    """Let a bundle be of a few of our files: each harm is done to one of them, or beside them.

    What all of them are, and that they are written, is tested above.
    """
    kept = ("__init__.py", "exit_codes.py", "instrument/fits.py", "comparison/devices.csv")
    files = {
        name: content for name, content in package_files().items() if name.partition("/")[2] in kept
    }
    monkeypatch.setattr("dlmon.launch.bundle.package_files", lambda: files)
    return files


def test_one_that_somebody_changed_is_written_anew(tmp_path, few_files):
    folder = bundle_folder(tmp_path / "bundles")
    (folder / "dlmon" / "exit_codes.py").write_text("raise SystemExit('planted')\n")
    (folder / "numpy.py").write_text("raise SystemExit('planted')\n")
    assert bundle_folder(tmp_path / "bundles") == folder
    assert names_in(folder) == set(few_files) > {"workloads/__init__.py"}
    for name in names_in(folder):
        assert (folder / name).read_bytes() == (ROOT / name).read_bytes()


def test_a_cache_that_another_user_owns_is_refused(tmp_path, monkeypatch):
    bundle_folder(tmp_path)
    user = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    with pytest.raises(BundleError, match=f"{tmp_path} belongs to another user; set"):
        bundle_folder(tmp_path)


def test_a_cache_that_everybody_may_write_is_closed(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = bundle_folder()
    for place in (folder.parent, folder.parent.parent):
        place.chmod(0o777)
    assert bundle_folder() == folder
    for place in (folder.parent, folder.parent.parent):
        assert place.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_all_that_is_made_is_its_owners_alone_whatever_the_umask(tmp_path, umask, few_files):
    before = os.umask(umask)
    try:
        folder = bundle_folder(tmp_path / "cache" / "dlmon" / "bundles")
    finally:
        os.umask(before)
    for path in (tmp_path / "cache", *(tmp_path / "cache").rglob("*")):
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600)
    assert (folder / "dlmon" / "exit_codes.py").stat().st_mode & 0o777 == 0o600


# ---- bundles of other versions ----

OLD = "0123456789abcdef" * 2
LONG_AGO = 1_600_000_000


@pytest.fixture
def old_bundle(tmp_path):
    """A bundle of another version that nobody has needed for years."""
    folder = tmp_path / OLD
    folder.mkdir()
    (folder / "file").touch()
    os.utime(folder, (LONG_AGO, LONG_AGO))
    return folder


def test_one_that_nobody_has_needed_for_long_is_removed(tmp_path, old_bundle):
    (tmp_path / "notes.txt").touch()
    folder = bundle_folder(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {folder.name, "notes.txt"}


def test_several_at_once_end_with_one_whole_folder(tmp_path):
    with ThreadPoolExecutor(8) as pool:
        folders = set(pool.map(lambda _: bundle_folder(tmp_path), range(8)))
    assert len(folders) == 1
    (folder,) = folders
    assert names_in(folder) == names_in(bundle_folder(tmp_path / "other"))


def test_a_bundle_for_which_there_is_no_room_leaves_nothing_behind(tmp_path, monkeypatch):
    def fail(*arguments):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fdopen", fail)
    with pytest.raises(BundleError, match="can't be kept: No space left on device"):
        bundle_folder(tmp_path)
    assert list(tmp_path.iterdir()) == []
