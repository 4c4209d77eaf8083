"""A report is written whole or not at all, and never through a link."""

import os

import pytest

from dlmon.render.files import ReportError, make_folder, write_file


def test_a_file_is_written_and_written_again(tmp_path):
    path = tmp_path / "run.html"
    write_file(path, ["one", b" two"])
    assert path.read_text() == "one two"
    write_file(path, ["three"])
    assert path.read_text() == "three"
    assert list(tmp_path.iterdir()) == [path]


def test_a_report_that_breaks_off_leaves_what_was_there(tmp_path):
    path = tmp_path / "run.html"
    path.write_text("before")

    def parts():
        yield "half"
        raise RuntimeError

    with pytest.raises(RuntimeError):
        write_file(path, parts())
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("target", ["there", "nowhere"])
def test_a_link_is_left_alone(tmp_path, target):
    (tmp_path / "there").write_text("before")
    link = tmp_path / "run.html"
    link.symlink_to(tmp_path / target)
    with pytest.raises(ReportError, match=r"run.html is a link"):
        write_file(link, ["report"])
    assert (tmp_path / "there").read_text() == "before"
    assert not (tmp_path / "nowhere").exists()
    assert link.is_symlink()


def test_what_is_no_file_is_left_alone(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for name, says in (("pipe", "is no regular file"), ("", "is a folder")):
        with pytest.raises(ReportError, match=says):
            write_file(tmp_path / name, ["report"])


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ReportError, match="there is no folder"):
        write_file(tmp_path / "gone" / "run.html", ["report"])
    (tmp_path / "file").write_text("")
    with pytest.raises(ReportError):
        write_file(tmp_path / "file" / "run.html", ["report"])
    with pytest.raises(ReportError, match="can't be made"):
        make_folder(tmp_path / "file")


@pytest.mark.parametrize("name", ["x" * 300, "a\0b"])
def test_a_name_that_no_file_can_have_is_refused(tmp_path, name):
    with pytest.raises(ReportError, match="can't be written"):
        write_file(tmp_path / name, ["report"])
