"""The callback in Keras's own `fit` and `evaluate`, in a process of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest

from dlmon.records import Batches, Epoch, Evaluation, Phase, decode
from dlmon.statistics.steady_state import SteadyState

SAMPLES, BATCH_SIZE, EPOCHS = 800, 10, 4
STEPS = SAMPLES // BATCH_SIZE
FIT = f"""
import os, sys
os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import keras, numpy
from dlmon.instrument.emitter import Emitter
from dlmon.instrument.fit_report import Known
from dlmon.instrument.reporter import Reporter
from workloads.callbacks import reporting_callback
from workloads.data.dataset import Feed

x, y = numpy.zeros(({SAMPLES}, 4), "float32"), numpy.zeros(({SAMPLES},), "uint8")
for per_execution in sys.argv[2:]:
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, activation="softmax")])
    model.compile(loss="sparse_categorical_crossentropy", steps_per_execution=int(per_execution))
    reporter = Reporter(None)
    reporter.attach(Emitter(os.open(sys.argv[1] + per_execution, os.O_WRONLY | os.O_CREAT)))
    feed = Feed(x, y, {BATCH_SIZE}, {SAMPLES})
    callback = reporting_callback(reporter, Known(feed.data, evaluation=feed.data))
    model.fit(x, y, batch_size={BATCH_SIZE}, epochs={EPOCHS}, verbose=0, callbacks=[callback])
    model.evaluate(x, y, batch_size={BATCH_SIZE}, verbose=0, callbacks=[callback])
    reporter.close()
"""


# Keras is started once for both tests.
pytestmark = pytest.mark.xdist_group("callback")


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """The records of four epochs and an evaluation, by how many steps an execution had."""
    path = tmp_path_factory.mktemp("fit") / "records-"
    command = [sys.executable, "-c", FIT, str(path), "1", "8"]
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL, timeout=120)
    files = {steps: path.with_name(f"records-{steps}") for steps in (1, 8)}
    return {n: [decode(line) for line in f.read_bytes().splitlines()] for n, f in files.items()}


def of(records, kind):
    return [record for record in records if isinstance(record, kind)]


def test_keras_opens_each_later_epoch_before_its_first_batch(fitted):
    records = fitted[1]
    firsts = [record for record in of(records, Batches) if record.first == 0]
    assert [record.opening_us is None for record in firsts] == [True, False, False, False]
    for epoch in of(records, Epoch):
        reported = [record for record in of(records, Batches) if record.epoch == epoch.epoch]
        opening_us = reported[0].opening_us or 0
        took_us = opening_us + sum(sum(record.dt_us) for record in reported)
        assert took_us == epoch.train_end // 1000 - epoch.begin // 1000
        assert epoch.epoch == 0 or opening_us > 0
    # What lies between `fit` and `evaluate`, and behind that, is neither.
    closed = [phase.t for phase in of(records, Phase) if phase.name == "closing"]
    (evaluation,) = of(records, Evaluation)
    last = of(records, Epoch)[-1]
    assert last.end <= closed[-2] < evaluation.begin < evaluation.end <= closed[-1]


def test_compile_time_is_that_of_the_whole_first_execution(fitted):
    steps_per_execution, records = 8, fitted[8]
    state, dt_us = SteadyState(), []
    for record in of(records, Batches):
        state.add(
            record.samples,
            record.dt_us,
            opening_us=record.opening_us,
            per_execution=record.per_execution,
        )
        dt_us += record.dt_us
    assert len(dt_us) == EPOCHS * STEPS
    first_us = sum(dt_us[:steps_per_execution])
    usual_us = sorted(dt_us)[len(dt_us) // 2]
    # An eighth of it was reported, when each step of the first execution counted for itself.
    assert first_us > 20 * steps_per_execution * usual_us
    assert state.compile_us() == pytest.approx(first_us, rel=0.2)
    training = next(phase for phase in of(records, Phase) if phase.name == "training")
    assert training.t == of(records, Batches)[0].t + (first_us - dt_us[0]) * 1000
