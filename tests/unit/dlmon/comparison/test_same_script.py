"""Which runs are of the same script."""

from dataclasses import replace

import pytest
from fakes.scripts import script_header

from dlmon.comparison.same_script import is_same_work

HEADER = replace(
    script_header(),
    script_path="/home/ada/work/train.py",
    git_repository="github.com/ada/nets",
    git_path="train.py",
    git_commit="c" * 40,
)
OUTSIDE = {"git_repository": None, "git_path": None, "git_commit": None}


def is_same(**changes):
    return is_same_work(replace(HEADER, **changes), HEADER)


def test_the_same_path_is_the_same_script_whatever_became_of_its_repository():
    assert is_same(**OUTSIDE)
    assert is_same(git_commit="d" * 40, git_repository="gitlab.com/ada/nets")


def test_another_path_is_another_script():
    elsewhere = {"script_path": "/srv/train.py"}
    assert not is_same(**elsewhere, **OUTSIDE)
    unrelated = {"git_repository": "github.com/eve/nets", "git_commit": "d" * 40}
    assert not is_same(**elsewhere, **unrelated)
    assert not is_same(**elsewhere, git_path="old/train.py")


def test_a_copy_of_the_repository_has_the_same_script():
    elsewhere = {"script_path": "/srv/nets/train.py"}
    assert is_same(**elsewhere, git_commit="d" * 40)
    # As cp -r makes one of a repository that was cloned from nowhere.
    assert is_same(**elsewhere, git_repository="/srv/nets/.git")


def test_an_older_log_has_the_path_that_its_command_names():
    older = {"script_path": None, **OUTSIDE}
    assert is_same(**older)
    assert is_same(**older, directory="/home/ada", command=("python", "work/train.py"))
    assert not is_same(**older, directory="/home/ada/other")


@pytest.mark.parametrize(
    ("command", "same"),
    [
        (("python", "-c", "fit()", "--lr", "2"), True),
        (("python", "-c", "evaluate()"), False),
        (("python3", "-c", "fit()"), False),
    ],
)
def test_code_on_the_command_line_is_the_script(command, same):
    def header(words, directory="/home/ada"):
        return replace(
            HEADER,
            **OUTSIDE,
            script_path=None,
            workload="python",
            command=words,
            directory=directory,
        )

    ours = header(("python", "-c", "fit()", "--lr", "1"))
    assert is_same_work(ours, header(command)) is same
    assert not is_same_work(ours, header(ours.command, "/srv"))


def test_a_module_whose_file_is_not_known_is_told_by_the_directory_that_it_ran_in():
    module = {
        "script_path": None,
        "workload": "nets.train",
        "command": ("python", "-m", "nets.train"),
    }
    ours = replace(HEADER, **module)
    assert is_same_work(ours, replace(ours, command=(*ours.command, "--lr", "1")))
    assert not is_same_work(ours, replace(ours, directory="/srv"))
