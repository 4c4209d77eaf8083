"""How long a loop is to be, read from a command line, argparse and a progress bar."""

import sys
import types

import pytest

from dlmon.instrument.asked_length import EPOCHS, STEPS, bar_total, length_of


@pytest.mark.parametrize(
    ("kind", "line", "number"),
    [
        (EPOCHS, "--lr 0.1 --num-epochs=8 data", 8),
        (EPOCHS, "--max_epochs 8", 8),
        (EPOCHS, "--num_train_epochs 3.0", 3),
        (EPOCHS, "trainer.max_epochs=8", 8),
        (EPOCHS, "--epochs 90 --start-epoch 30", 60),
        (EPOCHS, "--epochs 8 --resume", 8),
        (STEPS, "--max-iters 200", 200),
        (STEPS, "--max-steps 200", 200),
        (STEPS, "--num-iterations 200", 200),
        # What may mean something else is not taken.
        *((EPOCHS, line, None) for line in ("", "--epochs", "--epochs --lr 1", "--epochs many")),
        *((EPOCHS, line, None) for line in ("--epochs 1e30", "--epochs 1.5", "--epoch 5")),
        *((EPOCHS, line, None) for line in ("--warmup-epochs 5", "--save-epochs 5")),
        (EPOCHS, "--epochs 8 --num-epochs 9", None),
        # Of a rollout, or of one epoch.
        (STEPS, "--num-steps 128", None),
        (STEPS, "--steps-per-epoch 100", None),
        # Where it goes on from is not known.
        (EPOCHS, "--epochs 8 --resume last.pt", None),
        (EPOCHS, "--epochs 8 --start-epoch 8", None),
        (STEPS, "--max_iters=200 --init_from=resume", None),
    ],
)
def test_the_length_stands_in_the_command_line(kind, line, number):
    found = length_of(kind, line.split())
    assert (found and found.number) == number


def test_a_default_is_known_to_argparse_alone():
    parsed = {"epochs": 14, "lr": 1.0, "resume": ""}
    assert length_of(EPOCHS, [], parsed) == (14, "the script's default of epochs")
    assert length_of(EPOCHS, ["--epochs", "3"], {"epochs": 3}) == (3, "the script's --epochs")
    assert length_of(EPOCHS, [], {"epochs": 14, "resume": "last.pt"}) is None
    assert length_of(EPOCHS, [], {"epochs": True}) is None


class Bar:
    def __init__(self, total, n, start_t, initial=0):
        self.total, self.n, self.start_t, self.initial = total, n, start_t, initial


@pytest.mark.parametrize(
    ("bars", "epochs", "total"),
    [
        ([Bar(8, 2, 100.0), Bar(8_000, 1, 130.0)], 2, 8),
        # Of a run that goes on, it counts those before too.
        ([Bar(8, 5, 100.0, initial=4)], 1, 4),
        # Bars of something else.
        ([Bar(8_000, 1, 130.0)], 1, None),
        ([Bar(8_000, 500, 100.0)], 1, None),
        ([Bar(None, 1, 100.0)], 1, None),
        ([Bar(1, 1, 100.0)], 1, None),
        ([object()], 1, None),
    ],
)
def test_a_bar_that_has_come_as_far_as_the_epochs_counts_them(monkeypatch, bars, epochs, total):
    kind = types.SimpleNamespace(_instances=set(bars))
    monkeypatch.setitem(sys.modules, "tqdm.std", types.SimpleNamespace(tqdm=kind))
    assert bar_total(epochs, 110.0) == total
