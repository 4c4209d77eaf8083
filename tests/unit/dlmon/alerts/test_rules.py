"""A cause that lasts is told once, and once more when it is over."""

from dataclasses import replace
from itertools import pairwise

import pytest
from fakes.recorded import folded, recorded_machine, recorded_session
from fakes.strategies import FEW_EXAMPLES
from hypothesis import given
from hypothesis import strategies as st

from dlmon.alerts.alert_settings import AlertSettings
from dlmon.alerts.rules import (
    GIB,
    Cause,
    RuleInputs,
    RuleState,
    advance,
    alerts_of_end,
    duration_text,
    evaluate,
)
from dlmon.records import (
    Alert,
    AlertEvent,
    Batches,
    FailureKind,
    Gpu,
    GpuState,
    Machine,
    Metrics,
    Notice,
    Phase,
    Result,
    Status,
    StopCause,
    Throughput,
)
from dlmon.session.gaps import Gap, GapKind, notices_in

S = 10**9
SETTINGS = AlertSettings(url=("https://ntfy.sh/x",))


def cause(holds, lasts_s=0.0, since=None):
    return Cause(AlertEvent.SLOWER, holds, "It is slow", "It is fast", (), lasts_s, since=since)


def told(causes, settings=SETTINGS, step_s=1.0):
    """Return what is told of causes that are looked at every so often."""
    state, alerts = RuleState(), []
    for number, each in enumerate(causes):
        state, alert = advance(state, each, round(number * step_s * S), settings)
        alerts += [alert] if alert is not None else []
    return alerts


# ---- one event, one end ----


def test_a_cause_is_told_once_it_has_lasted_and_its_end_once_it_stays_away():
    alerts = told([cause(True, 5)] * 20 + [cause(False, 5)] * 60)
    assert [(alert.over, alert.t // S, alert.since // S) for alert in alerts] == [
        (False, 5, 0),
        (True, 50, 0),
    ]
    assert alerts[1].text == "It is fast, after 20 s"


def test_a_short_interruption_of_what_has_to_last_long_does_not_count():
    causes = [*[cause(True, 100)] * 60, *[cause(False, 100)] * 3, *[cause(True, 100)] * 60]
    assert [alert.since for alert in told(causes)] == [0]


def test_what_is_not_known_neither_begins_nor_ends_anything():
    assert told([cause(None)] * 100) == []
    assert len(told([cause(True), *[cause(None)] * 100])) == 1
    assert told([*[cause(True, 10)] * 5, *[cause(None, 10)] * 20, cause(True, 10)]) == []


HOLDS = st.lists(st.sampled_from([True, False, None]), max_size=200)


@given(HOLDS, st.floats(0, 20), st.floats(0, 20), st.floats(0.1, 5))
def test_an_event_and_its_end_alternate(holds, lasts_s, over_s, step_s):
    settings = replace(SETTINGS, over_s=over_s)
    alerts = told([cause(one, lasts_s) for one in holds], settings, step_s)
    assert [alert.over for alert in alerts] == [number % 2 == 1 for number in range(len(alerts))]
    for begin, end in zip(alerts[::2], alerts[1::2], strict=False):
        assert begin.since == end.since <= begin.t
        assert begin.t - begin.since >= lasts_s * S
        assert end.t - begin.t >= over_s * S
    assert all(before.t <= after.t for before, after in pairwise(alerts))


@given(st.lists(st.booleans(), min_size=1, max_size=200))
def test_what_comes_and_goes_faster_than_it_is_over_is_told_once(holds):
    """However it flickers, there is never so long a time without it."""
    flickering = [one for hold in holds for one in (True, hold)]
    assert len(told([cause(one) for one in flickering], replace(SETTINGS, over_s=2))) == 1


@FEW_EXAMPLES
@given(st.lists(st.floats(60, 87), min_size=1, max_size=100))
def test_a_throughput_between_its_two_thresholds_changes_nothing(rates):
    slow = [*[60.0] * 330, *rates]
    assert [one.event for one in slower(slow)] == [AlertEvent.SLOWER]


def slower(shares_pct):
    """Return what is told of a run that has such shares of its throughput, each for a second."""
    states, alerts, session = {}, [], training(seconds=60)
    end, step = BEGAN + 60 * S, 600
    for share in shares_pct:
        dt_us = round(100_000 / share * 100)
        count = round(S / 1000 / dt_us)
        session.add(Batches(0, step, 100, end + dt_us * 1000, (dt_us,) * count))
        end, step = end + dt_us * count * 1000, step + count
        states, more = evaluate(RuleInputs(session, end, SETTINGS, states))
        alerts += more
    return [one for one in alerts if one.event is AlertEvent.SLOWER]


# ---- each rule ----


def second_of_training(number):
    """Return the ten batches of a second."""
    begin = BEGAN + (number - 1) * S
    return Batches(0, (number - 1) * 10, 100, begin + 100_000_000, (100_000,) * 10)


HEADER = recorded_session()[0]
BEGAN = HEADER.t
MODEL = next(one for one in recorded_session() if one.TYPE == "model")


def training(seconds, *more):
    session = folded((HEADER, replace(MODEL, device="gpu:0"), Phase(BEGAN, "training")))
    for number in range(1, seconds + 1):
        session.add(second_of_training(number))
    for record in more:
        session.add(record)
    return session


def events(session, at_s, settings=SETTINGS, states=None, disk=None):
    known = RuleInputs(session, BEGAN + round(at_s * S), settings, states or {}, disk)
    states, alerts = evaluate(known)
    return [alert.event.value for alert in alerts], states


def test_a_run_stalls_once_no_batch_has_ended_for_a_minute_or_ten_steps():
    session = training(20)
    assert events(session, 79)[0] == []
    known = RuleInputs(session, BEGAN + 81 * S, SETTINGS)
    _, (alert,) = evaluate(known)
    assert (alert.event, alert.text) == (AlertEvent.STALLED, "STALLED: no batch for 61 s")
    assert alert.since == BEGAN + 20 * S
    assert alert.figures == ("epoch 1, after step 200", "a step usually takes 100 ms")
    impatient = replace(SETTINGS, stalled_s=0.5)
    assert events(session, 20.9, impatient)[0] == []
    assert events(session, 21.1, impatient)[0] == ["stalled"]


def test_steps_that_take_long_as_a_rule_are_a_stall_from_twice_their_time_on():
    session = training(5)
    for number in range(5):
        end = session.last_t + 100_000_000
        session.add(Batches(0, 50 + 20 * number, 100, end, (*(100_000,) * 19, 60_100_000)))
    at_s = (session.last_t - BEGAN) / S
    assert events(session, at_s + 119)[0] == []
    assert events(session, at_s + 121)[0] == ["stalled"]


@pytest.mark.parametrize("phase", ["validating", "compiling", "script", "evaluating"])
def test_compiling_and_validating_is_no_stall(phase):
    assert events(training(20, Phase(BEGAN + 20 * S, phase)), 500)[0] == []


def test_training_that_went_on_after_a_validation_counts_from_then_on():
    after = (Phase(BEGAN + 20 * S, "validating"), Phase(BEGAN + 300 * S, "training"))
    assert events(training(20, *after), 355)[0] == []
    assert events(training(20, *after), 361)[0] == ["stalled"]


def test_a_stall_is_over_once_batches_end_again():
    session = training(20)
    _, states = events(session, 81)
    for number in range(81, 120):
        session.add(second_of_training(number + 1))
        found, states = events(session, number + 1, states=states)
        if found:
            break
    assert (found, number) == (["stalled"], 81 + SETTINGS.over_s)


def test_a_slow_run_is_told_after_five_minutes_with_both_figures():
    assert slower([60] * 290) == slower([75] * 600) == []
    (alert,) = slower([60] * 330)
    assert alert.text.startswith("Slower for 5 min, 60 % of before")
    assert alert.figures == ("600 samples/s now", "1,000 samples/s before")


def test_texts_that_get_longer_are_not_slower_and_are_told_by_their_tokens():
    """Of samples that hold twice as many tokens, half as many a second are as fast as before."""
    states, alerts, session = {}, [], training(1)
    end, step = BEGAN + S, 10
    for second in range(1200):
        dt_us, tokens = 100_000 if second < 60 else 200_000, 10_000 if second < 60 else 20_000
        if second > 600:
            tokens = 10_000
        count = S // (dt_us * 1000)
        batches = Batches(0, step, 100, end + dt_us * 1000, (dt_us,) * count, tokens=tokens)
        session.add(batches)
        end, step = end + S, step + count
        states, more = evaluate(RuleInputs(session, end, SETTINGS, states))
        alerts += [(second, one) for one in more if one.event is AlertEvent.SLOWER]
    [(second, alert)] = alerts
    assert 600 + SETTINGS.slower_s <= second <= 620 + SETTINGS.slower_s
    assert alert.figures == ("50,000 tokens/s now", "100,000 tokens/s before")


def test_a_loss_that_is_no_number_is_told_and_that_it_is_one_again():
    bad = Metrics(BEGAN + 21 * S, {"loss": None}, why={"loss": "NaN"})
    session = training(20, bad)
    found, states = events(session, 21)
    assert found == ["nan"]
    session.add(Metrics(BEGAN + 22 * S, {"loss": 0.5}))
    _, states = events(session, 22, states=states)
    assert events(session, 53, states=states)[0] == ["nan"]


def gpu_events(seconds, reading, settings=SETTINGS):
    session, states, found = training(20), {}, []
    for number in range(20, 20 + seconds):
        sample = Machine(BEGAN + number * S, HEADER.wall, gpus=(reading(number - 20),))
        session.add(sample)
        alerts, states = events(session, number, replace(settings, stalled_s=1e6), states)
        found += alerts
    return found


BUSY = Gpu(0, utilization_pct=90, state=GpuState.ANSWERS)
HOT = replace(BUSY, throttle=("hardware thermal slowdown",))
FAULTY = replace(BUSY, xid_errors=1, xids=(79,))
IS_LOST = Gpu(0, state=GpuState.LOST, why={"utilization_pct": "GPU is lost"})
ASLEEP = Gpu(0, state=GpuState.ASLEEP, why={"utilization_pct": "asleep"})


@pytest.mark.parametrize(
    ("seconds", "reading", "found"),
    [
        # A GPU of the run is idle after ten minutes below five percent.
        (590, lambda s: Gpu(0, utilization_pct=4), []),
        (610, lambda s: Gpu(0, utilization_pct=4), ["gpu_idle"]),
        (610, lambda s: Gpu(0, utilization_pct=5), []),
        (610, lambda s: Gpu(1, utilization_pct=0), []),
        # One is hot after two minutes of slowing by heat.
        (110, lambda s: HOT, []),
        (130, lambda s: HOT, ["gpu_hot"]),
        (130, lambda s: replace(BUSY, throttle=("power cap",)), []),
        # That one is lost is told, and that it is back; one that sleeps is not lost.
        (80, lambda s: IS_LOST if 5 <= s < 30 else BUSY, ["gpu_lost", "gpu_lost"]),
        (60, lambda s: ASLEEP, []),
        # An error of the driver is told at once, that no other one came, and then the next one.
        (20, lambda s: replace(BUSY, xid_errors=0, xids=()), []),
        (20, lambda s: FAULTY if s >= 5 else BUSY, ["gpu_error"]),
        (80, lambda s: FAULTY if s >= 5 else BUSY, ["gpu_error", "gpu_error"]),
        (
            90,
            lambda s: replace(FAULTY, xid_errors=1 + (s >= 80)) if s >= 5 else BUSY,
            ["gpu_error"] * 3,
        ),
        # The sensors began again, and count anew.
        (80, lambda s: FAULTY if s < 50 else replace(BUSY, xid_errors=0), ["gpu_error"] * 2),
    ],
)
def test_what_becomes_of_a_gpu_is_told_once_it_has_lasted(seconds, reading, found):
    assert gpu_events(seconds, reading) == found


def test_an_error_of_a_gpu_is_told_with_what_its_maker_means_by_it():
    session = training(20)
    gpu = replace(FAULTY, xid_errors=3)
    session.add(Machine(BEGAN + 20 * S, HEADER.wall, gpus=(gpu,)))
    _, (alert,) = evaluate(RuleInputs(session, session.last_t, SETTINGS))
    assert (alert.text, alert.figures) == (
        "GPU 0: Xid 79: it has fallen off the bus",
        ("3 errors",),
    )


def test_a_gpu_is_idle_though_samples_that_are_taken_often_come_late():
    session = training(20)
    session.machine.interval_s = 0.2
    session.add(Machine(BEGAN + 20 * S, HEADER.wall, gpus=(Gpu(0, utilization_pct=2),)))
    settings = replace(SETTINGS, stalled_s=1e6, gpu_idle_s=0)
    assert events(session, 21.5, settings)[0] == ["gpu_idle"]
    assert events(session, 22.5, settings)[0] == []


def test_a_recording_tells_of_every_gpu_but_of_none_that_it_is_idle():
    records = recorded_machine()
    session = folded(records)
    settings = replace(SETTINGS, gpu_hot_s=0, gpu_idle_s=0, gpu_idle_pct=100)
    hot = tuple(
        Gpu(gpu.index, utilization_pct=1, throttle=("thermal slowdown",))
        for gpu in session.facts.gpus
    )
    session.add(Machine(session.last_t + S, HEADER.wall, gpus=hot))
    _, alerts = evaluate(RuleInputs(session, session.last_t, settings))
    assert {(alert.event.value, alert.gpu) for alert in alerts} == {
        ("gpu_hot", gpu.index) for gpu in hot
    }


@pytest.mark.parametrize(
    ("total_gib", "free_gib", "told"),
    [
        (100, [6], []),
        (1000, [4], ["disk"]),
        (1000, [30], ["disk"]),
        (1000, [60], []),
        (20, [4.9], ["disk"]),
        # It has room again once there is clearly more.
        (50, [4, 6, 6], ["disk"]),
        (50, [4, 20, 20], ["disk", "disk"]),
    ],
)
def test_a_disk_is_full_with_less_than_five_percent_or_five_gib(total_gib, free_gib, told):
    session, states, found = training(20, Phase(BEGAN + 20 * S, "validating")), None, []
    for number, free in enumerate(free_gib):
        space = total_gib * GIB, (total_gib - free) * GIB, free * GIB
        alerts, states = events(session, 20 + 31 * number, states=states, disk=space)
        found += alerts
    assert found == told


def test_an_event_that_is_not_asked_for_is_not_told():
    settings = replace(SETTINGS, events=("finished",))
    assert events(training(20), 500, settings)[0] == []


# ---- the end ----


def ended(**changes):
    session = training(20)
    result = replace(recorded_session(status="completed")[-1], **changes)
    assert isinstance(result, Result)
    return alerts_of_end(session, result, BEGAN + 300 * S, SETTINGS)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, [(AlertEvent.FINISHED, "Finished after 5 min")]),
        *(
            (
                {"status": Status.FAILED, "failure": kind, "error": "why"},
                [(AlertEvent.FAILED, f"{words} after 5 min: why")],
            )
            for kind, words in (
                (FailureKind.OUT_OF_MEMORY, "OUT OF MEMORY"),
                (FailureKind.KILLED, "FAILED"),
                (FailureKind.EXCEPTION, "FAILED"),
                (FailureKind.UNKNOWN, "FAILED"),
            )
        ),
        # Who stopped a run is not told of it.
        ({"status": Status.STOPPED, "stopped_by": StopCause.CTRL_C}, []),
        (
            {"status": Status.STOPPED, "stopped_by": StopCause.SIGNAL},
            [(AlertEvent.FINISHED, "Stopped after 5 min (signal)")],
        ),
    ],
)
def test_the_end_of_a_run_is_told_with_why(changes, told):
    alerts = ended(**changes)
    assert [(alert.event, alert.text) for alert in alerts] == told
    assert all(len(alert.figures) == 2 for alert in alerts if not changes)


@pytest.mark.parametrize(
    ("seconds", "words"), [(41, "41 s"), (119, "119 s"), (780, "13 min"), (7500, "2 h 5 min")]
)
def test_how_long_something_lasted_is_written_short(seconds, words):
    assert duration_text(seconds) == words


# ---- what a session shows of them ----


def test_an_alert_stands_among_the_notices_but_explains_no_gap_nor_stands_beside_a_result():
    text = "STALLED: no batch for 61 s"
    told = Alert(BEGAN + 81 * S, AlertEvent.STALLED, text, BEGAN, False, ("a", "b"))
    over = Alert(BEGAN + 83 * S, AlertEvent.FINISHED, "Finished", BEGAN, False, ())
    session = training(20, told, Notice(BEGAN + 82 * S, "the sensors were restarted"))
    assert session.newest_alert == told
    session.add(over)
    notices = session.snapshot().notices
    assert [notice.text for notice in notices] == [
        "alert: STALLED: no batch for 61 s (a; b)",
        "the sensors were restarted",
    ]
    gap = Gap(BEGAN + 20 * S, BEGAN + 90 * S, GapKind.STALL)
    assert notices_in(gap, notices) == ("the sensors were restarted",)


@pytest.mark.parametrize(
    ("peak", "told"),
    [
        ((None, None), "41,200 tokens/s"),
        ((0.382, "measured"), "41,200 tokens/s, 38.2 % of the measured peak"),
        ((0.382, "NVIDIA"), "41,200 tokens/s, 38.2 % of NVIDIA's peak"),
    ],
)
def test_the_end_of_a_language_model_is_told_with_its_tokens_and_their_share_of_the_peak(
    peak, told
):
    share, said_by = peak
    tokens = Throughput(41_200.0, 41_200.0, None, 0.0, unit="tokens/s")
    changes = {"epochs": 3, "tokens_per_second": tokens, "peak_share": share, "peak_from": said_by}
    (alert,) = ended(**changes)
    assert alert.figures == ("3 epochs", told)
