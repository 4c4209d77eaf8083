"""Arguments are replaced as an object is made, and a script fails only by itself."""

import builtins
import json
import multiprocessing
import pickle
import sys
import traceback
from types import SimpleNamespace

import pytest
from fakes.loops import KeptReporter

from dlmon.instrument.injections import VARIABLE, injections_of, replace_arguments, set_up
from dlmon.instrument.network_injections import NetworkInjections
from dlmon.instrument.torch_injections import throw_prints_away
from dlmon.records import Injection


@pytest.fixture
def reporter():
    return KeptReporter()


@pytest.fixture
def injections(reporter, monkeypatch):
    monkeypatch.setenv(VARIABLE, json.dumps({"num_workers": 4, "fused": "on", "unknown": 1}))
    return injections_of(reporter)


class Loader:
    def __init__(self, samples, num_workers=0, *, limit=9):
        if num_workers > limit:
            raise ValueError(f"{num_workers} is too many")
        self.samples, self.num_workers = list(samples), num_workers


@pytest.fixture
def kind(injections):
    kind = type("Copy", (Loader,), {"__init__": Loader.__init__})

    def change(given):
        given["samples"] = list(given["samples"])
        return {"num_workers": injections.value("num_workers")}, {"num_workers": None}

    replace_arguments(kind, "__init__", injections, ("num_workers",), change)
    return kind


def reported(reporter):
    reporter.begin_loop()
    injections = [record for record in reporter.queue if isinstance(record, Injection)]
    return {i.name: (i.applied, i.times, i.reason) for i in injections}


def test_an_argument_is_replaced_and_counted(kind, reporter):
    made = [kind(iter("ab")), kind(samples="ab", num_workers=1)]
    assert [(loader.samples, loader.num_workers) for loader in made] == [(["a", "b"], 4)] * 2
    assert reported(reporter)["num_workers"] == (True, 2, None)


def test_what_refuses_the_value_is_made_as_the_script_makes_it(kind, reporter):
    loader = kind(iter("ab"), 1, limit=2)
    assert (loader.samples, loader.num_workers) == (["a", "b"], 1)
    assert reported(reporter)["num_workers"] == (False, 0, "ValueError: 4 is too many")


def test_an_error_of_the_scripts_own_is_its_own(kind):
    with pytest.raises(ValueError, match="3 is too many") as caught:
        kind("ab", 3, limit=2)
    files = {frame.filename for frame in traceback.extract_tb(caught.value.__traceback__)}
    assert files == {__file__}
    with pytest.raises(TypeError, match="missing 1 required"):
        kind()


def test_an_error_of_our_own_does_not_reach_the_script(injections, reporter):
    def change(given):
        raise RuntimeError("ours")

    kind = type("Copy", (Loader,), {"__init__": Loader.__init__})
    replace_arguments(kind, "__init__", injections, ("num_workers",), change)
    assert kind("ab").num_workers == 0
    assert reported(reporter)["num_workers"] == (False, 0, "RuntimeError: ours")


def test_a_daemonic_process_such_as_a_loader_worker_sets_nothing(injections, monkeypatch):
    assert injections.value("num_workers") == 4
    process = SimpleNamespace(daemon=True)
    monkeypatch.setattr(multiprocessing.process, "current_process", lambda: process)
    assert injections.value("num_workers") is None


def test_what_is_set_nowhere_has_its_reason_until_it_is_set(injections, reporter):
    set_up(injections, ("num_workers",), "no DataLoader was made", lambda: None)
    assert reported(reporter) == {
        "num_workers": (False, 0, "no DataLoader was made"),
        "fused": (False, 0, "PyTorch was not imported"),
    }
    reporter.queue.clear()
    injections.applied("num_workers")
    injections.applied("num_workers", lambda: "the script sets it itself afterwards")
    # The first one is said at once, the others as the next loop begins or the process ends.
    assert [record.times for record in reporter.queue] == [1]
    reporter.close()
    assert reported(reporter) == {"num_workers": (False, 2, "the script sets it itself afterwards")}


def test_a_hook_that_can_not_be_installed_is_the_reason(injections, reporter):
    def install():
        raise AttributeError("no DataLoader")

    set_up(injections, ("num_workers",), "no DataLoader was made", install)
    assert reported(reporter)["num_workers"] == (False, 0, "AttributeError: no DataLoader")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"workers": 4}'])
def test_without_injections_nothing_is_set_up(text, reporter, monkeypatch):
    monkeypatch.setenv(VARIABLE, text)
    installed = []
    set_up(injections_of(reporter), ("num_workers",), "", lambda: installed.append(1))
    assert not installed
    assert reported(reporter) == {}


def test_a_class_that_is_copied_to_another_process_leaves_the_injections_here(injections):
    networks = NetworkInjections(SimpleNamespace(), injections)
    assert pickle.loads(pickle.dumps(networks)) is None


def test_what_is_printed_is_thrown_away_from_the_first_loop_on(
    reporter, monkeypatch, capsys, tmp_path
):
    monkeypatch.setenv(VARIABLE, json.dumps({"prints": "off"}))
    monkeypatch.setattr(builtins, "print", print)
    injections = injections_of(reporter)
    throw_prints_away(injections)
    print("before")
    reporter.begin_loop()
    with (tmp_path / "kept").open("w") as file:
        print("in a file", file=file)
    print("loss", 0.5)
    print("an error", file=sys.stderr)
    assert capsys.readouterr() == ("before\n", "")
    assert (tmp_path / "kept").read_text() == "in a file\n"
    assert reported(reporter)["prints"] == (True, 2, None)
