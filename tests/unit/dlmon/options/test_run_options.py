"""The options of `run`: what is refused, the command they amount to, the job they become."""

import os
import shlex
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from fakes.recorded import recorded_session
from hypothesis import given
from hypothesis import strategies as st

from dlmon.cli import shared
from dlmon.cli.command_line import command_line, run_command
from dlmon.cli.shared import UserError
from dlmon.log.folder import log_directory
from dlmon.log.label import refuse_name
from dlmon.options import checks, jobs
from dlmon.options.checks import NO_KERAS
from dlmon.options.jobs import make_job, recorded_options
from dlmon.options.option import UnreadableOption
from dlmon.options.run_options import OPTIONS, RunOptions, differing, in_words
from dlmon.options.settings import Settings, SettingsError, read_settings
from workloads.catalog import WORKLOADS

CIFAR = WORKLOADS["cifar10-cnn"]
WRONG = {
    "device": ("gpu:x", 'there is no device "gpu:x"'),
    "batch_size": (0, "the batch size must be from 1 to 50,000"),
    "epochs": (-1, "the number of epochs must be from 1 to 1,000,000,000, not -1"),
    "steps": (0, "the number of steps must be from 1 to 1,000,000,000, not 0"),
    "seconds": (-0.5, "the minimum time must be from 0 to 86,400 seconds, not -0.5"),
    "threads": (5000, "the number of threads must be from 1 to 4,096, not 5,000"),
    "cpus": (100_000, "the number of CPUs must be from 1 to "),
    "data": ("imaginary", 'there is no data "imaginary": use auto, synthetic or real'),
    "mode": ("test", 'there is no mode "test": use train, gradients or inference'),
    "precision": (
        "fp8",
        'there is no precision "fp8": use float32, mixed_float16 or mixed_bfloat16',
    ),
    "jit": ("yes", 'there is no jit "yes": use auto, on or off'),
    "backend": ("theano", 'there is no backend "theano": use tensorflow, jax or torch'),
    "python": ("/no/python", "/no/python can't be run; name a Python interpreter"),
    "interval": (float("nan"), "the interval must be from 0.1 to 3,600 seconds, not nan"),
    "price": ("free", '"free" is not a price: give US dollars per hour, such as 0.5'),
    "to": ("here", 'there is no tracker "here": use wandb, mlflow:URI'),
    "host": ("-x", '"-x" is not a host'),
    "name": ("a,b", '"a,b" can\'t be a name: it has 1 to 60 visible characters'),
    "alert": ("not an address", "an alert needs an address such as https://ntfy.sh/my-topic"),
    "log_dir": (__file__, f"the log directory can't be there: {__file__} is not a directory"),
}
POSITIVE = st.none() | st.integers(1, 4096)
CHARACTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
NAMES = st.text(CHARACTERS, max_size=12).map(str.strip).filter(bool)
# What even the workload with the fewest samples has.
SMALLEST = min(workload.samples for workload in WORKLOADS.values())
OPTIONS = st.builds(
    RunOptions,
    device=st.sampled_from(["auto", "cpu", "gpu", "gpu:0", "gpu:12"]),
    batch_size=st.none() | st.integers(1, SMALLEST),
    epochs=POSITIVE,
    steps=POSITIVE,
    seconds=st.none() | st.floats(0, 86_400),
    threads=POSITIVE,
    cpus=st.none() | st.integers(1, len(os.sched_getaffinity(0))),
    **{
        name: st.sampled_from(OPTIONS[name].choices)
        for name in ("data", "mode", "precision", "jit", "backend")
    },
    python=st.none() | st.just(sys.executable),
    interval=st.floats(0.1, 3600),
    pcie=st.booleans(),
    price=st.none() | st.sampled_from(["0.5", "0.00795/cpu"]),
    to=st.none() | st.sampled_from(["wandb", "mlflow:http://lab:5000"]),
    detach=st.booleans(),
    name=st.none() | NAMES.filter(lambda name: refuse_name(name) is None),
    alert=st.none() | st.sampled_from(["off", "https://ntfy.sh/my-topic"]),
    log_dir=st.none() | NAMES,
)


def configured_of(options):
    """Return what of these options a config.toml may hold."""
    return replace(options, detach=False, name=None, alert=None, log_dir=None)


# ---- what is refused ----


def test_the_defaults_can_be_run():
    assert all(RunOptions().problem(workload) is None for workload in WORKLOADS.values())


@pytest.mark.parametrize("name", list(WRONG))
def test_a_value_that_can_not_be_is_complained_of_by_the_option(name):
    value, sentence = WRONG[name]
    problems = RunOptions(**{name: value}).problems(CIFAR)
    assert list(problems) == [name]
    assert problems[name].startswith(sentence)


def test_of_several_wrong_options_the_first_is_complained_of():
    # What this machine lacks counts where no other one is named.
    names = [name for name in WRONG if name != "host"]
    wrong = RunOptions(**{name: WRONG[name][0] for name in names})
    assert list(wrong.problems(CIFAR)) == names
    assert wrong.problem(CIFAR) == wrong.problems(CIFAR)["device"]


def test_where_a_process_cannot_be_kept_to_some_cpus_only_asking_for_some_is_refused(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity")
    assert RunOptions().problem(CIFAR) is None
    assert RunOptions(cpus=1).problem(CIFAR).startswith("--cpus needs Linux: ")


def test_what_this_machine_lacks_another_may_have(tmp_path):
    elsewhere = RunOptions(cpus=100_000, python="/no/python")
    assert list(elsewhere.problems(CIFAR)) == ["cpus", "python"]
    assert elsewhere.problem(CIFAR, here=False) is None
    there = RunOptions(host="gpu1", python="/opt/python", cpus=4096, log_dir=__file__)
    assert there.problem(CIFAR) is None
    # Its job names no command and no directory of this one.
    job = make_job(CIFAR, tmp_path, RunOptions(host="gpu1"))
    assert (job.command, job.log_dir) == ((), "")
    assert make_job(CIFAR, tmp_path, RunOptions(host="gpu1", log_dir="~/runs")).log_dir == "~/runs"


@pytest.mark.parametrize("python", ["", "/", __file__, "no-such-python"])
def test_what_is_no_program_is_refused_as_an_interpreter(python):
    assert "can't be run; name a Python interpreter" in RunOptions(python=python).problem(CIFAR)


def test_an_interpreter_is_found_by_its_path_or_by_its_name(tmp_path, monkeypatch):
    program = tmp_path / "bin" / "python9"
    program.parent.mkdir()
    program.write_text("#!/bin/sh")
    program.chmod(0o755)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(program.parent))
    for python in (str(program), "~/bin/python9", "python9"):
        assert RunOptions(python=python).problem(CIFAR) is None


def test_without_keras_here_another_interpreter_is_asked_for(monkeypatch):
    monkeypatch.setattr(checks, "has_keras", lambda: False)
    assert RunOptions().problems(CIFAR) == {"python": NO_KERAS}
    assert RunOptions(python=sys.executable).problem(CIFAR) is None
    # Settings may be shared by machines.
    assert RunOptions().problem(CIFAR, here=False) is None


def test_a_log_directory_may_be_new_but_not_inside_of_a_file_or_unwritable(tmp_path, monkeypatch):
    assert RunOptions(log_dir=str(tmp_path / "new" / "newer")).problem(CIFAR) is None
    monkeypatch.chdir(tmp_path)
    assert make_job(CIFAR, tmp_path, RunOptions(log_dir="mine")).log_dir == str(tmp_path / "mine")
    file = tmp_path / "file"
    file.touch()
    reason = RunOptions(log_dir=str(file / "logs")).problem(CIFAR)
    assert reason == f"the log directory can't be there: {file} is not a directory"
    monkeypatch.setattr("dlmon.options.checks.os.access", lambda path, mode: False)
    reason = RunOptions(log_dir=str(tmp_path)).problem(CIFAR)
    assert reason == f"the log directory can't be there: {tmp_path} is not writable"


@pytest.mark.parametrize("log_dir", ["", " "])
def test_a_log_directory_without_a_name_is_refused(log_dir, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "has no name" in RunOptions(log_dir=log_dir).problem(CIFAR)
    config = tmp_path / "config.toml"
    config.write_text(f'log_dir = "{log_dir}"')
    with pytest.raises(SettingsError, match="has no name"):
        read_settings(config)
    monkeypatch.setenv("DLMON_CONFIG", "")
    for words in (["run", CIFAR.name], ["exec", "true"], ["sessions"], ["attach", "last"]):
        with pytest.raises((UnreadableOption, UserError), match="--log-dir needs a value"):
            run_command([words[0], "--log-dir", log_dir, *words[1:]])
    assert [path.name for path in tmp_path.iterdir()] == ["config.toml"]


# ---- the command line ----


@pytest.mark.parametrize(
    ("options", "configured", "words"),
    [
        ({}, {}, ""),
        (
            {"batch_size": 64, "seconds": 3.0, "python": "~/my bin/python", "detach": True},
            {},
            " --batch-size 64 --seconds 3 --python '~/my bin/python' --detach",
        ),
        # What settings would change is said, and what they hold is undone.
        ({"epochs": 3}, {"device": "cpu", "epochs": 3}, " --device auto --epochs 3"),
        (
            {"threads": 4},
            {"steps": 50, "threads": 4, "price": "0.5"},
            " --steps none --threads 4 --price none",
        ),
    ],
)
def test_the_command_names_what_differs(options, configured, words):
    command = RunOptions(**options).command_line(CIFAR, RunOptions(**configured))
    assert command == f"dlmon run cifar10-cnn{words}"


class Launched(Exception):
    """What the command line made a job of."""


@given(
    workload=st.sampled_from(list(WORKLOADS.values())),
    configured=OPTIONS.map(configured_of),
    options=OPTIONS,
)
def test_the_command_line_reads_the_command_as_the_same_options(workload, configured, options):
    def launch(*job):
        raise Launched(*job)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shared, "read_settings", lambda: Settings(run=configured))
        patch.setattr(jobs, "make_job", launch)
        words = shlex_words(options.command_line(workload, configured))
        context = command_line.make_context("dlmon", words)
        with pytest.raises(Launched) as launched, context:
            command_line.invoke(context)
    directory = log_directory(Path(options.log_dir) if options.log_dir is not None else None)
    if options.host is not None:
        directory = Path()
    assert launched.value.args == (workload, directory, options, Settings().alerts)


def shlex_words(command):
    program, *words = shlex.split(command)
    assert program == "dlmon"
    return words


# ---- the job ----


def test_a_job_fills_in_the_workloads_defaults(tmp_path):
    job = make_job(CIFAR, tmp_path, RunOptions())
    assert (job.workload, job.device, job.interval_s) == ("cifar10-cnn", "auto", 1.0)
    assert [job.options[name] for name in ("batch_size", "epochs", "steps")] == [100, 10, None]
    assert (job.log_dir, job.outlives_viewer) == (str(tmp_path), False)


@given(options=OPTIONS)
def test_the_options_of_a_recorded_job_come_back(options):
    job = make_job(CIFAR, Path("logs"), replace(options, log_dir=None))
    of_launch = (job.device, job.interval_s, job.pcie, job.name, job.outlives_viewer)
    chosen = (options.device, options.interval, options.pcie, options.name, options.detach)
    assert of_launch == chosen
    header = replace(recorded_session()[0], options=job.options)
    expected = replace(
        options,
        batch_size=options.batch_size or CIFAR.batch_size,
        epochs=options.epochs or CIFAR.epochs,
        detach=False,
        name=None,
        alert=None,
        log_dir=None,
    )
    assert recorded_options(header) == expected


@pytest.mark.parametrize("options", [{"epochs": "[/x]"}, {"interval": None}, {"device": 3}])
def test_a_log_that_records_no_options_has_none(options):
    assert recorded_options(replace(recorded_session()[0], options=options)) is None


# ---- in words ----


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("batch_size", 64, "batch 64"),
        ("epochs", 1, "1 epoch"),
        ("steps", None, "all steps"),
        ("cpus", 1000, "1,000 CPUs"),
        ("threads", None, "threads auto"),
        ("jit", "on", "JIT on"),
        ("device", "gpu:0", "gpu:0"),
        ("backend", "jax", "JAX"),
        ("python", None, "the Python of dlmon"),
        ("of_another_version", 3, "of another version 3"),
    ],
)
def test_what_an_option_is_set_to_is_said_in_words(name, value, words):
    assert in_words({name: value}) == words


def test_what_a_log_says_of_options_counts_where_a_run_can_have_it():
    said = {"mode": "inference", "jit": 3, "cpus": 2, "threads": None, "colour": "red"}
    names = ("mode", "jit", "cpus", "threads")
    assert differing(said, {}, names) == {"mode": "inference", "cpus": 2}
