"""Like runs, and runs of one script: what they have in common, and what may differ."""

from dataclasses import replace

import pytest
from fakes.compared import THIS, header_of, recorded
from fakes.scripts import script_header

from dlmon.comparison.compared_run import lower_is_better, options_with_effect
from dlmon.comparison.same_script import is_same_work
from dlmon.records import Result

OPTIONS = {"batch_size": 100, "threads": 2}
VERSIONS = {"keras": "3.12"}
COMMAND = ("python", "train.py")


def settings(**changes):
    return replace(THIS, **{"options": OPTIONS, "versions": VERSIONS, **changes}).settings


@pytest.mark.parametrize(
    "change",
    [
        {"host": "another"},
        {"workload": "mnist-mlp"},
        {"command": COMMAND},
        {"device": "gpu:0"},
        {"options": {**OPTIONS, "backend": "jax"}},
        {"versions": {"keras": "4"}},
    ],
)
def test_runs_that_differ_in_what_may_matter_are_not_alike(change):
    assert settings(**change) != settings()
    assert settings(**change) == settings(**change)


def test_what_changes_nothing_of_a_run_may_differ_and_what_was_given_is_in_order():
    given = {"threads": 2, "name": "mine", "jit": None, "log_dir": "/x", "note": "mine"}
    given["batch_size"] = 100
    assert list(options_with_effect(given).items()) == [("batch_size", 100), ("threads", 2)]
    assert settings(options=given | {"price": "3.6"}) == settings()


def test_scripts_are_alike_only_where_their_epochs_are_as_long():
    """What an environment variable or a file of settings made of them is not in the command."""
    script = settings(command=COMMAND, samples=6_000)
    assert settings(command=COMMAND, samples=12_000) != script != settings(command=COMMAND)
    assert settings(command=COMMAND, samples=6_000) == script
    # Of a workload the options say it.
    assert settings(samples=6_000) == settings()


def test_what_was_not_asked_for_is_what_the_result_says_of_it():
    options = {"batch_size": 64, "epochs": 3, "mode": "inference"}
    result = Result("completed", "a", "", "alexnet", "cpu", options, 9.0)
    run = recorded(result, header_of(result, options={"batch_size": None, "epochs": 2}))
    assert (run.batch_size, run.epochs, run.mode) == (64, 3, "inference")


LESS_IS_BETTER = {
    True: "loss dense_1_loss mean_absolute_error binary_crossentropy customloss accuracy_loss "
    "map_error normal_loss",
    False: "accuracy sparse_categorical_accuracy F1 weighted_accuracy",
    None: "learning_rate grad_norm neg_mean_squared_error neg_log_loss Negative_Loss loss_scale "
    "loss_weight grad_loss_norm",
}


@pytest.mark.parametrize(
    ("name", "lower"), [(name, key) for key, of in LESS_IS_BETTER.items() for name in of.split()]
)
def test_whether_less_is_better_is_known_by_a_name_or_not_at_all(name, lower):
    assert lower_is_better(name) is lower


# ---- which runs are of the same script ----

HEADER = replace(
    script_header(),
    script_path="/home/ada/work/train.py",
    git_repository="github.com/ada/nets",
    git_path="train.py",
    git_commit="c" * 40,
)
OUTSIDE = {"git_repository": None, "git_path": None, "git_commit": None}
ELSEWHERE = {"script_path": "/srv/nets/train.py"}
OLDER = {"script_path": None, **OUTSIDE}


@pytest.mark.parametrize(
    ("changes", "same"),
    [
        # The same path, whatever became of its repository.
        (OUTSIDE, True),
        ({"git_commit": "d" * 40, "git_repository": "gitlab.com/ada/nets"}, True),
        # Another path is another script.
        (ELSEWHERE | OUTSIDE, False),
        (ELSEWHERE | {"git_repository": "github.com/eve/nets", "git_commit": "d" * 40}, False),
        (ELSEWHERE | {"git_path": "old/train.py"}, False),
        # Not in a copy of the repository, as cp -r makes one that was cloned from nowhere.
        (ELSEWHERE | {"git_commit": "d" * 40}, True),
        (ELSEWHERE | {"git_repository": "/srv/nets/.git"}, True),
        # An older log has the path that its command names.
        (OLDER, True),
        (OLDER | {"directory": "/home/ada", "command": ("python", "work/train.py")}, True),
        (OLDER | {"directory": "/home/ada/other"}, False),
    ],
)
def test_a_script_is_known_by_its_path_or_by_that_within_its_repository(changes, same):
    assert is_same_work(replace(HEADER, **changes), HEADER) is same


CODE = {"workload": "python", "command": ("python", "-c", "fit()", "--lr", "1")}
MODULE = {"workload": "nets.train", "command": ("python", "-m", "nets.train")}


@pytest.mark.parametrize(
    ("ours", "changes", "same"),
    [
        # Code on the command line is the script.
        (CODE, {"command": ("python", "-c", "fit()", "--lr", "2")}, True),
        (CODE, {"command": ("python", "-c", "evaluate()")}, False),
        (CODE, {"command": ("python3", "-c", "fit()")}, False),
        (CODE, {"directory": "/srv"}, False),
        # A module whose file is not known is told by the directory that it ran in.
        (MODULE, {"command": (*MODULE["command"], "--lr", "1")}, True),
        (MODULE, {"directory": "/srv"}, False),
    ],
)
def test_code_or_a_module_without_a_file_is_known_by_its_command_and_directory(ours, changes, same):
    header = replace(HEADER, **OLDER, **ours)
    assert is_same_work(header, replace(header, **changes)) is same


def test_a_script_with_an_injection_is_not_the_script_as_it_is():
    set_by_dlmon = replace(HEADER, injected={"num_workers": 4})
    assert not is_same_work(set_by_dlmon, HEADER)
    assert not is_same_work(HEADER, set_by_dlmon)
    assert not is_same_work(set_by_dlmon, replace(HEADER, injected={"num_workers": 2}))
    assert is_same_work(set_by_dlmon, replace(HEADER, injected={"num_workers": 4}))
