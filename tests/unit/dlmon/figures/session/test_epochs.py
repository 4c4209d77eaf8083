"""What is said of an epoch: its time, what it spent longer on, what the machine did."""

from dataclasses import replace

import pytest

from dlmon.figures.session.epochs import epoch_comparison_text, steps_asked_for
from dlmon.records import Epoch, Model
from dlmon.session.epoch_comparison import _LEAST, _LEAST_DROPS, EpochComparison, EpochDifference

S = 10**9
EPOCH = Epoch(6, 0, 12 * S, 12 * S, True, 1_000, {})
STALLED = EpochComparison(
    EPOCH,
    12.2,
    9.16,
    True,
    (EpochDifference("stalled_s", 3.02, 0.0, 2),),
    (EpochDifference("heat_pct", 64.0, 0.0), EpochDifference("sm_mhz", 1_200.0, 1_860.0)),
    True,
)


def test_a_slow_epoch_says_what_it_took_longer_for_and_what_the_machine_did():
    assert epoch_comparison_text(STALLED, gpu="GPU 0") == (
        "took 12.2 s, 3.04 s more than the usual 9.16 s: 2 stalls took 3.02 s (usually none). "
        "GPU 0 slowed by heat in 64 % of readings (usually 0 %); "
        "GPU 0 clock 1,200 MHz (usually 1,860)."
    )


def test_what_is_not_in_the_parts_that_are_named_is_said_too():
    parts = (EpochDifference("steps_s", 7.34, 1.42), EpochDifference("stalled_s", 1.17, 0.0, 3))
    slow = replace(STALLED, seconds=9.07, usual_s=2.0, parts=parts, causes=())
    assert epoch_comparison_text(slow) == (
        "took 9.07 s, 7.07 s more than the usual 2.00 s: its steps took 7.34 s (usually 1.42 s), "
        "3 stalls took 1.17 s (usually none). Nothing else that is compared differed."
    )
    assert ", all else 0.40 s more than usual." in epoch_comparison_text(replace(slow, rest_s=0.4))
    assert ", all else 0.40 s less than usual." in epoch_comparison_text(replace(slow, rest_s=-0.4))


def test_a_notice_that_came_in_it_is_part_of_what_is_said():
    notice = "0.6 s at the start of epoch 7: TensorFlow takes down the last epoch's input pipeline"
    opened = replace(
        STALLED, parts=(EpochDifference("opening_s", 0.64, 0.02),), causes=(), is_read=False
    )
    assert epoch_comparison_text(opened, notices=[notice]).endswith(
        f"its start took 0.64 s (usually 0.02 s). Notice in it: {notice}. "
        "The machine was read too seldom to compare what it did."
    )


def model(**changes):
    known = {"parameters": 1, "flops_per_sample": 1, "batch_size": 32, "samples_per_epoch": 60_000}
    return Model(**{**known, "steps_per_epoch": 1_875, "epochs": 3, "steps_cap": 50, **changes})


def test_an_epoch_of_as_many_steps_as_were_asked_for_is_not_called_cut_short():
    asked = replace(EPOCH, whole=False, steps=50)
    few = EpochComparison(asked, 4.0, None, False)
    assert epoch_comparison_text(few, model=model()) == (
        "took 4.00 s for 50 of 1,875 steps, limited by --steps; it takes 3 such epochs to say "
        "what is usual."
    )
    usual = EpochComparison(asked, 4.0, 4.0, False)
    assert epoch_comparison_text(usual, model=model()).startswith("took 4.00 s, as usual")
    assert steps_asked_for(asked, model(samples_per_epoch=0, steps_per_epoch=50)) == "50 steps"
    cut_off = replace(asked, steps=49)
    assert steps_asked_for(cut_off, model()) == steps_asked_for(asked, None) == ""
    assert steps_asked_for(replace(asked, steps=None), model()) == ""
    assert steps_asked_for(asked, model(steps_cap=None)) == ""


def test_where_the_first_batch_compiles_nothing_no_compilation_is_named():
    first = replace(STALLED, parts=(EpochDifference("compiling_s", 1.4, 0.0),))
    assert "compiling took 1.40 s of it" in epoch_comparison_text(first)
    of_first = replace(first, epoch=replace(first.epoch, epoch=0))
    text = epoch_comparison_text(of_first, compiles=False)
    assert "its first batch took 1.40 s more than a usual one" in text
    later = epoch_comparison_text(
        replace(first, epoch=replace(first.epoch, epoch=3)), compiles=False
    )
    assert "its first batch of another size took 1.40 s more than a usual one" in later
    assert "compil" not in text + later


def test_where_nothing_differed_that_is_said_and_no_cause_is_guessed():
    nothing = replace(STALLED, parts=(), causes=())
    assert epoch_comparison_text(nothing) == (
        "took 12.2 s, 3.04 s more than the usual 9.16 s. Nothing that is compared differed."
    )
    unread = replace(nothing, is_read=False)
    assert epoch_comparison_text(unread).endswith(
        "The machine was read too seldom to compare what it did."
    )


def test_a_usual_epoch_says_so():
    usual = replace(STALLED, seconds=9.161, is_slow=False, parts=(), causes=())
    assert epoch_comparison_text(usual).startswith("took 9.16 s, as usual.")
    quick = replace(usual, seconds=8.0)
    assert epoch_comparison_text(quick).startswith("took 8.00 s, 1.16 s less than the usual 9.16 s")


def test_what_is_usual_is_not_claimed_of_too_few_epochs_nor_of_one_that_was_cut_short():
    few = EpochComparison(EPOCH, 12.2, None, False)
    assert epoch_comparison_text(few, "pass") == (
        "took 12.2 s; it takes 3 whole passes to say what is usual."
    )
    cut = EpochComparison(replace(EPOCH, whole=False), 4.0, None, False)
    assert epoch_comparison_text(cut) == (
        "took 4.00 s and was cut short, so it is not compared with the others."
    )
    profiled = EpochComparison(replace(EPOCH, profiled=True), 4.0, None, False)
    assert epoch_comparison_text(profiled) == (
        "took 4.00 s with a profiler, so it is not compared with the others."
    )


@pytest.mark.parametrize("name", [*_LEAST, *_LEAST_DROPS])
def test_every_cause_has_words_with_both_figures(name):
    text = epoch_comparison_text(
        replace(STALLED, causes=(EpochDifference(name, 41.0, 12.0),)), gpu="GPU 1"
    )
    cause = text.rpartition("none). ")[2]
    assert "41" in cause
    assert "12" in cause


def test_every_part_has_words():
    for name in ("stalled", "opening", "waited", "compiling", "validation", "ending", "steps"):
        part = EpochDifference(f"{name}_s", 4.1, 1.2, 1)
        assert "took 4.10 s" in epoch_comparison_text(replace(STALLED, parts=(part,)))
