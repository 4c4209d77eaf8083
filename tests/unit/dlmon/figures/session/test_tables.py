"""Tables of a session: of several loops, of epochs that were cut, of a profile's operations."""

import re
from dataclasses import replace

import pytest
from fakes.recorded import folded
from fakes.scripts import Script, script_session

from dlmon.figures.report.summary import SessionOutcome, summary_rows
from dlmon.figures.session.tables import (
    describe_profile,
    epoch_table,
    evaluation_text,
    loop_table,
    measured_in_short,
    measured_loop,
    metrics_line,
    profile_headline,
)
from dlmon.log.label import Label
from dlmon.records import Epoch, Evaluation, Model, Operation, Profile, Status
from dlmon.render.lines import lines_of
from dlmon.session.learning import MetricFigure

FITS = (
    Script()
    .train("small", 10, step_ms=1)
    .train("large", 5_000, step_ms=50)
    .train(None, None, batch=None, epochs=1)
    .records
)
LARGE = "large (5,000 parameters), batch 32, 3,200 samples"


def test_it_is_said_which_loop_the_figures_are_of():
    session = folded(FITS)
    snapshot = session.snapshot(is_over=True)
    assert measured_loop(snapshot) == f"the one of 3 whose steps took longest: {LARGE}"
    assert measured_in_short(snapshot) == "longest of 3 loops"
    rows = dict(summary_rows(SessionOutcome(session, snapshot, Status.COMPLETED, Label())))
    assert rows["figures of"] == measured_loop(snapshot)
    assert rows["seconds per epoch"].startswith("5.00 s")


def test_each_loop_has_a_row_and_the_longest_a_mark():
    table = loop_table(folded(FITS).snapshot(is_over=True), 10)
    assert [row[:4] for row in table.rows] == [
        ("", "small (10 parameters), batch 32, 3,200 samples", "3", "300"),
        ("▶", LARGE, "3", "300"),
        ("", "without a loader", "–", "100"),
    ]
    assert (table.rows[0][5], table.rows[2][5], table.left_out) == ("0.10 s", "–", 0)
    table = loop_table(folded(FITS).snapshot(is_over=True), 2)
    assert ([row[1] for row in table.rows], table.left_out) == ([LARGE, "without a loader"], 1)
    # Of a script with one loop nothing is said.
    snapshot = folded(script_session()).snapshot(is_over=True)
    assert measured_loop(snapshot) == measured_in_short(snapshot) == ""
    assert loop_table(snapshot, 10) is None


S = 10**9
MODEL = Model(1, 1, 32, 60_000, 1_875, 3, steps_cap=120)


def numbers(epochs, model):
    return [row[0] for row in epoch_table(epochs, model).rows]


def test_only_an_epoch_that_ended_before_the_steps_that_were_asked_for_is_cut():
    epochs = [
        Epoch(number, 0, S, S, whole, 1_000, {}, steps=steps)
        for number, (whole, steps) in enumerate([(True, 1_875), (False, 120), (False, 119)])
    ]
    assert numbers(epochs, MODEL) == ["1", "2", "3 (cut)"]
    assert numbers(epochs, None) == ["1", "2 (cut)", "3 (cut)"]


def test_a_profile_says_what_the_time_went_into_and_has_a_row_for_each_operation():
    first, *others = (
        Operation("aten::" + "a" * 80, 5, 1_500, 40_000, 0.8),
        Operation("x", 1, 9, 0, 0.1),
        Operation("too short to matter", 1, 9, 0, 0.005),
    )
    made = Profile(
        9, 1, 0, 62_000_000, 5, "torch", "profile-1.json.gz", operations=(first, *others)
    )
    made = replace(made, idle=0.12, copying=0.03, communicating=0.0)
    largest, note, table = describe_profile(made)
    assert largest.sentences == (
        f"LARGEST OPERATION 70 % of the profiled time: {first.name}",
        "Try: lower precision, a compiled model, or a smaller model",
    )
    assert note.sentences == (
        # It copied for 3 % of the time in which it was not idle.
        "5 steps by PyTorch's profiler, 12.4 ms a step, the device idle 12 %, copying 3 %",
    )
    headings = ("calls a step", "µs a call", "host a step", "device a step")
    assert table.headings == ("share", "", *headings, "operation")
    assert table.rows[0] == ("70 %", 10 * "█", "1", "8,000", "0.30 ms", "8.00 ms", first.name)
    # All rows together are all of the time.
    assert [(row[0], row[-1]) for row in table.rows[1:]] == [
        ("9 %", "x"),
        ("9 %", "all else"),
        ("12 %", "device idle"),
    ]
    # A long name is cut in its middle; on a wide screen, it is whole in a row of its own.
    note, table = describe_profile(made, width=76)
    rows = ["".join(text for text, _ in line) for line in lines_of((note, table), 76)]
    assert max(map(len, rows)) <= 76
    assert re.search(r" aten::a+…a+$", rows[4])
    note, table = describe_profile(made, width=114)
    rows = ["".join(text for text, _ in line) for line in lines_of((note, table), 114)]
    assert rows[5].strip() == first.name
    # So it is where only a part of it has room beside the row.
    lines = lines_of(describe_profile(made, width=150), 150)
    rows = ["".join(text for text, _ in line) for line in lines]
    assert rows[4].strip() == first.name


@pytest.mark.parametrize(
    ("shares", "copy", "largest", "advice"),
    [
        # Of a device that idles half the time, an operation has at most the other half.
        ((0.5, 0.1, 0.1), "HtoD (Pinned", "DEVICE IDLE 50 % of the profiled time", "if it doesn't"),
        ((0.4, 0.5, 0.0), "HtoD (Pinned", "DEVICE IDLE 40 %", "if it doesn't"),
        ((0.1, 0.7, 0.0), "HtoD (Pinned", "COPYING 63 % of the profiled time", None),
        ((0.1, 0.7, 0.0), "HtoD (Pageable", "COPYING 63 %", "load with pin_memory=True"),
        ((0.1, 0.7, 0.0), "DtoH (Device", "COPYING 63 %", "read results back less often"),
        ((0.1, 0.0, 0.7), "HtoD (Pinned", "COMMUNICATING 63 %", "if no rank is late"),
        (
            (None, 0.1, 0.0),
            "HtoD (Pinned",
            "MATRIX PRODUCT 60 % of the time in operations",
            "lower precision",
        ),
    ],
)
def test_a_profile_leads_with_what_took_the_largest_share_of_the_time(
    shares, copy, largest, advice
):
    operations = Operation("mm", 5, 9, 9, 0.6), Operation(f"Memcpy {copy} -> x)", 5, 0, 9, 0.4)
    profile = Profile(9, 1, 0, 9, 5, "torch", None, None, operations, *shares)
    first, *rest = next(describe_profile(profile)).sentences
    assert first.startswith(largest)
    assert [text.startswith(f"Try: {advice}") for text in rest] == [True] * (advice is not None)


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("sm80_xmma_gemm_f32f32_tf32f32_f32_nn", "lower precision, a compiled model"),
        ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n", "a compiled model, or a smaller model"),
        ("ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_nn", "a compiled model"),
        ("sm90_xmma_gemm_e4m3e4m3_e4m3f32_f32_tn_n", "a compiled model"),
    ],
)
def test_kernels_that_compute_with_few_bits_are_not_advised_to_use_fewer(name, advice):
    profile = Profile(9, 1, 0, 9, 5, "torch", operations=(Operation(name, 5, 0, 9, 0.9),), idle=0.0)
    first, *rest = next(describe_profile(profile)).sentences
    assert first.startswith("MATRIX PRODUCT 90 %")
    assert rest[0].startswith(f"Try: {advice}")


def test_operations_of_one_kind_count_together_and_those_of_no_known_kind_alone():
    operations = (
        Operation("some_kernel", 5, 0, 9, 0.4),
        Operation("sm90_xmma_fprop_implicit_gemm_bf16", 5, 0, 9, 0.25),
        Operation("sm90_xmma_dgrad_implicit_gemm_bf16", 5, 0, 9, 0.2),
        Operation("another_kernel", 5, 0, 9, 0.15),
    )
    profile = Profile(9, 1, 0, 9, 5, "torch", operations=operations, idle=0.0)
    title, (sentence,), _ = profile_headline(profile)
    assert (title, sentence) == (
        "CONVOLUTION 45 %",
        "of the profiled time: forward 25 %, backward 20 %",
    )
    alone = replace(profile, operations=(operations[0], operations[3]))
    assert profile_headline(alone)[0] == "LARGEST OPERATION 40 %"


@pytest.mark.parametrize(
    ("step_ms", "idle", "lead"),
    [
        (
            182,
            None,
            "OUTSIDE OPERATIONS 86 % of a step: 26.0 ms of 182 ms are operations, the rest ",
        ),
        (40, None, "MATRIX PRODUCT 59 % of the time in operations on the host"),
        # Threads at once have more time of operations than the step has.
        (20, None, "MATRIX PRODUCT 59 % of the time in operations on the host"),
        (182, 0.9, "DEVICE IDLE 90 %"),
    ],
)
def test_a_profile_says_first_if_most_of_a_step_is_outside_operations(step_ms, idle, lead):
    mm = Operation("aten::mm", 15, round(5 * 26_000 * 0.59), 0, 0.59)
    other = Operation("aten::relu", 15, round(5 * 26_000 * 0.41), 0, 0.41)
    end = 5 * step_ms * 1_000_000
    profile = Profile(end, 1, 0, end, 5, "torch", operations=(mm, other), idle=idle)
    first, *rest = next(describe_profile(profile)).sentences
    assert first.startswith(lead)
    assert (
        "MATRIX PRODUCT 59 % of the time in operations on the host, in 1 operation" in rest
    ) is (step_ms == 182 and idle is None)
    # The shares of operations on a device tell nothing of the host.
    on_device = replace(profile, operations=(replace(mm, device_us=9), other), idle=None)
    assert next(describe_profile(on_device)).sentences[0].startswith("MATRIX PRODUCT")
    # Without the time of the steps nothing is said of the rest.
    unknown = replace(profile, begin=None, idle=None)
    assert next(describe_profile(unknown)).sentences[0].startswith("MATRIX PRODUCT")


@pytest.mark.parametrize(
    ("figures", "line"),
    [
        (
            [("loss", 0.42, "", 0.42, 8, 8), ("val_loss", 0.5, "", 0.45, 6, 8)],
            "loss 0.4200 (best), val_loss 0.5000 (best 0.4500 in pass 7)",
        ),
        ([("lr", 0.001, "", None, None, 8)], "lr 0.0010"),
        # The only epoch is not called the best, and what was read as it trained is of none.
        ([("loss", 0.42, "", 0.42, 0, 0)], "loss 0.4200"),
        ([("loss", 0.42)], "loss 0.4200 (last read)"),
        ([("loss", None, "NaN", 2.0, 0, 3)], "loss NaN (best 2.0000 in pass 1)"),
    ],
)
def test_a_line_says_the_last_value_and_the_best_where_that_is_another(figures, line):
    assert metrics_line([MetricFigure(*one) for one in figures], "pass") == line
    many = metrics_line([MetricFigure(f"m{n}", 1.0, last_epoch=1) for n in range(20)])
    assert many.endswith("m7 1.0000, and 12 more")


def test_an_evaluation_says_what_it_came_to_and_over_what():
    evaluation = Evaluation(S, 3 * S, 5, 1000, True, {"accuracy": 0.9, "loss": 0.4})
    assert evaluation_text(evaluation) == "loss 0.4000, accuracy 0.9000 (1,000 samples, 2.00 s)"
    cut = Evaluation(S, 3 * S, 5, None, False, {"loss": None}, why={"loss": "NaN"})
    assert evaluation_text(cut) == "loss NaN (2.00 s, cut short)"
