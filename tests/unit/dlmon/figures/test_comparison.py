"""What a session is called: its epoch, its device, its settings, and why it has no time."""

from dataclasses import replace

import pytest
from fakes.recorded import folded, recorded_session
from fakes.scripts import script_session

from dlmon.figures.comparison import (
    cost_text,
    device_text,
    effective_or_reason,
    effective_text,
    energy_text,
    epoch_text,
    last_epoch,
    metric_of,
    unusual_settings,
    why_no_time,
)
from dlmon.records import Epoch, Result, SessionHeader
from dlmon.session.reasons import NO_PRICE


def session(**options):
    return folded(recorded_session(**options)).snapshot()


@pytest.mark.parametrize("status", ["failed", "stopped", "interrupted", "unknown"])
def test_of_a_session_that_is_over_nothing_is_awaited(status):
    ended = "the run ended before the model was built"
    assert why_no_time(session(reached="importing"), status) == ended
    assert "yet" not in why_no_time(session(reached="compiling"), status)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, []),
        ({"mode": "train", "precision": "float32", "jit": "auto", "backend": "tensorflow"}, []),
        (
            {
                "mode": "inference",
                "precision": "mixed_bfloat16",
                "jit": "off",
                "backend": "jax",
                "cpus": 1,
                "python": "/opt/python",
            },
            ["inference", "mixed_bfloat16", "JAX", "JIT off", "another Python", "1 CPU"],
        ),
        ({"backend": "mine", "cpus": 4}, ["mine", "4 CPUs"]),
        ({"mode": 3, "precision": ["[/x]"], "jit": None, "backend": {}}, []),
    ],
)
def test_settings_are_shown_where_they_are_not_the_default(options, expected):
    assert unusual_settings(options) == expected


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"gpus": 1}, "GPU 0 NVIDIA GeForce GTX 1060 6GB"),
        ({"gpus": 0}, "CPU Intel(R) Core(TM) i7-9700K CPU @ 3.60GHz"),
        ({"reached": "importing"}, ""),
    ],
)
def test_a_device_is_named_by_what_it_is(options, text):
    assert device_text(session(**options)) == text


def test_before_the_model_is_built_the_device_is_the_one_that_was_asked_for():
    header, *records = recorded_session("importing")
    header = replace(header, options={"device": "gpu:1"})
    assert isinstance(header, SessionHeader)
    assert device_text(folded([header, *records]).snapshot()) == "gpu:1"


def test_a_run_that_failed_once_an_epoch_was_whole_failed_after_it():
    records = script_session(seconds=3)
    result = Result("failed", records[0].id, "", records[0].workload, "cpu", {}, 22.0)
    last = max(number for number, each in enumerate(records) if isinstance(each, Epoch))
    for shown, whole in (
        ([*records, result], False),
        ([*records[: last + 1], result], True),
        (records[: last + 1], False),
    ):
        assert last_epoch(folded(shown).snapshot())[1] == whole


@pytest.mark.parametrize("status", ["completed", "stopped", "failed"])
def test_a_script_whose_epochs_have_no_total_ended_with_the_last_that_it_had(status):
    records = script_session()
    header = records[0]
    running = folded(records).snapshot()
    number = running.epochs[-1].epoch + 1
    assert epoch_text(running) == f"epoch {number + 1}"
    result = Result(status, header.id, "", header.workload, "cpu", {}, 22.0)
    assert epoch_text(folded([*records, result]).snapshot()) == f"epoch {number}"


def test_a_loop_that_is_known_to_have_no_epochs_waits_for_its_throughput():
    snapshot = folded(script_session(seconds=1, steps=None)).snapshot()
    model = replace(snapshot.model, has_epochs=False)
    none = dict.fromkeys(("samples_per_second", "seconds_per_epoch"))
    assert metric_of(replace(snapshot, model=model, **none)) == "samples_per_second"


RESULT = replace(recorded_session()[-1], effective_flop_s=None, why={})


def figures(**changes):
    result = replace(RESULT, **changes)
    writers = {"cost": cost_text, "energy": energy_text, "effective": effective_or_reason}
    return {name: text for name, write in writers.items() if (text := write(result))}


def test_what_was_not_measured_is_not_shown():
    assert figures(why={"cost_usd": NO_PRICE, "effective_flop_s": "no operation was counted"}) == {}


def test_what_was_measured_is_shown():
    assert figures(
        cost_usd=0.5, energy_j_per_epoch={"cpu": 85.2}, effective_flop_s=5.3e10, peak_share=0.266
    ) == {
        "cost": "0.50 USD",
        "energy": "CPU 85.2 J per epoch",
        "effective": "53 GFLOP/s, 27 % of peak",
    }


def test_a_price_that_can_not_be_reckoned_says_why():
    why = {"cost_usd": "the price is per CPU, and the number of CPUs is not known"}
    assert figures(why=why) == {"cost": f"– ({why['cost_usd']})"}


@pytest.mark.parametrize(
    ("why", "more"), [({}, ""), ({"peak_share": "x"}, " (share of the peak unknown: x)")]
)
def test_a_share_that_is_not_known_says_why_where_there_is_room(why, more):
    assert figures(effective_flop_s=5e9, why=why) == {"effective": f"5 GFLOP/s{more}"}
    assert effective_text(replace(RESULT, effective_flop_s=5e9, why=why)) == "5 GFLOP/s"
