"""Why no training was seen: what was imported, and what was not done with it."""

import pytest

from dlmon.instrument.reporter import Reporter
from dlmon.supervisor.sightings import sightings, what_was_missing


@pytest.mark.parametrize(
    ("seen", "why"),
    [
        (
            (),
            "no framework that dlmon watches was imported; a loop reports itself with import dlmon",
        ),
        (
            ("torch", "torch loader"),
            "PyTorch was imported; no optimizer stepped and backward() was not called",
        ),
        (
            ("torch", "torch backward"),
            "PyTorch was imported; backward() was called, but no optimizer stepped and no "
            "DataLoader was read",
        ),
        (
            ("transformers", "accelerate", "torch"),
            "Accelerate, Transformers and PyTorch were imported; no optimizer stepped and "
            "backward() was not called",
        ),
        (
            ("tensorflow", "keras"),
            "Keras and TensorFlow were imported; fit was not called and no optimizer applied "
            "gradients; a loop reports itself with import dlmon",
        ),
        (
            ("keras", "keras loop in a graph"),
            "Keras was imported; a loop within a tf.function, which can't be seen, applied "
            "gradients; a loop reports itself with import dlmon",
        ),
        (
            ("keras", "keras replicas"),
            "Keras was imported; gradients were applied on several devices at once, which is not "
            "counted; a loop reports itself with import dlmon",
        ),
        (
            ("jax",),
            "JAX was imported; the steps of JAX run in compiled code, where they can't be seen; a "
            "loop reports itself with import dlmon",
        ),
        (
            ("tensorflow",),
            "TensorFlow was imported; Keras was not; a loop reports itself with import dlmon",
        ),
        (
            ("xgboost", "lightgbm"),
            "XGBoost and LightGBM were imported; train of XGBoost was not called, train of "
            "LightGBM was not called",
        ),
    ],
)
def test_what_was_imported_is_named_and_what_was_missing(seen, why):
    assert what_was_missing(seen) == why


def test_a_process_leaves_a_word_once_beside_the_socket(tmp_path):
    reporter = Reporter(str(tmp_path / "socket"))
    reporter.saw("torch")
    (tmp_path / "seen torch").unlink()
    reporter.saw("torch")
    reporter.saw("torch backward")
    assert sightings(tmp_path) == {"torch backward"}


def test_where_no_monitor_listens_nothing_is_left(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Reporter(None).saw("torch")
    Reporter(str(tmp_path / "gone" / "socket")).saw("torch")
    assert list(tmp_path.iterdir()) == []
