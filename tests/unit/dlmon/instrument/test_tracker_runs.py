"""The runs that a script records in trackers are reported, whatever version the libraries have."""

from types import ModuleType, SimpleNamespace

import pytest
from fakes.loops import KeptReporter

from dlmon.instrument.tracker_runs import watch_event_files, watch_runs
from dlmon.records import TrackerRun


@pytest.fixture
def reporter():
    return KeptReporter()


@pytest.fixture
def reported(reporter):
    """Return a function that begins a loop, and returns the runs reported so far."""

    def begin():
        reporter.begin_loop()
        runs = [item for item in reporter.queue if isinstance(item, TrackerRun)]
        return [(run.tracker, run.id, run.place, run.name) for run in runs]

    return begin


def library(name, **members):
    module = ModuleType(name)
    vars(module).update(members)
    return module


def wandb_run(**members):
    usual = {"id": "a1", "entity": "lab", "project": "p", "disabled": False, "offline": False}
    return SimpleNamespace(**{**usual, **members})


def test_a_run_of_each_library_is_reported_once(reporter, reported):
    mlflow_run = SimpleNamespace(info=SimpleNamespace(run_id="b2"))
    trackio_run = SimpleNamespace(id="c3", project="mine", name="brave-sun-0", url=None)
    context = SimpleNamespace(current_run=SimpleNamespace(get=lambda: trackio_run))
    watch_runs(library("wandb", run=wandb_run()), reporter)
    watch_runs(library("mlflow", active_run=lambda: mlflow_run), reporter)
    watch_runs(library("trackio", context_vars=context), reporter)
    assert reported() == [
        ("wandb", "a1", "lab/p", None),
        ("mlflow", "b2", None, None),
        ("trackio", "c3", "mine", "brave-sun-0"),
    ]
    assert len(reported()) == 3


@pytest.mark.parametrize(
    "run", [None, wandb_run(offline=True), wandb_run(disabled=True), SimpleNamespace()]
)
def test_a_run_that_nobody_can_add_to_is_not_reported(reporter, reported, run):
    watch_runs(library("wandb", run=run), reporter)
    assert reported() == []
    assert reporter.is_on


def test_a_run_of_trackio_on_another_machine_is_not_reported(reporter, reported):
    run = SimpleNamespace(id="c3", project="mine", name="n", url="https://lab")
    context = SimpleNamespace(current_run=SimpleNamespace(get=lambda: run))
    watch_runs(library("trackio", context_vars=context), reporter)
    assert reported() == []


def test_the_folder_of_an_event_file_is_reported_even_within_a_loop(reporter, reported, tmp_path):
    class EventFileWriter:
        def __init__(self, logdir, max_queue_size=10):
            self.logdir = logdir

    module = library("tensorboardX.event_file_writer", EventFileWriter=EventFileWriter)
    watch_event_files(module, reporter, "EventFileWriter")
    assert module.EventFileWriter(str(tmp_path / "a")).logdir == str(tmp_path / "a")
    assert reported() == [("tensorboard", None, str(tmp_path / "a"), None)]
    module.EventFileWriter(logdir=tmp_path / "b", max_queue_size=1)
    assert ("tensorboard", None, str(tmp_path / "b"), None) in reported()


def test_a_writer_that_is_made_by_a_function(reporter, reported, tmp_path):
    made = []
    module = library("summary_ops_v2", create_file_writer_v2=made.append)
    watch_event_files(module, reporter, "create_file_writer_v2")
    module.create_file_writer_v2(str(tmp_path))
    assert (made, len(reported())) == ([str(tmp_path)], 1)


def test_a_call_that_the_library_refuses_turns_nothing_off(reporter, reported):
    module = library("summary_ops_v2", create_file_writer_v2=lambda logdir: None)
    watch_event_files(module, reporter, "create_file_writer_v2")
    with pytest.raises(TypeError):
        module.create_file_writer_v2()
    module.create_file_writer_v2(None)
    module.create_file_writer_v2("a\0b")
    assert reported() == []
    assert reporter.is_on
