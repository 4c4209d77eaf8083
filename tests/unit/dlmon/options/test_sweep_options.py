"""From the arguments of `sweep` to a plan, and from a combination to the options of a run."""

from __future__ import annotations

import os
import shlex
import sys
from dataclasses import fields, replace

import pytest
from click.testing import CliRunner

from dlmon.cli.command_line import command_line, run_command
from dlmon.cli.shared import UserError
from dlmon.cli.sweep import HELP, sweep
from dlmon.log.label import Label, read_label, write_label
from dlmon.options.run_options import LEAST_TIME_IN_SWEEP_S, OPTIONS, RunOptions
from dlmon.options.script_sweep import make_script_plan
from dlmon.options.sweep_options import (
    ALL,
    VARIED,
    begin_sweep,
    check_plan,
    job_of,
    make_plan,
    refusal,
    run_options,
)
from dlmon.records import Variation
from dlmon.sweep.plan import SweepError
from workloads.catalog import WORKLOADS

SMALL, CNN = "mnist-mlp-small", "cifar10-cnn"


GROUPS = {"lab": ("gpu1", "gpu2"), "none": ()}


def plan(*vary, workload=SMALL, repeats=1, **options):
    return make_plan(workload, RunOptions(**options), vary, repeats, seed=1, groups=GROUPS)


@pytest.mark.parametrize(
    ("text", "key", "values"),
    [
        ("batch_size=32,64", "batch_size", (32, 64)),
        ("batch-size=32", "batch_size", (32,)),
        ("--batch-size=32,64", "batch_size", (32, 64)),
        ("device=cpu,gpu:0", "device", ("cpu", "gpu:0")),
        ("interval=1,0.5,100", "interval", (1.0, 0.5, 100.0)),
        ("host=big,@lab", "host", ("big", "gpu1", "gpu2")),
    ],
)
def test_values_are_read_in_the_order_they_were_given(text, key, values):
    planned = plan(text, "epochs=1,2")
    assert planned.variations == (Variation(key, values), Variation("epochs", (1, 2)))
    assert planned.hosts == (values if key == "host" else (None,))


@pytest.mark.parametrize(
    ("vary", "options", "says"),
    [
        *(([text], {}, "KEY=A,B") for text in ("batch_size", "")),
        *(([text], {}, "did you mean batch_size?") for text in ("batch_siez=1,2", "batch=1,2")),
        (["thread=1"], {}, "did you mean threads?"),
        *(([text], {}, "use device, devices, batch_size") for text in ("=1,2", "colour=red")),
        (["batch_size="], {}, "empty value: write batch_size=A,B"),
        *(([text], {}, "empty value") for text in ("batch_size=32,,64", "batch_size=32, ,64")),
        (["batch_size=32,64,32"], {}, "names 32 twice"),
        (["batch_size=1,2", "batch-size=3"], {}, "names batch_size twice"),
        (["batch_size=256,1,024"], {}, "write no commas within a number"),
        (["batch_size=32, 64"], {}, '" 64": write it without blanks'),
        (["batch_size=032,64"], {}, '"032": write it without blanks and leading zeros'),
        (["batch_size=many"], {}, "must be a whole number"),
        (["\x1b[31mred\x1b[0m=1"], {}, 'no option "red"'),
        # What nobody could run.
        *(([text], {}, "") for text in ("device=tpu", "data=none", "batch_size=0", "interval=0")),
        *(([text], {}, "") for text in ("threads=-1", "cpus=0", "cpus=-2", "cpus=many")),
        (["batch_size=1000000"], {}, "60,000, the samples of mnist-mlp-small"),
        (["threads=1,2"], {"batch_size": 70_000}, "no combination can be run: the batch size"),
        (["threads=1,2"], {"workload": "mnist-mlp-smal"}, f"did you mean {SMALL}?"),
        ([], {}, f"dlmon run {SMALL}"),
        # Other machines.
        (["host=@labb"], {}, 'there is no group "@labb"'),
        (["host=@none"], {}, 'the group "@none" is empty'),
        *(([text], {}, '"gpu1" is named twice') for text in ("host=gpu1,gpu1", "host=@lab,gpu1")),
        *(([text], {}, "has an empty value") for text in ("host=gpu1,,gpu2", "host=")),
        (["host=-oProxyCommand=x,gpu1"], {}, '"-oProxyCommand=x" is not a host'),
        (["host=gpu1:22"], {}, "with a port, write ssh://gpu1:22"),
        (["host=gpu1, gpu2"], {}, "without blanks"),
        (["host=gpu1,a\x1b[31mb"], {}, "is not a host: write NAME"),
        (["batch_size=32,64"], {"host": "@lab"}, "--host names one machine: write --vary host=@"),
    ],
)
def test_what_is_wrong_with_it_is_one_sentence(vary, options, says):
    with pytest.raises(SweepError) as caught:
        plan(*vary, **options)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "\x1b" not in str(caught.value)


def test_an_interpreter_is_found_again_from_another_directory(tmp_path, monkeypatch):
    folder = tmp_path / "venv" / "bin"
    folder.mkdir(parents=True)
    (folder / "python").symlink_to(sys.executable)
    monkeypatch.chdir(tmp_path)
    found = str(folder / "python")
    shared = plan("threads=1,2", python="venv/bin/python")
    assert shared.options["python"] == found
    varied = plan("python=./venv/bin/python,python3")
    assert varied.variations == (Variation("python", (found, "python3")),)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert plan("threads=1,2", python="~/venv/bin/python").options["python"] == found


@pytest.mark.parametrize(
    ("vary", "why"),
    [("cpus=1,3", "must be from 1 to 2"), ("batch_size=32,70000", "must be from 1 to 60,000")],
)
def test_what_the_machine_or_the_workload_lacks_is_a_combination_that_cannot_be(
    monkeypatch, vary, why
):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    planned = plan(vary)
    first, second = [refusal(planned, combination) for combination in planned.combinations]
    assert first is None
    assert why in second


def test_without_keras_here_only_other_interpreters_are_swept(monkeypatch):
    monkeypatch.setattr("dlmon.options.checks.has_keras", lambda: False)
    with pytest.raises(SweepError, match="no combination can be run: Keras is not installed here"):
        plan("threads=1,2")
    planned = plan("threads=1,2", python=sys.executable)
    assert [refusal(planned, combination) for combination in planned.combinations] == [None, None]


@pytest.mark.parametrize("key", ["batch_size", "host"])
def test_an_option_that_is_given_and_varied_is_refused(key, tmp_path):
    flag = OPTIONS[key].flag
    words = ["sweep", "cifar10-cnn", "--vary", f"{key}=1,2", flag, "3", "--log-dir", str(tmp_path)]
    with pytest.raises(UserError, match=f"{flag} and --vary {key}=.*leave out one"):
        run_command(words)
    assert not list(tmp_path.iterdir())


def test_the_help_shows_sweeps_that_can_be_made():
    lines = HELP.replace("\\\n", " ").splitlines()
    commands = [shlex.split(line) for line in lines if line.startswith("  dlmon sweep ")]
    assert len(commands) == 9
    workloads = [words for words in commands if "--" not in words]
    for _, _, workload, *arguments in workloads:
        pairs = list(zip(arguments[::2], arguments[1::2], strict=True))
        vary = [text for flag, text in pairs if flag == "--vary"]
        repeats = next((int(text) for flag, text in pairs if flag == "--repeat"), 1)
        assert make_plan(workload, RunOptions(), vary, repeats, seed=1).order
    for _, _, _, vary, _, *command in (words for words in commands if "--" in words):
        assert make_script_plan(command, None, RunOptions(), [vary], 1, seed=1)


def test_all_stands_for_every_workload_in_the_order_of_the_catalog():
    planned = plan(workload=ALL)
    made = [planned.combinations[slot.combination].workload for slot in planned.order]
    assert list(planned.workloads) == made == list(WORKLOADS)
    # Repeats of one combination are a sweep.
    assert len(plan(repeats=3).order) == 3


@pytest.mark.parametrize("command", ["run", "sweep"])
def test_the_help_shows_how_long_a_run_of_a_sweep_lasts_at_least(command):
    help_text = CliRunner().invoke(command_line, [command, "--help"], env={"COLUMNS": "500"}).output
    assert f"in a sweep {LEAST_TIME_IN_SWEEP_S:g}]" in " ".join(help_text.split())
    if command == "sweep":
        assert f"{LEAST_TIME_IN_SWEEP_S:g} seconds" in help_text


def test_the_combination_stands_over_what_all_runs_share():
    planned = plan("batch_size=32,64", batch_size=128, threads=2, steps=10, seconds=0.0)
    shown = [run_options(planned, combination) for combination in planned.combinations]
    shared = RunOptions(threads=2, steps=10, seconds=0.0)
    assert shown == [replace(shared, batch_size=size) for size in (32, 64)]


@pytest.mark.parametrize(
    ("vary", "options", "seconds"),
    [
        ("threads=1,2", {"steps": 30}, [5.0, 5.0]),
        ("epochs=1,2", {}, [5.0, 5.0]),
        ("threads=1,2", {"steps": 30, "seconds": 0.0}, [0.0, 0.0]),
        ("threads=1,2", {"steps": 30, "seconds": 8.0}, [8.0, 8.0]),
        ("seconds=0,8", {}, [0.0, 8.0]),
    ],
)
def test_each_run_of_any_sweep_lasts_long_enough_for_a_figure(vary, options, seconds):
    planned = plan(vary, **options)
    assert [run_options(planned, each).seconds for each in planned.combinations] == seconds


def test_a_job_has_the_options_of_its_combination(tmp_path):
    planned = plan("batch_size=32,64", "device=cpu,gpu:0", workload=CNN, steps=10)
    sweep = tmp_path / "a-sweep" / "sweep.jsonl"
    job = job_of(planned, planned.combinations[3], sweep)
    assert (job.workload, job.device, job.log_dir) == (CNN, "gpu:0", str(tmp_path))
    assert (job.options["batch_size"], job.options["steps"]) == (64, 10)
    assert not job.outlives_viewer
    assert job.name is None


def test_the_runs_of_a_sweep_are_called_as_it_is_by_then(tmp_path):
    planned = plan("batch_size=32,64")
    run = begin_sweep(tmp_path, planned, 1, 0.0, "base")
    run.writer.close()
    path = run.writer.path
    assert read_label(path) == Label("base")
    assert [job_of(planned, each, path).name for each in planned.combinations] == ["base"] * 2
    write_label(path, Label("renamed"))
    assert job_of(planned, planned.combinations[1], path).name == "renamed"


@pytest.mark.parametrize(
    ("workload", "vary", "mode", "metric"),
    [
        (CNN, "batch_size=32,64", "train", "ms_per_sample"),
        (CNN, "threads=1,2", "train", "seconds_per_epoch"),
        (SMALL, "threads=1,2", "train", "run_seconds"),
        (SMALL, "epochs=1,2", "train", "seconds_per_epoch"),
        (SMALL, "batch_size=32,64", "train", "ms_per_sample"),
        (CNN, "mode=train,gradients,inference", None, "ms_per_sample"),
        # Runs that learn nothing are compared by the time of a batch.
        (CNN, "threads=1,2", "gradients", "step_ms"),
        (CNN, "threads=1,2", "inference", "step_ms"),
    ],
)
def test_what_is_compared_follows_from_the_workload_and_what_is_varied(
    workload, vary, mode, metric
):
    options = {} if mode is None else {"mode": mode}
    assert plan(vary, workload=workload, **options).metrics == {workload: metric}


# ---- other machines ----


def test_a_job_for_another_machine_leaves_it_to_that_where_it_is_recorded(tmp_path):
    planned = plan("host=gpu1,gpu2")
    job = job_of(planned, planned.combinations[0], tmp_path / "a-sweep" / "sweep.jsonl")
    assert (job.log_dir, job.command) == ("", ())
    assert "host" not in job.options
    # It may be one machine for all.
    planned = plan("batch_size=32,64", host="gpu1")
    assert planned.hosts == ("gpu1",)
    assert [run_options(planned, each).host for each in planned.combinations] == ["gpu1"] * 2


def test_what_this_machine_lacks_another_may_have(monkeypatch, tmp_path):
    monkeypatch.setattr("dlmon.options.checks.has_keras", lambda: False)
    monkeypatch.chdir(tmp_path)
    planned = plan("host=gpu1,gpu2", "python=~/tf/bin/python,./python,python3", cpus=4096)
    assert {refusal(planned, each) for each in planned.combinations} == {None}
    of_nodes = RunOptions(cpus=4096)
    nodes = make_plan(SMALL, of_nodes, ["threads=1,2"], repeats=1, seed=1, in_slurm=True)
    assert {refusal(nodes, each, here=False) for each in nodes.combinations} == {None}
    # Nor is its path one of this machine.
    assert planned.variations[1].values == ("~/tf/bin/python", "./python", "python3")
    assert plan("host=gpu1,gpu2", python="~/bin/python").options["python"] == "~/bin/python"


# ---- a plan that comes from a file ----


def test_a_plan_of_this_version_can_be_followed():
    check_plan(plan("batch_size=32,64", "interval=0.5,1", workload=ALL, repeats=2))
    check_plan(plan("host=gpu1,gpu2"))


@pytest.mark.parametrize(
    "change",
    [
        {"options": {"colour": "red"}},
        {"options": {"batch_size": "32"}},
        {"options": {"log_dir": "/tmp"}},
        {"variations": (Variation("colour", ("red", "blue")),)},
        {"variations": (Variation("batch_size", (32, "64")),)},
        {"variations": (Variation("log_dir", ("/tmp", "/")),)},
        {"workloads": ("resnet9000",)},
    ],
)
def test_a_plan_of_another_version_is_refused(change):
    with pytest.raises(SweepError, match="another version"):
        check_plan(replace(plan("batch_size=32,64"), **change))


def test_the_command_takes_every_option_of_a_run_but_those_of_its_launch():
    taken = {parameter.name for parameter in sweep.params}
    options = {spec.name for spec in fields(RunOptions)}
    assert options - taken == {"detach", "pcie"}
    own = {"workload", "vary", "repeat", "resume", "plain", "as_json", "ascii", "no_alerts"}
    own |= {"slurm", "at_once", "directory", "links", "window_s"}
    assert taken - options == own
    assert not {"detach", "log_dir", "price"} & set(VARIED)
