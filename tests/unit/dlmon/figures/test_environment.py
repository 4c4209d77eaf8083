"""What a report says of the environment of a session: what is known, and why the rest is not."""

from __future__ import annotations

from dataclasses import replace

from fakes.recorded import recorded_session

from dlmon.figures.report.session_report import environment_rows
from dlmon.records import Model, Trainer

HEADER = recorded_session()[0]
SCRIPT = replace(HEADER, command=("python", "fit.py"), versions={"python": "3.11.7"})


def rows(header=HEADER, model=None, trainers=()):
    return environment_rows(header, model, trainers)


def with_versions(why=None, **versions):
    return replace(HEADER, versions={**HEADER.versions, **versions}, why=why or {})


def with_machine(**facts):
    return replace(HEADER, machine=replace(HEADER.machine, **facts))


def test_a_workload_has_its_versions_and_its_backend_in_one_row_or_why_they_are_not_known():
    found = dict(rows(with_versions(keras="3.15.1", backend="jax", backend_version="0.9.1")))
    assert (found["keras"], found["backend"]) == ("3.15.1", "jax 0.9.1")
    assert "backend_version" not in found
    why = {
        "versions.keras": "no package in this Python gives the version of keras",
        "versions.backend_version": "no package in this Python gives the version of jax",
    }
    found = dict(rows(with_versions(why, keras=None, backend="jax", backend_version=None)))
    assert found["keras"] == f"– ({why['versions.keras']})"
    assert found["backend"] == f"jax – ({why['versions.backend_version']})"
    # The load and the governor are those at the start.
    found = dict(rows(with_machine(load_1m=1.234, governor="performance")))
    assert (found["load at the start"], found["governor"]) == ("1.23", "performance")


def test_a_script_has_the_hash_of_its_file_and_the_commit_or_why_not():
    known = replace(SCRIPT, script_sha256="a" * 64, git_commit="b" * 40)
    found = dict(rows(known))
    assert found["SHA-256 of the script"] == "a" * 12
    assert found["git commit"] == "b" * 12
    found = dict(rows(replace(SCRIPT, why={"git_commit": "nothing was committed yet"})))
    assert found["git commit"] == "– (nothing was committed yet)"
    assert "SHA-256 of the script" not in found


def test_a_script_names_what_counted_its_batches_and_what_that_ran_on():
    model = Model(0, 1, None, None, None, None, backend="torch", backend_version="2.9.0")
    trainer = Trainer(0, 0, 1, "tf_keras", "2.20.1", "3.11.7", backend="tensorflow")
    found = rows(SCRIPT, model, [trainer])
    assert ("framework", "tf-keras 2.20.1") in found
    assert ("backend", "PyTorch 2.9.0") in found
    without_model = rows(SCRIPT, None, [trainer])
    assert ("backend", "TensorFlow") in without_model
    # One that reports its own batches names none.
    assert "framework" not in dict(rows(SCRIPT, None, [Trainer(0, 0, 1, "dlmon", "0.1.0")]))


def test_many_processes_of_one_kind_are_said_once_and_another_python_beside_them():
    trainers = [Trainer(0, number, number, "torch", "2.9.0", "3.11.7") for number in range(8)]
    trainers.append(Trainer(0, 8, 8, "torch", "2.9.0", "3.12.1"))
    found = rows(SCRIPT, None, trainers)
    assert found.count(("framework", "PyTorch 2.9.0")) == 1
    assert [text for name, text in found if name == "python of the script"] == ["3.12.1"]
