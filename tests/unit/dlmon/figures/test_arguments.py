import pytest

from dlmon.figures.comparison import other_arguments

OURS = ("python3", "/home/ada/experiments/train.py", "--sleep", "0.05", "--epochs", "5")


def differences(*theirs, ours=OURS):
    return other_arguments((*OURS[:2], *theirs), ours, "train.py")


@pytest.mark.parametrize(
    ("theirs", "texts"),
    [
        (("--sleep", "0.05", "--epochs", "5"), ()),
        (("--sleep", "0.005", "--epochs", "5"), ("--sleep 0.005",)),
        (("--sleep", "0.05"), ("without --epochs",)),
        (("--sleep", "0.05", "--epochs", "5", "--amp"), ("--amp",)),
        (("--sleep", "0.05", "--epochs", "5", "b.csv"), ("b.csv",)),
        (("--sleep", "0.05", "--epochs", "5", "lr=0.1"), ("lr=0.1",)),
        (("--sleep", "0.05", "--epochs", "5", "--api-key", "xyz"), ("--api-key (another)",)),
        (
            ("--sleep", "1", "--epochs", "2", "a", "b"),
            ("--sleep 1", "--epochs 2", "a", "1 more differs"),
        ),
    ],
)
def test_what_an_earlier_run_was_given_otherwise(theirs, texts):
    assert differences(*theirs) == texts


def test_what_only_this_run_was_given_is_named_as_missing_there():
    more = (*OURS[:2], "data.csv", "--amp")
    assert other_arguments(OURS[:2], more, "train.py") == ("without --amp", "without data.csv")


def test_foreign_and_long_values_are_cleaned_and_cut():
    (text,) = differences("--sleep", "0.05", "--epochs", "\x1b[31m" + "5" * 100)
    assert text == f"--epochs {'5' * 19}…"


def test_a_workload_has_no_arguments():
    assert other_arguments(None, None, "cifar10-cnn") == ()
