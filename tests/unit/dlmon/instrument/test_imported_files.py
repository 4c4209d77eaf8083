"""Which files of a repository a process has imported."""

from __future__ import annotations

import sys
from types import ModuleType

from dlmon.instrument.imported_files import VARIABLE, ImportedFiles
from dlmon.sweep.variants import IMPORTED_BELOW


def module(monkeypatch, name, path):
    made = ModuleType(name)
    made.__file__ = str(path)
    monkeypatch.setitem(sys.modules, name, made)


def test_the_files_below_the_folder_are_named_once_and_again_when_more_are_imported(
    monkeypatch, tmp_path
):
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    module(monkeypatch, "one_of_mine", tmp_path / "src" / "one.py")
    module(monkeypatch, "of_others", tmp_path.parent / "others.py")
    imported = ImportedFiles()
    (record,) = imported.read(5)
    assert (record.t, record.files) == (5, ("src/one.py",))
    assert imported.read(6) == []
    module(monkeypatch, "two_of_mine", tmp_path / "two.py")
    (record,) = imported.read(7)
    assert record.files == ("src/one.py", "two.py")


def test_without_a_repository_nothing_is_read(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    assert ImportedFiles().read(5) == []


def test_the_supervisor_and_the_hooks_mean_the_same_variable():
    assert IMPORTED_BELOW == VARIABLE
