"""Energy per epoch, cost, effective operations and their share of the peak."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace

import pytest
from fakes.strategies import ANY_RECORDS
from hypothesis import given
from hypothesis import strategies as st

from dlmon.records import WITHOUT_EPOCHS, Cpu, Epoch, Gpu, Machine, Model, Throughput
from dlmon.session.effective import effective_of, peak_share
from dlmon.session.machine_history import (
    BEGAN_AGAIN,
    NO_READING,
    NO_WHOLE_EPOCH,
    NOT_READ_SINCE,
    READ_TOO_LATE,
    STANDS_STILL,
    TOO_SHORT,
    EnergyCounter,
    EnergyMeter,
    NotMeasured,
)
from dlmon.session.reasons import NO_PRICE
from dlmon.supervisor.verdict import measure

SECOND = 1_000_000_000
ON_CPU = Model(
    parameters=1,
    flops_per_sample=2_000_000,
    batch_size=100,
    samples_per_epoch=50_000,
    steps_per_epoch=500,
    epochs=3,
    device="cpu",
    mode="train",
)
ON_GPU = replace(ON_CPU, device="gpu:1")
RATE = Throughput(median=5100.0, mean=5000.0, standard_error=10.0, jitter=50.0)


def epoch(number: int, begin_s: float, end_s: float, whole: bool = True) -> Epoch:
    begin, end = int(begin_s * SECOND), int(end_s * SECOND)
    return Epoch(number, begin, end, end, whole, 50_000, {})


def sample(t_s: float, cpu: Cpu | None = None, **gpus_j: float | None) -> Machine:
    gpus = tuple(Gpu(int(name[-1]), energy_j=energy_j) for name, energy_j in gpus_j.items())
    return Machine(t=int(t_s * SECOND), wall=0.0, cpu=cpu, gpus=gpus or None)


def cpu_meter(*readings: tuple[float, float | str | None]) -> EnergyMeter:
    """Return a meter that was given (time in s, joules, or why not, or nothing)."""
    meter = EnergyMeter()
    for t_s, reported in readings:
        cpu = (
            Cpu(why={"energy_j": reported}) if isinstance(reported, str) else Cpu(energy_j=reported)
        )
        meter.add(sample(t_s, cpu))
    return meter


def steady(power_w: float, seconds: int) -> list[tuple[float, float]]:
    return [(t, 7000.0 + power_w * t) for t in range(seconds + 1)]


def measured(model=ON_CPU, epochs=(), energy=None, rate=RATE, others=(), **more):
    given_too = {"wall_s": 60.0, "price": None, "cpus": 2} | more
    effective = effective_of(model, rate, None, given_too.pop("peak_flop_s", None))
    of_machines = [(energy or EnergyMeter(), model.gpus if model else ()), *others]
    return SimpleNamespace(**measure(model, of_machines, epochs, effective, **given_too))


# Energy


def test_energy_of_several_machines_is_that_of_all_or_unknown():
    own, other = cpu_meter(*steady(40, 10)), cpu_meter(*steady(60, 10))
    made = [epoch(0, 2, 6)]
    found = measured(epochs=made, energy=own, others=[(other, ())])
    assert found.energy_j_per_epoch == {"cpu": pytest.approx(400)}
    unread = measured(epochs=made, energy=own, others=[(EnergyMeter(), ())])
    assert unread.energy_j_per_epoch is None
    assert "energy_j_per_epoch" in unread.why


@pytest.mark.parametrize(
    ("readings", "epochs", "joules"),
    [
        (steady(40, 10), [(2.5, 6.25)], 40 * 3.75),
        ([(t, 100.0 * t if t < 4 else 200.0 + 50.0 * t) for t in range(13)], [(0, 4), (4, 8)], 300),
        # A field that a sample leaves out has not changed.
        ([(t, 10.0 * t if t % 5 == 0 else None) for t in range(31)], [(7, 28)], 210),
        # Epochs across a break are left out.
        (
            [(t, 1000.0 + 10 * t if t < 10 else 7.0 * (t - 10)) for t in range(21)],
            [(1, 8), (8, 12), (12, 19)],
            (70 + 49) / 2,
        ),
    ],
)
def test_energy_is_the_mean_over_whole_epochs(readings, epochs, joules):
    made = [epoch(number, *times) for number, times in enumerate(epochs)]
    cut = epoch(9, 0, 1, whole=False)
    found = measured(epochs=[*made, cut], energy=cpu_meter(*readings))
    assert found.energy_j_per_epoch == {"cpu": pytest.approx(joules)}
    assert "energy_j_per_epoch" not in found.why


def test_a_session_on_a_gpu_reports_that_gpu_and_the_cpu():
    meter = EnergyMeter()
    for t in range(11):
        meter.add(sample(t, Cpu(energy_j=50.0 * t), gpu0=1e6 + 20.0 * t, gpu1=2e6 + 300.0 * t))
    found = measured(ON_GPU, [epoch(0, 1, 9)], meter)
    assert found.energy_j_per_epoch == {"gpu": pytest.approx(2400), "cpu": pytest.approx(400)}
    assert not [field for field in found.why if field.startswith("energy")]
    on_both = measured(replace(ON_GPU, device="gpu:0+1"), [epoch(0, 1, 9)], meter)
    assert on_both.energy_j_per_epoch == {"gpu": pytest.approx(2560), "cpu": pytest.approx(400)}
    on_cpu = measured(ON_CPU, [epoch(0, 1, 9)], meter)
    assert on_cpu.energy_j_per_epoch == {"cpu": pytest.approx(400)}


def test_what_is_not_measured_has_its_reason_beside_what_is():
    meter = EnergyMeter()
    for t in range(11):
        cpu = Cpu(why={"energy_j": "denied"}) if t == 0 else Cpu(pct=50.0)
        meter.add(sample(t, cpu, gpu1=300.0 * t))
    found = measured(ON_GPU, [epoch(0, 1, 9)], meter)
    assert found.energy_j_per_epoch == {"gpu": pytest.approx(2400)}
    assert found.why["energy_j_per_epoch.cpu"] == "denied"


def test_without_any_counter_both_reasons_are_reported():
    meter = EnergyMeter()
    lost = Machine(t=0, wall=0.0, cpu=Cpu(why={"energy_j": "denied"}), why={"gpus": "no driver"})
    meter.add(lost)
    found = measured(ON_GPU, [epoch(0, 1, 9)], meter)
    assert found.energy_j_per_epoch is None
    assert found.why["energy_j_per_epoch"] == "GPU: no driver; CPU: denied"


def test_a_gpu_without_a_number_is_the_only_one_there_is():
    meter = EnergyMeter()
    for t in range(11):
        meter.add(sample(t, gpu0=300.0 * t))
    unnumbered = replace(ON_GPU, device="gpu")
    found = measured(unnumbered, [epoch(0, 1, 9)], meter)
    assert found.energy_j_per_epoch == {"gpu": pytest.approx(2400)}
    for t in range(11, 22):
        meter.add(sample(t, gpu0=300.0 * t, gpu1=0.0))
    found = measured(unnumbered, [epoch(0, 1, 9)], meter)
    assert "which GPU was trained on is not known" in found.why["energy_j_per_epoch"]


@pytest.mark.parametrize(
    ("readings", "why"),
    [
        ([], NO_READING),
        ([(0, "denied")], "denied"),
        ([(2, 1.0), *[(t, float(t)) for t in range(3, 12)]], READ_TOO_LATE),
        ([(t, float(t)) for t in range(9)], NOT_READ_SINCE),
        ([(t, float(t) if t != 5 else "lost") for t in range(11)], "lost"),
        ([(t, float(t % 5)) for t in range(11)], BEGAN_AGAIN),
        ([(t, 5.0) for t in range(11)], STANDS_STILL),
        ([(0, 0.0), (4, 40.0), (10, 100.0)], TOO_SHORT),
    ],
)
def test_energy_that_cannot_be_known_says_why(readings, why):
    found = measured(epochs=[epoch(0, 1, 9)], energy=cpu_meter(*readings))
    assert found.energy_j_per_epoch is None
    assert found.why["energy_j_per_epoch"] == f"CPU: {why}"


def test_no_whole_epoch_has_no_energy():
    meter = cpu_meter(*steady(40, 10))
    for epochs in ([], [epoch(0, 1, 9, whole=False)], [epoch(0, 9, 9)]):
        found = measured(epochs=epochs, energy=meter)
        assert found.why["energy_j_per_epoch"] == NO_WHOLE_EPOCH


@pytest.mark.parametrize("mode", ["inference", "gradients"])
def test_a_mode_that_learns_nothing_has_no_energy_per_epoch(mode):
    model = replace(ON_CPU, mode=mode)
    found = measured(model, [epoch(0, 1, 9)], cpu_meter(*steady(40, 10)))
    assert found.energy_j_per_epoch is None
    assert found.why["energy_j_per_epoch"] == WITHOUT_EPOCHS[mode]


def test_a_day_of_readings_takes_no_more_memory_and_loses_nothing():
    counter, broken = EnergyCounter(), EnergyCounter()
    for t in range(140_000):
        counter.add(t * SECOND, 200.0 * t)
        broken.add(t * SECOND, -float(t))
    assert max(len(each.points.times) for each in (counter, broken)) <= 1 << 17
    epochs = [epoch(number, 9.0 * number + 1, 9.0 * number + 10) for number in range(15_000)]
    assert counter.per_epoch(epochs) == pytest.approx(1800.0)


LINE = st.lists(st.tuples(st.integers(1, 50), st.floats(0, 1e4)), min_size=3, max_size=40)


@given(LINE, st.data())
def test_the_energy_of_neighbouring_stretches_adds_up(steps, data):
    counter, t, joules = EnergyCounter(), 0, 0.0
    for dt, more in [(1, 0.0), *steps]:
        t, joules = t + dt, joules + more
        counter.add(t, joules)
    begin, end = sorted(data.draw(st.sets(st.integers(1, t), min_size=2, max_size=2)))
    whole, _ = counter.joules_between(begin, end)
    assert 0 <= whole <= joules * (1 + 1e-9)
    if end - begin > 1:
        middle = data.draw(st.integers(begin + 1, end - 1))
        first, _ = counter.joules_between(begin, middle)
        second, _ = counter.joules_between(middle, end)
        assert first + second == pytest.approx(whole, abs=1e-6)


BROKEN = st.lists(st.one_of(st.none(), st.floats(0, 1e4)), min_size=2, max_size=12)


@given(BROKEN, st.data())
def test_energy_is_known_between_two_times_where_each_reading_between_them_rose(said, data):
    counter = EnergyCounter()
    for t, joules in enumerate(said):
        counter.add(10 * t, joules, breaks=joules is None)
    begin, end = sorted(data.draw(st.sets(st.integers(0, 10 * len(said)), min_size=2, max_size=2)))
    between = said[begin // 10 : -(-end // 10) + 1]
    is_known = end <= 10 * (len(said) - 1) and None not in between and between == sorted(between)
    if is_known:
        first, last = (
            said[t // 10] + (t % 10) / 10 * (said[-(-t // 10)] - said[t // 10])
            for t in (begin, end)
        )
        assert counter.joules_between(begin, end)[0] == pytest.approx(last - first, abs=1e-6)
    else:
        with pytest.raises(NotMeasured):
            counter.joules_between(begin, end)


# Operations and the peak


def test_effective_operations_are_those_of_a_sample_times_the_mean_rate():
    found = measured(peak_flop_s=4e10)
    assert (found.effective_flop_s, found.peak_share) == (1e10, 0.25)
    assert "dlmon doctor --calibrate" in measured().why["peak_share"]
    broke = replace(ON_CPU, why={"peak_flop_s": "it broke"})
    assert measured(broke).why["peak_share"] == "it broke"
    faster = measured(peak_flop_s=5e9)
    assert faster.peak_share is None
    assert "2 times" in faster.why["peak_share"]
    assert "calibrate again" in faster.why["peak_share"]


@pytest.mark.parametrize(
    ("model", "rate", "why"),
    [
        (None, RATE, "before the model was built"),
        (replace(ON_CPU, flops_per_sample=None), RATE, "not counted"),
        (replace(ON_CPU, flops_per_sample=None, why={"flops_per_sample": "no"}), RATE, "no"),
        (replace(ON_CPU, flops_per_sample=0), RATE, "no operation"),
        (ON_CPU, None, "not steady"),
    ],
)
def test_without_a_rate_or_a_count_both_have_the_same_reason(model, rate, why):
    found = measured(model, rate=rate, peak_flop_s=4e10)
    assert (found.effective_flop_s, found.peak_share) == (None, None)
    assert why in found.why["effective_flop_s"]
    assert found.why["peak_share"] == found.why["effective_flop_s"]


@given(st.floats(1, 1e18), st.floats(allow_nan=True))
def test_a_share_is_above_zero_and_at_most_one(flop_s, peak):
    share, why = peak_share(flop_s, peak)
    assert share is None if why else 0 < share <= 1


# Cost


def test_cost_is_price_times_wall_time():
    assert measured(price="0.5", wall_s=720.0).cost_usd == pytest.approx(0.1)
    assert measured(price="0.5/cpu", wall_s=720.0, cpus=3).cost_usd == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("price", "cpus", "why"),
    [
        (None, 2, NO_PRICE),
        ("free", 2, '"free" is not a price'),
        ("0.5/cpu", None, "the number of CPUs is not known"),
    ],
)
def test_a_cost_that_cannot_be_known_says_why(price, cpus, why):
    found = measured(price=price, cpus=cpus)
    assert found.cost_usd is None
    assert why in found.why["cost_usd"]


# Whatever comes in


@pytest.mark.slow
@given(ANY_RECORDS, st.none() | st.just(RATE), st.floats(), st.none() | st.text(max_size=3))
def test_any_records_give_finite_figures_or_reasons(records, rate, wall_s, price):
    meter, model, epochs = EnergyMeter(), None, []
    for record in records:
        if isinstance(record, Machine):
            meter.add(record)
        elif isinstance(record, Model):
            model = record
        elif isinstance(record, Epoch):
            epochs.append(record)
    found = measured(model, epochs, meter, rate, wall_s=wall_s, price=price, peak_flop_s=1e12)
    for name in ("energy_j_per_epoch", "cost_usd", "effective_flop_s", "peak_share"):
        value = getattr(found, name)
        assert (value is None) == (name in found.why)
    figures = [found.cost_usd, found.effective_flop_s, found.peak_share]
    figures += (found.energy_j_per_epoch or {}).values()
    assert all(math.isfinite(figure) for figure in figures if figure is not None)
