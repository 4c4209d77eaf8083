"""Tokens per second of a session, and what share of the tokens means something."""

from dataclasses import replace

import pytest
from fakes.recorded import folded
from fakes.scripts import script_session

from dlmon.comparison.compared_run import TOKENS_PER_SECOND, metric_of_script, timing_by
from dlmon.figures.session.ranks import rank_rows, rank_table
from dlmon.figures.session.tokens import rate_text, shares_text, tokens_text
from dlmon.protocol.job import Job
from dlmon.records import Model, RateNow, TokenShares
from dlmon.session.machine_history import EnergyMeter
from dlmon.supervisor.verdict import Ending, make_result

LENGTH = 64


def shares(tokens, not_padding, trained_on, why=None):
    return TokenShares(1, tokens, not_padding, trained_on, why=why or {})


def assert_so_many_times(tokens, samples, times):
    for name in ("median", "mean", "standard_error", "jitter", "band"):
        expected = getattr(samples, name) and getattr(samples, name) * times
        assert getattr(tokens, name) == pytest.approx(expected, rel=2e-4, abs=1e-9)


@pytest.mark.parametrize("trainers", [1, 2])
def test_their_rate_has_the_interval_of_the_samples_and_is_the_sum_of_all_ranks(trainers):
    session = folded(script_session(trainers=trainers, tokens=LENGTH))
    snapshot = session.snapshot()
    assert_so_many_times(snapshot.tokens_per_second, snapshot.samples_per_second, LENGTH)
    now = session.snapshot(session.last_t)
    assert now.tokens_per_second_now.per_second == pytest.approx(
        LENGTH * now.samples_per_second_now.per_second, rel=0.02
    )
    assert snapshot.epochs[0].tokens == LENGTH * snapshot.epochs[0].samples


@pytest.mark.parametrize(("tokens", "unit"), [(LENGTH, "tokens/s"), (None, "samples/s")])
def test_ranks_are_compared_by_their_tokens_where_samples_hold_any(tokens, unit):
    session = folded(script_session(trainers=2, tokens=tokens))
    snapshot = session.snapshot()
    assert rank_table(session, snapshot).headings[3] == unit
    rows = rank_rows(session, snapshot)
    total = snapshot.tokens_per_second if tokens else snapshot.samples_per_second
    assert sum(row.per_second for row in rows) == pytest.approx(total.mean)
    assert sum(row.share for row in rows) == pytest.approx(1)


def test_a_title_has_room_for_them_without_an_interval_as_the_samples_have_it():
    steady = folded(script_session(tokens=LENGTH)).snapshot()
    just_begun = replace(
        steady, tokens_per_second=None, tokens_per_second_now=RateNow(1234.5, "tokens/s")
    )
    unsure = replace(steady, tokens_per_second=replace(steady.tokens_per_second, band=None))
    mean = f"{steady.tokens_per_second.mean:,.0f} tokens/s"
    texts = [rate_text(snapshot) for snapshot in (steady, just_begun, unsure)]
    assert texts == [mean, "1,234 tokens/s", tokens_text(unsure)]


def test_what_holds_none_has_no_figure_and_no_row():
    snapshot = folded(script_session()).snapshot()
    assert (snapshot.tokens_per_second, snapshot.tokens_per_second_now) == (None, None)
    assert tokens_text(snapshot) == shares_text(snapshot) == ""
    assert timing_by(TOKENS_PER_SECOND, snapshot) is None


def test_a_script_without_epochs_is_compared_by_them():
    snapshot = folded(script_session(tokens=LENGTH)).snapshot()
    without = replace(snapshot, seconds_per_epoch=None)
    assert metric_of_script(without) == TOKENS_PER_SECOND
    assert timing_by(TOKENS_PER_SECOND, without).unit == "tokens/s"
    assert metric_of_script(replace(without, tokens_per_second=None)) == "samples_per_second"


def test_shares_are_of_all_tokens_that_were_looked_at_and_say_that_they_are_sampled():
    records = script_session(tokens=LENGTH)
    records += [shares(100, 90, 20), replace(shares(300, 150, 80), trainer=1)]
    snapshot = folded(records).snapshot()
    assert shares_text(snapshot) == "60 % not padding, 25 % trained on, sampled"
    assert tokens_text(snapshot).endswith("(60 % not padding, 25 % trained on, sampled)")
    known = folded([*records[:-2], shares(100, None, 20, {"not_padding": "no mask"})]).snapshot()
    assert shares_text(known) == "20 % trained on, sampled"
    ending = Ending(0, None, None, out_of_memory=False, is_script=True)
    job, meter = Job("train.py", ("true",), {}, "/tmp"), EnergyMeter()
    result = make_result(job, "log", known, meter, ending, known.header.t + 10**9, 1.0)
    assert (result.not_padding, result.why["not_padding"]) == (None, "no mask")


def test_what_may_be_no_tokens_is_said():
    records = [
        replace(record, tokens_inferred="taken for tokens") if isinstance(record, Model) else record
        for record in script_session(tokens=LENGTH)
    ]
    assert tokens_text(folded(records).snapshot()).endswith("(taken for tokens)")
