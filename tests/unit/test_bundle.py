"""The folder that another interpreter runs from: its content, its name, and its making."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import dlmon
from dlmon.bundle import BundleError, bundle_folder, bundled_command

ROOT = Path(dlmon.__file__).parents[1]


def names_in(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_it_holds_both_packages_as_packages_and_nothing_else(tmp_path):
    folder = bundle_folder(tmp_path)
    assert {path.name for path in folder.iterdir()} == {"dlmon", "workloads"}
    names = names_in(folder)
    assert {"dlmon/__init__.py", "dlmon/keras.py", "dlmon/published.csv"} <= names
    assert {"workloads/__main__.py", "workloads/catalog.py"} <= names
    assert not [name for name in names if "__pycache__" in name]
    for name in names:
        assert (folder / name).read_bytes() == (ROOT / name).read_bytes()


def test_it_is_written_once(tmp_path):
    folder = bundle_folder(tmp_path)
    written = (folder / "dlmon" / "keras.py").stat()
    assert bundle_folder(tmp_path) == folder
    assert (folder / "dlmon" / "keras.py").stat() == written
    assert [path.name for path in tmp_path.iterdir()] == [folder.name]


def test_another_content_has_another_name(tmp_path, monkeypatch):
    source = tmp_path / "source"
    for package in ("dlmon", "workloads"):
        (source / package).mkdir(parents=True)
        (source / package / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(source)
    monkeypatch.delitem(sys.modules, "workloads", raising=False)
    monkeypatch.setattr("dlmon.bundle.PACKAGES", ("workloads",))
    cache = tmp_path / "cache"
    first = bundle_folder(cache)
    (source / "workloads" / "__init__.py").write_text("x = 1\n")
    second = bundle_folder(cache)
    (source / "workloads" / "__init__.py").rename(source / "workloads" / "other.py")
    (source / "workloads" / "__init__.py").write_text("")
    third = bundle_folder(cache)
    assert len({first, second, third}) == 3
    assert (second / "workloads" / "__init__.py").read_text() == "x = 1\n"


@pytest.mark.parametrize("harm", ["gone", "changed"])
def test_one_that_was_tidied_or_changed_is_written_anew(tmp_path, harm):
    folder = bundle_folder(tmp_path)
    broken = folder / "dlmon" / "keras.py"
    if harm == "gone":
        broken.unlink()
    else:
        broken.write_text("raise SystemExit\n")
    assert bundle_folder(tmp_path) == folder
    assert broken.read_bytes() == (ROOT / "dlmon" / "keras.py").read_bytes()
    assert [path.name for path in tmp_path.iterdir()] == [folder.name]


def test_several_at_once_end_with_one_whole_folder(tmp_path):
    with ThreadPoolExecutor(8) as pool:
        folders = set(pool.map(lambda _: bundle_folder(tmp_path), range(8)))
    assert len(folders) == 1
    (folder,) = folders
    assert [path.name for path in tmp_path.iterdir()] == [folder.name]
    assert names_in(folder) == names_in(bundle_folder(tmp_path / "other"))


def test_only_its_owner_may_look_into_it_or_change_it(tmp_path):
    folder = bundle_folder(tmp_path / "cache" / "bundles")
    assert folder.stat().st_mode & 0o077 == 0
    assert folder.parent.stat().st_mode & 0o077 == 0


def test_a_cache_that_cannot_be_written_is_told_in_one_sentence(tmp_path):
    taken = tmp_path / "file"
    taken.touch()
    with pytest.raises(BundleError, match=f"a copy of dlmon in {taken}, which can't be written: "):
        bundle_folder(taken)


@pytest.mark.parametrize("safe_path", ["", "1"], ids=["", "PYTHONSAFEPATH"])
def test_a_module_of_it_runs_from_it_and_not_from_the_working_directory(tmp_path, safe_path):
    """As before Python 3.11, where the working directory comes first and -P is unknown."""
    folder = tmp_path / "bundle"
    here = tmp_path / "here"
    for place, says in ((folder, "from the bundle"), (here, "from the working directory")):
        (place / "workloads").mkdir(parents=True)
        (place / "workloads" / "__init__.py").write_text("")
        (place / "workloads" / "__main__.py").write_text(
            f"import sys\nprint({says!r}, sys.path[0], '' in sys.path, len(sys.argv))\n"
        )
    done = subprocess.run(
        bundled_command(sys.executable, "workloads", folder),
        cwd=here,
        env={"PYTHONSAFEPATH": safe_path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == f"from the bundle {folder} False 1"
