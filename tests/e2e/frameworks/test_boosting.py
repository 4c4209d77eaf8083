"""People's own XGBoost and LightGBM scripts: what they counted is what is reported."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from dlmon.records import Batches, Metrics, Model, Notice


@pytest.mark.parametrize("package", ["xgboost", "lightgbm"])
def test_each_round_is_a_step_in_every_way_to_train(run_with, package):
    ran = run_with(package, "boosting.py", package)
    assert ran.alone.returncode == 0
    assert (ran.watched.stdout, ran.watched.stderr) == (ran.alone.stdout, ran.alone.stderr)
    process = ran.process
    assert process.trainer.framework == package
    assert process.of(Notice) == []
    rounds = Counter()
    for batches in process.of(Batches):
        rounds[batches.epoch] += len(batches.dt_us)
    counted = json.loads(ran.watched.stdout.splitlines()[-1])
    assert [rounds[loop] for loop in range(len(counted))] == counted
    models = process.of(Model)
    assert [model.steps for model in models] == [7, 6, 5, 3, 3, 50]
    assert {(model.has_epochs, model.device) for model in models} == {(False, "cpu")}
    assert process.of(Metrics)
    assert process.phases[-2:] == ["outside training", "closing"]
