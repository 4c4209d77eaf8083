"""What a session is called: its epoch, its device, its settings, and why it has no time."""

from dataclasses import replace

import pytest
from fakes.recorded import folded, recorded_session
from fakes.scripts import script_session

from dlmon.figures.session.compared_figure import metric_of, why_no_time
from dlmon.figures.session.epoch_numbers import epoch_text, last_epoch
from dlmon.figures.session.ranks import trainers_text
from dlmon.figures.session.run_facts import (
    cost_text,
    device_text,
    effective_or_reason,
    energy_text,
    unusual_settings,
)
from dlmon.records import Epoch, Model, Result, Trainer
from dlmon.session.loops import ProcessRate
from dlmon.session.reasons import NO_PRICE


def session(**options):
    return folded(recorded_session(**options)).snapshot()


@pytest.mark.parametrize("status", ["failed", "stopped", "interrupted", "unknown"])
def test_of_a_session_that_is_over_nothing_is_awaited(status):
    ended = "the run ended before the model was built"
    assert why_no_time(session(reached="importing"), status) == ended
    assert "yet" not in why_no_time(session(reached="compiling"), status)


def test_settings_are_shown_where_they_are_not_the_default():
    usual = {"mode": "train", "precision": "float32", "jit": "auto", "backend": "tensorflow"}
    assert unusual_settings({}) == unusual_settings(usual) == []
    other = {"mode": "inference", "precision": "mixed_bfloat16", "jit": "off", "backend": "jax"}
    shown = ["inference", "mixed_bfloat16", "JAX", "JIT off", "another Python", "1 CPU"]
    assert unusual_settings({**other, "cpus": 1, "python": "/opt/python"}) == shown
    assert unusual_settings({"backend": "mine", "cpus": 4}) == ["mine", "4 CPUs"]
    assert unusual_settings({"mode": 3, "precision": ["[/x]"], "jit": None, "backend": {}}) == []


def test_a_device_is_named_by_what_it_is_or_before_that_is_known_as_it_was_asked_for():
    assert device_text(session(gpus=1)) == "GPU 0 NVIDIA GeForce GTX 1060 6GB"
    assert device_text(session(gpus=0)) == "CPU Intel(R) Core(TM) i7-9700K CPU @ 3.60GHz"
    header, *records = recorded_session("importing")
    assert device_text(folded([header, *records]).snapshot()) == ""
    header = replace(header, options={"device": "gpu:1"})
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


def test_a_loop_that_is_known_to_have_no_epochs_waits_for_its_throughput():
    snapshot = folded(script_session(seconds=1, steps=None)).snapshot()
    model = replace(snapshot.model, has_epochs=False)
    early = replace(snapshot, model=model, samples_per_second=None)
    assert metric_of(early) == "samples_per_second"


@pytest.mark.parametrize("status", ["completed", "stopped", "failed"])
def test_a_script_whose_epochs_have_no_total_ended_with_the_last_that_it_had(status):
    records = script_session()
    header = records[0]
    running = folded(records).snapshot()
    number = running.epochs[-1].epoch + 1
    assert epoch_text(running) == f"epoch {number + 1}"
    result = Result(status, header.id, "", header.workload, "cpu", {}, 22.0)
    assert epoch_text(folded([*records, result]).snapshot()) == f"epoch {number}"


def test_epochs_beyond_those_asked_for_say_what_they_are_for():
    records = [
        replace(r, epochs=1, extra_epochs=r.epochs - 1) if isinstance(r, Model) else r
        for r in recorded_session(epochs=4)[:-1]
    ]
    assert epoch_text(folded(records).snapshot()) == "epoch 1/1, 3 more"
    records[0] = replace(records[0], options={**records[0].options, "seconds": 10.0})
    assert epoch_text(folded(records).snapshot()) == "epoch 1/1, 3 more to fill 10 s"


RESULT = replace(recorded_session()[-1], effective_flop_s=None, why={})


def figures(**changes):
    result = replace(RESULT, **changes)
    writers = {"cost": cost_text, "energy": energy_text, "effective": effective_or_reason}
    return {name: text for name, write in writers.items() if (text := write(result))}


@pytest.mark.parametrize(
    ("peak_from", "precision", "again", "text"),
    [
        (None, None, None, "53 GFLOP/s, 27 % of peak"),
        ("measured", "bfloat16", None, "53 GFLOP/s, 27 % of the measured bf16 peak"),
        ("NVIDIA", "tf32", None, "53 GFLOP/s, 27 % of NVIDIA's dense TF32 figure"),
        (
            "measured",
            "float32",
            0.35,
            "53 GFLOP/s, 27 % of the measured float32 peak (35 % with what is computed again)",
        ),
    ],
)
def test_the_share_of_a_peak_says_which_one(peak_from, precision, again, text):
    known = {"effective_flop_s": 5.3e10, "peak_share": 0.266, "hardware_share": again}
    shown = figures(**known, peak_from=peak_from, peak_precision=precision)
    assert shown["effective"] == text


NO_CPUS = "the price is per CPU, and the number of CPUs is not known"


@pytest.mark.parametrize(
    ("changes", "shown"),
    [
        (
            {
                "cost_usd": 0.5,
                "energy_j_per_epoch": {"cpu": 85.2},
                "effective_flop_s": 5.3e10,
                "peak_share": 0.266,
            },
            {
                "cost": "0.50 USD",
                "energy": "CPU 85.2 J per epoch",
                "effective": "53 GFLOP/s, 27 % of peak",
            },
        ),
        # What was not measured is not shown, and what can not be reckoned says why.
        ({"why": {"cost_usd": NO_PRICE, "effective_flop_s": "no operation was counted"}}, {}),
        ({"why": {"cost_usd": NO_CPUS}}, {"cost": f"– ({NO_CPUS})"}),
        (
            {"effective_flop_s": 5e9, "why": {"peak_share": "x"}},
            {"effective": "5 GFLOP/s (share of the peak unknown: x)"},
        ),
    ],
)
def test_what_was_measured_is_shown(changes, shown):
    assert figures(**changes) == shown


@pytest.mark.parametrize(
    ("rates", "said"),
    [
        ([600.0, 610.0, 605.0], ", 600 to 610 each"),
        ([600.0, 600.2, 599.9], ", 600 each"),
        ([600.0, 610.0, 480.0], ", 480 to 610 each, the slowest rank 2 on n1"),
        ([480.0, 610.0, 605.0], ", 480 to 610 each, the slowest rank 0"),
        # Of two, either may be the one that is not as usual.
        ([600.0, 300.0], ", 300 to 600 each"),
        ([600.0, None, None], ""),
    ],
)
def test_the_slowest_of_the_processes_is_named_with_its_machine_where_one_stands_out(rates, said):
    last = len(rates) - 1
    trainers = tuple(
        ProcessRate(Trainer(0, n, n, "torch", rank=n, host="n1" if n == last else None), rate)
        for n, rate in enumerate(rates)
    )
    snapshot = replace(session(reached="training"), trainers=trainers)
    assert trainers_text(snapshot) == f"{len(rates)} processes on 2 machines{said}"
