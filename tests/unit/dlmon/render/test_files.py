"""A report is written whole or not at all, and never through a link."""

import os

import pytest

from dlmon.render.files import ReportError, make_folder, write_file


def test_a_file_is_written_again_and_one_that_breaks_off_leaves_what_was_there(tmp_path):
    path = tmp_path / "run.html"
    write_file(path, ["one", b" two"])
    assert path.read_text() == "one two"
    write_file(path, ["before"])

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


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("pipe", "is no regular file"),
        ("", "is a folder"),
        ("gone/run.html", "there is no folder"),
        ("file/run.html", "run.html"),
        ("x" * 300, "can't be written"),
    ],
)
def test_what_is_no_file_is_refused_with_the_reason(tmp_path, name, says):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").write_text("")
    with pytest.raises(ReportError, match=says):
        write_file(tmp_path / name, ["report"])
    with pytest.raises(ReportError, match="can't be made"):
        make_folder(tmp_path / "file")
