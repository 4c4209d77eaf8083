"""Which word of a command is its script, and what the command is called."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlmon.script_name import named_script, program_name, script_name


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("python train.py --config small.py", "train.py"),
        ("python -u src/train.py", "train.py"),
        ("python -m pkg.train --config small.py", "pkg.train"),
        ("python -m torch_models.fit", "torch_models.fit"),
        ("python -m torch.distributed.run --nproc-per-node 2 train.py", "train.py"),
        ("python -m accelerate.commands.launch train.py", "train.py"),
        ("torchrun train.py", "train.py"),
        ("bash run.sh -m x", "run.sh"),
        ("papermill nb.ipynb out.ipynb", "nb.ipynb"),
        ("./train -m ./", "train"),
        ("./train -m ../..", "train"),
        ("python -c pass", "python"),
        ("python -m", "python"),
        ("/", "/"),
    ],
)
def test_a_command_is_called_by_its_script(command, name):
    assert script_name(tuple(command.split())) == name


@given(st.lists(st.text(max_size=5) | st.sampled_from(["-m", ".py", "a.b", "/"]), min_size=1))
def test_every_command_has_a_name_which_is_that_of_one_of_its_words(words):
    named = named_script(tuple(words))
    assert named is None or named.word in words
    assert any(script_name(tuple(words)) in word for word in words)


def test_a_program_is_called_what_a_person_calls_it():
    names = {
        "/usr/bin/python3.12 -X dev -u /srv/train.py --x": "train.py",
        "python -m pytest tests": "pytest",
        "python -P -m workloads": "dlmon run",
        "python -c code": "python",
        "bash /opt/job.sh": "job.sh",
        "/opt/blender/blender -b x": "blender",
        "[kworker/0:1]": "[kworker/0:1]",
        "": None,
        None: None,
    }
    assert {command: program_name(command) for command in names} == names
