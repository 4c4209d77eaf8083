"""How figures are written: one table of examples for each kind."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlmon.comparison.compared_run import timing_of_step
from dlmon.comparison.conditions import cores
from dlmon.figures import units
from dlmon.figures.session.phases import phase_text
from dlmon.records import RunSeconds, SecondsPerEpoch, StepTime, Throughput

# What writes a figure, and what it writes of each value; several arguments are a tuple.
WRITTEN = {
    units.millions: {101_770: "0.10 M", 1_337_002: "1.34 M", 60e6: "60.0 M", 146e6: "146 M"},
    units.seconds: {
        0: "0.00 s", 0.854: "0.85 s", 36.4: "36.4 s", 382.4: "382 s", 9.994: "9.99 s",
        9.996: "10.0 s", 99.94: "99.9 s", 99.96: "100 s", 12_345.6: "12,346 s",
    },
    units.milliseconds: {0.854: "0.85 ms", 36.4: "36.4 ms", 1_240.3: "1,240 ms"},
    units.step_time: {3.584: "3.58 ms", 42.1: "42.1 ms", 999: "999 ms", 1118: "1.12 s"},
    units.dollars: {
        0: "0.00 USD", 1.234: "1.23 USD", 12_345.6: "12,345.60 USD", 0.5: "0.50 USD",
        0.0123: "0.012 USD", 0.000418: "0.00042 USD", 9e-9: "9.0e-09 USD",
    },
    units.energy: {
        0: "0 J", 85.2: "85.2 J", 999.4: "999 J", 999.7: "1 kJ", 1234: "1.23 kJ", 999_700: "1 MJ",
        2e9: "2 GJ", 5e12: "5,000 GJ",
    },
    units.clock: {
        0: "00:00", -3: "00:00", 72: "01:12", 3599.9: "59:59", 3600: "1:00:00", 90_000: "25:00:00",
    },
    units.rate: {
        0.0: "0", 0.0123: "0.0123", 12.34: "12.3", 99.96: "100", 5540.4: "5,540",
        1_234_567: "1,234,567",
    },
    units.metric: {
        0.0: "0.0000", 2.30259: "2.3026", -1.5: "-1.5000", 999.99994: "999.9999",
        12_345.678: "1.235e+04", 0.00012: "0.00012", 1e300: "1e+300",
    },
    units.percent: {None: "–", 0.0: "0 %", 96.6: "97 %"},
    units.share: {
        0.0: "0 %", 0.00005: "under 0.1 %", 0.0057: "0.57 %", 0.059: "5.9 %", 0.54: "54 %",
    },
    units.gibibytes: {None: "–", 0: "0.0 GiB", 10: "10 MiB", 52: "0.1 GiB", 4850: "4.7 GiB"},
    units.memory_in_use: {
        (4850, 6144): "4.7 of 6.0 GiB", (None, 6144): "– of 6.0 GiB", (4850, None): "4.7 GiB",
    },
    units.short_memory_in_use: {
        (0, 6_078): "0.0/6G", (81_000, 81_559): "79.1/80G", (2_970, 143_771): "2.9/140G",
        (10_200, 143_771): "10/140G", (142_000, 143_771): "139/140G", (500, 1_536): "0.5/1.5G",
    },
    units.count: {
        0: "0", 101_770: "101,770", 999_999.4: "999,999", 999_999.6: "1 M", 1_234_567: "1.23 M",
        238e6: "238 M", 999_700_000: "1 G", 2e12: "2 T", 5e15: "5,000 T",
    },
    units.size: {
        0: "0 B", 999: "999 B", 1_000: "1.0 kB", 21_400: "21 kB", 999_600: "1.0 MB",
        2_150_000_000: "2.1 GB", 10**13: "10000.0 GB",
    },
    units.counted: {(1, "epoch"): "1 epoch", (2, "epoch"): "2 epochs", (2, "batch"): "2 batches"},
    cores: {1.0: "1 core", 0.5: "0.5 cores", 4 / 3: "1.33 cores", 192: "192 cores"},
    units.stalls: {
        (1, 0): "1 stall", (1200, 0): "1,200 stalls", (1, 1): "1 stall at the start of an epoch",
        (12, 1): "12 stalls, 1 at the start of an epoch",
        (1200, 7): "1,200 stalls, 7 at the start of epochs",
    },
    units.device: {
        "NVIDIA GeForce GTX 1080 Ti": "NVIDIA GTX 1080 Ti",
        "NVIDIA RTX A Workstation Edition": "NVIDIA RTX A",
        "Intel(R) Core(TM) i7-9700K CPU @ 3.60GHz": "Intel i7-9700K",
        "CPU Intel(R) Xeon(R) Gold 6330 CPU @ 2.00GHz": "CPU Intel Xeon Gold 6330",
        "Intel(R) Core(TM) Ultra 7 155H": "Intel Core Ultra 7 155H",
        "AMD Ryzen 7 3700X 8-Core Processor": "AMD Ryzen 7 3700X",
        "Colab GPU (model not stated)": "Colab GPU",
        "8 vCPU Skylake (Google Cloud highcpu, preemptible)":
            "8 vCPU Skylake (Google Cloud highcpu, preemptible)",
        "CPU": "CPU", "Processor": "Processor", "": "",
    },
}  # fmt: skip


@pytest.mark.parametrize("write", WRITTEN, ids=lambda write: write.__name__)
def test_a_figure_is_written_the_way_people_read_it(write):
    for value, text in WRITTEN[write].items():
        assert write(*value if isinstance(value, tuple) else (value,)) == text


def test_the_time_of_a_batch_is_written_in_its_own_unit():
    timing = timing_of_step(StepTime(median=3, p95=7.9, mean=3.234), None)
    assert units.duration(timing) == units.band(timing) == "3.23 ms"
    rate = Throughput(median=100, mean=100, standard_error=None, jitter=0, band=5)
    timing = timing_of_step(StepTime(median=3, p95=7.9, mean=3.234), rate)
    assert units.band(timing) == "3.23 ms ± 0.17"
    assert units.duration(RunSeconds(9.02, 9, 9.1, False)) == "9.02 s"


@pytest.mark.parametrize(
    ("value", "low", "high", "projected", "text"),
    [
        (9.02, 8.97, 9.07, False, "9.02 s ± 0.05"),
        (9.02, 8.97, 9.07, True, "~ 9.02 s ± 0.05"),
        (9.02, 9.02, 9.02, False, "9.02 s"),
        (9.02, 9.019, 9.021, False, "9.02 s ± 0.01"),
        (382.4, 360.0, 400.0, False, "382 s ± 22"),
        (10.656, 10.644, 10.668, False, "10.66 s ± 0.01"),
        (36.4, 34.0, 38.8, False, "36.4 s ± 2.4"),
        (382.43, 382.41, 382.45, False, "382.4 s ± 0.1"),
        (382.4, 378.2, 386.6, False, "382 s ± 4"),
        (12_345.6, 12_345.5, 12_345.7, False, "12,346 s ± 1"),
        (6.86, 0.0, 13.72, False, "6.86 s ± 6.86"),
        (6.86, 0.0, 90.0, True, "~ 6.86 s ± 83"),
        (6.86, 3.44, 10.28, False, "6.86 s ± 3.42"),
    ],
)
def test_a_time_with_its_band(value, low, high, projected, text):
    assert units.band(SecondsPerEpoch(value, low, high, 3, projected)) == text
    assert units.band(RunSeconds(value, low, high, projected)) == text


def test_the_first_epoch_alone_has_no_band_as_no_other_tells_how_much_it_varies():
    first = SecondsPerEpoch(10.66, 10.65, 10.67, epochs=1, projected=False)
    assert units.band(first) == "10.7 s"
    assert units.band(replace(first, first_left_out=True)) == "10.66 s ± 0.01"


@given(st.floats(0.01, 1e6), st.floats(1e-6, 1e6))
def test_a_figure_lies_within_its_own_band_as_both_are_shown(value, half):
    timing = RunSeconds(value, max(0.0, value - half), value + half, False)
    figure, _, shown = units.band(timing).replace(",", "").partition(" s ± ")
    if shown:
        assert abs(float(figure) - value) <= float(shown)
        assert float(shown) >= 10 or len(figure.partition(".")[2]) == len(shown.partition(".")[2])
        assert len(figure.replace(".", "")) <= 4 or value >= 999


@given(st.floats(0.01, 1e6), st.floats(0, 1e6))
def test_a_figure_whose_band_reaches_down_to_zero_is_uncertain(value, above):
    rate = Throughput(median=1, mean=value, standard_error=None, jitter=0, band=above)
    text = units.throughput(rate).removesuffix(" samples/s").replace(",", "")
    mean, _, half = text.partition(" ± ")
    assert not half or float(half) < float(mean) or units.with_band(rate).is_uncertain


@pytest.mark.parametrize(
    ("mean", "band", "text"),
    [
        (5540.2, 24.6, "5,540 ± 25 samples/s"),
        (8740.0, 44_057.0, "8,740 ± 44,057 samples/s"),
        (891.0, 446.0, "891 ± 446 samples/s"),
        (891.0, 440.0, "891 ± 440 samples/s"),
        (5540.2, 3.02, "5,540 ± 3 samples/s"),
        (5540.2, 0.932, "5,540 ± 1 samples/s"),
        (12.34, 0.0441, "12.34 ± 0.04 samples/s"),
        (0.0123, 0.00044, "0.01230 ± 0.00044 samples/s"),
        (12.34, 2.44, "12.3 ± 2.4 samples/s"),
        (12.34, None, "12.3 samples/s"),
        (45_286.0, 1234.4, "45,286 ± 1,234 samples/s"),
    ],
)
def test_a_throughput_has_a_band_of_95_percent_and_no_more_digits_than_mean_anything(
    mean, band, text
):
    measured = Throughput(mean, mean, 1.0, 1.0, band)
    assert units.throughput(measured) == text


@pytest.mark.parametrize(
    ("band", "room", "text"),
    [
        (24.6, 20, "5,540 ± 25 samples/s"),
        (24.6, 19, "5,540 samples/s"),
        (24.6, 3, "5,540/s"),
        (2769.0, 80, "5,540 ± 2,769 samples/s"),
        (2771.0, 80, "5,540 samples/s"),
        (13_349.0, 80, "5,540 samples/s"),
        (None, 80, "5,540 samples/s"),
    ],
)
def test_a_band_that_says_nothing_or_has_no_room_is_left_out(band, room, text):
    measured = Throughput(5540.2, 5540.2, 1.0, 1.0, band)
    assert units.throughput_within(measured, room) == text


@given(st.just(0.0) | st.floats(1e-4, 1e18))
def test_no_figure_is_written_with_an_exponent(value):
    timing = RunSeconds(value, value / 2, value * 1.5, False)
    measured = Throughput(value, value, 1.0, 1.0, value / 10)
    for text in (
        *(write(value) for write in (units.seconds, units.milliseconds, units.step_time)),
        *(write(value) for write in (units.dollars, units.energy, units.rate, units.count)),
        *(write(value) for write in (units.percent, units.share, units.gibibytes, cores)),
        units.ratio(value),
        *(write(timing) for write in (units.band, units.duration)),
        units.size(int(value)),
        units.throughput(measured),
        units.memory_in_use(value, value),
        units.short_memory_in_use(value, max(1, value)),
    ):
        assert not re.search(r"\de[+-]?\d", text), text


def test_a_day_and_time_or_none_that_can_be(utc):
    days = {1_795_186_560.0: "2026-11-20 14:56", 0.0: "1970-01-01 00:00", 1e300: "–", -1e300: "–"}
    assert {wall: units.day_and_time(wall) for wall in days} == days
    assert (units.time_of_day(1_795_186_563.0), units.time_of_day(1e300)) == ("14:56:03", "–")


def test_a_moment_is_shown_as_shortly_as_its_distance_allows(utc):
    now, hour, day = 1_795_186_560.0, 3600, 86_400
    moments = {0: "14:56", 14 * hour: "00:56", 24 * hour: "19 Nov 14:56", -hour: "15:56"}
    moments |= {319 * day: "5 Jan 14:56", 400 * day: "2025-10-16"}
    assert {ago_s: units.moment(now - ago_s, now) for ago_s in moments} == moments


def test_an_epoch_far_beyond_the_others_is_named_beside_what_is_usual():
    epoch = SecondsPerEpoch(3.56, 0.0, 8.9, 5, False, median=1.6, slow=1, longest=9.6)
    assert units.usual_epoch(epoch) == "usually 1.60 s, once 9.60 s"
    assert units.usual_epoch(replace(epoch, slow=2)) == "usually 1.60 s, 2 times up to 9.60 s"
    assert (
        units.usual_epoch(replace(epoch, slow=0))
        == units.usual_epoch(replace(epoch, median=None))
        == ""
    )


@pytest.mark.parametrize(
    ("phase", "text"),
    [("training", "training"), ("opening", "starting"), ("closing", "finishing"), (None, "")],
)
def test_a_phase_is_said_in_plain_words(phase, text):
    assert phase_text(phase) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        *((0, "just now"), (-30, "just now"), (59, "just now"), (60, "1 min ago")),
        *((12 * 60 + 59, "12 min ago"), (3_600, "1 h ago"), (86_399, "23 h ago")),
        *((86_400, "1 d ago"), (29 * 86_400, "29 d ago")),
    ],
)
def test_how_long_ago_a_time_was(seconds, text):
    assert units.ago(2e9 - seconds, 2e9) == text


@pytest.mark.parametrize("wall", [2e9 + 3_600, 1.9e9])
def test_a_time_to_come_or_long_ago_is_a_day(wall):
    assert units.ago(wall, 2e9) == units.moment(wall, 2e9)
