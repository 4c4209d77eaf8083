"""Real scripts that save, compile and collect garbage: what is recorded is when they did."""

import json

import pytest

from dlmon.records import Metrics, NamedPause, Notice


def pauses_of(ran, kind):
    """Return the pauses of a kind, each within the time in which the script saw it."""
    assert ran.watched.returncode == 0, ran.watched.stderr
    assert ran.process.of(Notice) == []
    seen = json.loads(ran.watched.stderr.splitlines()[-1])
    name = "checkpoint" if kind == "beside" else kind
    recorded = [one for one in ran.process.of(NamedPause) if one.name == name]
    recorded = [one for one in recorded if bool(one.beside) == (kind == "beside")]
    if kind == "garbage":
        # torch.compile collects garbage, too, which takes long on a busy machine.
        compiles = seen["compile"]
        recorded = [r for r in recorded if not any(a <= r.t and r.end <= b for a, b in compiles)]
    within = [
        [one for one in recorded if begin <= one.t and one.end <= end] for begin, end in seen[kind]
    ]
    assert all(sum(one.seconds for one in each) >= 0.2 for each in within), (seen, recorded)
    assert sum(map(len, within)) == len(recorded), (seen, recorded)
    return within


def read_of(process, name):
    return [record.values[name] for record in process.of(Metrics) if name in record.values]


def test_pytorch(run):
    ran = run("pauses.py", "pytorch", alone=False)
    saved = pauses_of(ran, "checkpoint")
    assert [len(each) for each in saved] == [1, 1, 1, 1]
    assert all(one.written_bytes > 500 and one.folder for each in saved for one in each)
    [[beside]] = pauses_of(ran, "beside")
    assert beside.beside
    assert len(pauses_of(ran, "garbage")) == 2
    first, clipping, again = pauses_of(ran, "compile")
    assert not any(one.graph_breaks for one in clipping)
    assert not any(one.reason for one in first)
    assert any("size mismatch" in (one.reason or "") for one in again)
    assert [sum(one.graph_breaks or 0 for one in each) for each in (first, again)] == [1, 1]
    assert read_of(ran.process, "learning_rate")[0] == 0.05
    assert read_of(ran.process, "grad_norm")[0] > 0


def test_lightning(run):
    ran = run("pauses.py", "lightning", alone=False)
    assert [len(each) for each in pauses_of(ran, "checkpoint")] == [1, 1]
    assert read_of(ran.process, "learning_rate")[0] == 0.05
    assert read_of(ran.process, "grad_norm")[0] > 0
    named = {name for epoch in ran.process.epochs for name in epoch.metrics}
    assert not any(name.startswith("lr-") for name in named)


def test_transformers(run):
    ran = run("pauses.py", "transformers", alone=False)
    saved = pauses_of(ran, "checkpoint")
    assert [len(each) for each in saved] == [1, 1]
    assert all(one.written_bytes > 100 and one.folder for each in saved for one in each)


def test_keras(tensorflow, tmp_path):
    ran = tensorflow.run("pauses.py", "keras", directory=tmp_path, alone=False)
    saved = pauses_of(ran, "checkpoint")
    assert [len(each) for each in saved] == [1, 1, 1]
    assert all(one.written_bytes > 1000 for each in saved for one in each)
    assert read_of(ran.process, "learning_rate")[0] == pytest.approx(0.05)
