"""The workloads are filtered by what is typed, and told with their last result here."""

from dataclasses import replace

import pytest
from fakes.recorded import BEGIN_WALL, HOST, recorded_session, write_log
from hypothesis import given
from hypothesis import strategies as st

from dlmon.log.directory import list_sessions
from tui.home.workload_choice import last_results, matching, pieces, with_headings
from workloads.catalog import WORKLOADS

ALL = [WORKLOADS[name] for name in ("cifar10-cnn", "mnist-mlp-small", "mnist-mlp-wide")]
CIFAR, SMALL, WIDE = ALL


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("", [CIFAR, SMALL, WIDE]),
        ("   ", [CIFAR, SMALL, WIDE]),
        ("mnist", [SMALL, WIDE]),
        ("CIFAR", [CIFAR]),
        ("wide mlp", [WIDE]),
        ("hidden layer", [SMALL, WIDE]),
        ("colour mnist", []),
        ("[/x]", []),
    ],
)
def test_every_word_must_be_in_the_name_the_family_or_the_title(typed, found):
    assert matching(ALL, typed) == found


def test_a_family_stands_together_under_its_name():
    late = replace(CIFAR, name="cifar10-late")
    found = matching([CIFAR, SMALL, late], "")
    assert with_headings(found) == ["CIFAR-10", CIFAR, late, "MNIST", SMALL]


def test_without_workloads_there_are_no_headings():
    assert with_headings([]) == []


def test_the_matching_parts_of_a_name_are_shown():
    assert pieces("mnist-mlp-small", "SMALL m") == [
        ("m", True),
        ("nist-", False),
        ("m", True),
        ("lp-", False),
        ("small", True),
    ]
    assert pieces("cifar10-cnn", "") == [("cifar10-cnn", False)]


@given(text=st.text(), typed=st.text())
def test_pieces_are_the_whole_text(text, typed):
    assert "".join(piece for piece, _ in pieces(text, typed)) == text


def test_the_newest_result_of_this_host_counts(tmp_path):
    for day, epochs in enumerate([3, 2]):
        records = recorded_session(
            session_id=f"day-{day}", begin_wall=BEGIN_WALL + day * 86_400, epochs=epochs
        )
        write_log(tmp_path, records)
    write_log(tmp_path, recorded_session("training", session_id="cut", begin_wall=BEGIN_WALL + 9e5))
    entries = list_sessions(tmp_path)
    newest = last_results(ALL, entries, HOST)
    assert list(newest) == ["cifar10-cnn"]
    assert newest["cifar10-cnn"].wall == BEGIN_WALL + 86_400
    assert newest["cifar10-cnn"].timing == entries[1].result.seconds_per_epoch
    assert last_results(ALL, entries, "another") == {}


def test_a_workload_that_is_compared_whole_is_represented_by_its_run(tmp_path):
    write_log(tmp_path, recorded_session(workload="mnist-mlp-small", step_us=700))
    (entry,) = list_sessions(tmp_path)
    newest = last_results(ALL, [entry], HOST)
    assert newest["mnist-mlp-small"].timing == entry.result.run_seconds


def test_a_network_without_epochs_is_represented_by_its_batches(tmp_path):
    header, *records = recorded_session()
    write_log(tmp_path, [replace(header, workload="resnet50"), *records])
    (entry,) = list_sessions(tmp_path)
    newest = last_results([WORKLOADS["resnet50"]], [entry], HOST)
    assert newest["resnet50"].timing.value == entry.result.step_ms.mean


@pytest.mark.parametrize("mode", ["gradients", "inference"])
def test_a_run_that_learnt_nothing_shows_nothing_of_training(tmp_path, mode):
    header, *records, result = recorded_session()
    options = {**header.options, "mode": mode}
    predicted = [replace(header, options=options), *records, replace(result, options=options)]
    write_log(tmp_path, predicted)
    assert last_results(ALL, list_sessions(tmp_path), HOST) == {}


def test_a_run_that_was_cut_short_shows_its_time_only_where_no_other_did(tmp_path):
    write_log(tmp_path, recorded_session(session_id="a"))
    stopped = recorded_session(status="stopped", session_id="b", begin_wall=BEGIN_WALL + 60)
    write_log(tmp_path, stopped)
    other = [recorded_session(status="stopped", workload="cifar10-cnn", session_id="c")]
    entries = list_sessions(tmp_path)
    assert last_results(ALL, entries, HOST)["cifar10-cnn"].wall == BEGIN_WALL
    write_log(tmp_path / "alone", other[0])
    alone = list_sessions(tmp_path / "alone")
    assert last_results(ALL, alone, HOST)["cifar10-cnn"].wall == BEGIN_WALL
