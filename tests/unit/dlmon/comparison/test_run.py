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
