"""How long a loop is to be, read from a command line, argparse and a progress bar."""

import sys
import types

import pytest

from dlmon.instrument.asked_length import EPOCHS, STEPS, bar_total, length_of


@pytest.mark.parametrize(
    ("line", "number", "said_by"),
    [
        ("--epochs 8", 8, "the script's --epochs"),
        ("--lr 0.1 --num-epochs=8 data", 8, "the script's --num-epochs"),
        ("--max_epochs 8", 8, "the script's --max_epochs"),
        ("--num_train_epochs 3.0", 3, "the script's --num_train_epochs"),
        ("trainer.max_epochs=8", 8, "the script's trainer.max_epochs"),
        ("--epochs 90 --start-epoch 30", 60, "the script's --epochs"),
        ("--epochs 8 --resume", 8, "the script's --epochs"),
    ],
)
def test_the_epochs_stand_in_the_command_line(line, number, said_by):
    assert length_of(EPOCHS, line.split()) == (number, said_by)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "--epochs",
        "--epochs --lr 1",
        "--epochs many",
        "--epochs 0",
        "--epochs 1.5",
        "--warmup-epochs 5",
        "--save-epochs 5",
        "--epoch 5",
        "--epochs 8 --num-epochs 9",
        # Where it goes on from is not known.
        "--epochs 8 --resume last.pt",
        "--epochs 8 --start-epoch 8",
    ],
)
def test_what_may_mean_something_else_is_not_taken(line):
    assert length_of(EPOCHS, line.split()) is None


def test_a_default_is_known_to_argparse_alone():
    parsed = {"epochs": 14, "lr": 1.0, "resume": ""}
    assert length_of(EPOCHS, [], parsed) == (14, "the script's default of epochs")
    assert length_of(EPOCHS, ["--epochs", "3"], {"epochs": 3}) == (3, "the script's --epochs")
    assert length_of(EPOCHS, [], {"epochs": 14, "resume": "last.pt"}) is None
    assert length_of(EPOCHS, [], {"epochs": True}) is None


@pytest.mark.parametrize(
    ("line", "number"),
    [
        ("--max-iters 200", 200),
        ("--max_iters=200 --init_from=resume", None),
        ("--max-steps 200", 200),
        ("--num-iterations 200", 200),
        # Of a rollout, or of one epoch.
        ("--num-steps 128", None),
        ("--steps-per-epoch 100", None),
    ],
)
def test_so_do_steps(line, number):
    found = length_of(STEPS, line.split())
    assert (found and found.number) == number


class Bar:
    def __init__(self, total, n, start_t, initial=0):
        self.total, self.n, self.start_t, self.initial = total, n, start_t, initial


@pytest.fixture
def bars(monkeypatch):
    def show(*shown):
        kind = types.SimpleNamespace(_instances=set(shown))
        monkeypatch.setitem(sys.modules, "tqdm.std", types.SimpleNamespace(tqdm=kind))

    return show


def test_a_bar_that_has_come_as_far_as_the_epochs_counts_them(bars):
    of_epochs, of_batches = Bar(8, 2, 100.0), Bar(8_000, 1, 130.0)
    bars(of_epochs, of_batches)
    assert bar_total(2, 110.0) == 8


def test_the_bar_of_a_resumed_run_counts_those_before_too(bars):
    bars(Bar(8, 5, 100.0, initial=4))
    assert bar_total(1, 110.0) == 4


@pytest.mark.parametrize(
    "bar",
    [
        Bar(8_000, 1, 130.0),
        Bar(8_000, 500, 100.0),
        Bar(None, 1, 100.0),
        Bar(1, 1, 100.0),
        object(),
    ],
)
def test_a_bar_of_something_else_counts_no_epochs(bars, bar):
    bars(bar)
    assert bar_total(1, 110.0) is None
