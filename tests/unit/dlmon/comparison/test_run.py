"""Like runs: what they have in common, and what of two runs may differ all the same."""

from dataclasses import replace

import pytest
from fakes.compared import THIS, header_of, recorded

from dlmon.comparison.run import lower_is_better, options_with_effect
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


@pytest.mark.parametrize(
    "more", [{"log_dir": "/x"}, {"note": "mine"}, {"price": "3.6"}, {"jit": None}]
)
def test_what_changes_nothing_of_a_run_may_differ(more):
    assert settings(options={**more, **OPTIONS}) == settings()


def test_scripts_are_alike_only_where_their_epochs_are_as_long():
    """What an environment variable or a file of settings made of them is not in the command."""
    script = settings(command=COMMAND, samples=6_000)
    assert settings(command=COMMAND, samples=12_000) != script != settings(command=COMMAND)
    assert settings(command=COMMAND, samples=6_000) == script
    # Of a workload the options say it.
    assert settings(samples=6_000) == settings()


def test_options_are_those_that_were_given_in_the_order_of_their_names():
    given = {"threads": 2, "name": "mine", "jit": None, "batch_size": 100}
    assert list(options_with_effect(given).items()) == [("batch_size", 100), ("threads", 2)]


def test_what_was_not_asked_for_is_what_the_result_says_of_it():
    options = {"batch_size": 64, "epochs": 3, "mode": "inference"}
    result = Result("completed", "a", "", "alexnet", "cpu", options, 9.0)
    run = recorded(result, header_of(result, options={"batch_size": None, "epochs": 2}))
    assert (run.batch_size, run.epochs, run.mode) == (64, 3, "inference")


@pytest.mark.parametrize(
    ("name", "lower"),
    [
        ("loss", True),
        ("dense_1_loss", True),
        ("mean_absolute_error", True),
        ("binary_crossentropy", True),
        ("customloss", True),
        ("accuracy", False),
        ("sparse_categorical_accuracy", False),
        ("F1", False),
        ("learning_rate", None),
        ("grad_norm", None),
        ("accuracy_loss", True),
        ("map_error", True),
        ("neg_mean_squared_error", None),
        ("neg_log_loss", None),
        ("Negative_Loss", None),
        ("loss_scale", None),
        ("loss_weight", None),
        ("grad_loss_norm", None),
        ("normal_loss", True),
        ("weighted_accuracy", False),
    ],
)
def test_whether_less_is_better_is_known_by_a_name_or_not_at_all(name, lower):
    assert lower_is_better(name) is lower
