"""Rows of a machine: cores as bars or columns, figures with their bars, GPUs side by side."""

import re
from dataclasses import replace

import pytest
from fakes.recorded import BEGIN_NS, folded, recorded_session

from dlmon.figures.machine import Figure
from dlmon.records import Cpu
from tui.drawing.time_axis import TimeAxis
from tui.machine.gpu_rows import GpuRows
from tui.machine.meters import CoreRows, Meters
from tui.machine.tile import coarser
from tui.machine.view import MachineView, gpus_that_train
from tui.widgets.lines import BAD, MUTED, row_width

SECOND_NS = 1_000_000_000


def texts(rows, width, height):
    """Return what rows say; none of them is wider than its room."""
    assert len(rows) <= height
    assert all(row_width(row) <= width for row in rows)
    return ["".join(text for text, _ in row).rstrip() for row in rows]


# ---- cores ----


def cores(levels, width, height):
    widget = CoreRows()
    widget._cores = tuple(levels)
    return texts(widget.draw(width, height), width, height)


def test_few_cores_have_a_bar_each_and_many_their_numbers_alone():
    first, second = cores([50, 100], 34, 4)
    assert re.fullmatch("core  0 ━+╸?─+  50 %", first)
    assert re.fullmatch("core  1 ━+ 100 %", second)
    assert re.match(" 0 ━+╸?─+  50 %   1 ", cores([50] * 8, 68, 2)[0])


@pytest.mark.parametrize("size", [(34, 3), (34, 8), (78, 4), (110, 12)])
@pytest.mark.parametrize("count", [1, 2, 6, 8, 16, 64, 192, 256])
def test_every_core_has_a_place_or_all_are_counted(count, size):
    rows = cores([100] * count, *size)
    if "above" in rows[0]:
        assert rows == [f"{count} cores, {count} of them above 90 %"]
        assert size[0] * size[1] < 2 * count
    elif "%" in rows[0]:
        assert "".join(rows).count("%") == count
    else:
        labelled = [row for row in rows if re.match(r" *\d+ [^ ]", row)]
        assert sum(len("".join(row.split()[1:])) for row in labelled) == count
        starts = [int(row.split()[0]) for row in labelled]
        assert starts[0] == 0
        assert all(start % 8 == 0 for start in starts)


def test_without_a_reading_of_the_cores_the_reason_is_shown():
    widget = CoreRows()
    assert widget.draw(20, 1) == [(("no reading yet", MUTED),)]
    widget.show(Cpu(why={"cores": "denied"}), stale=False)
    assert widget.draw(20, 1) == [(("denied", BAD),)]


# ---- figures ----

FIGURES = [
    Figure("memory", "5.1 of 32.0 GiB", 0.16),
    Figure("disk", "512 read  102 written KiB/s"),
    Figure("network", "103 in  205 out KiB/s"),
    Figure("swap", "0.0 of 2.0 GiB", 0.0),
]


def meters(width, height, stale=False):
    widget = Meters()
    widget.show(FIGURES, stale=stale)
    return widget.draw(width, height)


@pytest.mark.parametrize("width", [78, 118])
def test_every_figure_is_whole_where_it_has_a_row(width):
    text = "\n".join(texts(meters(width, 4), width, 4))
    assert all(figure.value in text for figure in FIGURES)


# ---- GPUs ----


def view_of(gpus, change=lambda gpu: gpu, **changes):
    session = folded(recorded_session("training", gpus=gpus))
    latest = session.machine.latest
    session.machine.latest = replace(latest, gpus=tuple(map(change, latest.gpus)))
    view = MachineView(session.machine, session.header.machine, 0.2, 1.0, training=(0,))
    return replace(view, **changes)


def gpu_rows(width, height, gpus=8, change=lambda gpu: gpu, **changes):
    widget = GpuRows(classes="panel")
    widget._view = view_of(gpus, change, **changes)
    widget._axis = TimeAxis(BEGIN_NS, SECOND_NS, 104, 18)
    return widget.draw(width, height)


def gpu_texts(width, height, **options):
    return texts(gpu_rows(width, height, **options), width, height)


@pytest.mark.parametrize("gpus", [1, 2, 8, 16, 64])
@pytest.mark.parametrize("size", [(20, 3), (36, 5), (58, 11), (98, 20), (118, 64)])
def test_every_gpu_has_its_utilisation_or_those_without_room_are_counted(gpus, size):
    text = "\n".join(gpu_texts(*size, gpus=gpus))
    more = re.search(r"… (\d+) more", text)
    shown = len(re.findall(r"\d %", text))
    assert shown + (int(more[1]) if more else 0) == gpus
    assert not more or size[0] * size[1] < 16 * gpus


def test_trouble_is_marked_where_there_is_no_room_to_show_it():
    def broken(gpu):
        return replace(gpu, ecc_uncorrected=1) if gpu.index == 2 else gpu

    rows = gpu_texts(30, 4, gpus=4, change=broken, training=())
    assert [row[:3] for row in rows] == [" 0 ", " 1 ", " 2!", " 3 "]


def test_until_there_is_a_model_the_gpu_that_was_asked_for_trains():
    session = folded(recorded_session("training", gpus=2))
    asked = replace(session.header, options={"device": "gpu:1"})
    assert gpus_that_train(asked, None) == (1,)
    assert gpus_that_train(asked, session.snapshot()) == (0,)
    # What a log holds there may be anything, and any GPU.
    for device, gpus in {"auto": (), "gpu:7": (), "gpu:1+0": (0, 1), "gpu:all": (0, 1)}.items():
        assert gpus_that_train(replace(asked, options={"device": device}), None) == gpus
    assert gpus_that_train(replace(asked, options={"device": ["gpu:1"]}), None) == ()


# ---- an axis of fewer columns ----


@pytest.mark.parametrize("known", range(1, 100, 7))
@pytest.mark.parametrize("count", [0, 8, 20, 26])
def test_along_fewer_columns_nothing_is_left_out_that_is_known(count, known):
    axis = TimeAxis(7 * SECOND_NS, SECOND_NS, 100, known)
    coarse = coarser(axis, count)
    assert coarse.known <= coarse.count == count
    if count:
        assert coarse.start_ns <= axis.start_ns
        assert axis.end_ns <= coarse.end_ns < axis.end_ns + coarse.column_ns
