"""Rows of a machine: cores as bars or columns, figures with their bars, GPUs side by side."""

import re
from dataclasses import replace

import pytest
from fakes.recorded import BEGIN_NS, folded, recorded_session

from dlmon.figures.machine.readings import Figure
from dlmon.records import Cpu, Gpu, GpuState, Process
from dlmon.session.machine_history import MachineHistory
from tui.drawing.time_axis import TimeAxis
from tui.machine.gpu_rows import GpuRows
from tui.machine.machine import MachineLayout, grid_columns, layout_below_charts, panel_layout
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


def test_each_core_has_a_curve_up_to_its_present_value_once_half_of_it_is_filled():
    widget = CoreRows()
    widget.has_histories = True
    widget._cores = (100, 50)
    assert "━" in texts(widget.draw(40, 4), 40, 4)[0]
    for busy in (*[0] * 22, 100, 100):
        widget._cores = (busy, 50)
        widget._histories.append(widget._cores)
    first, below, second, _ = texts(widget.draw(40, 4), 40, 4)
    assert re.fullmatch("core  0 +[^ ] 100 %", first.replace("⠀", " "))
    # In one row, four heights tell less than a bar.
    assert "━" in texts(widget.draw(40, 2), 40, 2)[0]
    assert "core" not in below
    assert second.startswith("core  1 ")


@pytest.mark.parametrize("size", [(34, 3), (34, 8), (78, 4), (110, 12)])
@pytest.mark.parametrize("count", [1, 2, 6, 8, 16, 64, 192, 256])
def test_every_core_has_a_place_or_all_are_counted(count, size):
    rows = cores([100] * count, *size)
    if "above" in rows[0]:
        assert rows[0].startswith(f"{count} cores, {count} above 90 %, ")
        (per_bar,) = map(int, re.findall(r"(\d+) a bar", rows[0]))
        assert sum(len("".join(row.split()[1:])) for row in rows[1:]) == -(-count // per_bar)
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


def view_of(gpus, change=lambda gpu: gpu, processes=None, **changes):
    session = folded(recorded_session("training", gpus=gpus))
    latest = replace(session.machine.latest, processes=processes)
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


def test_who_uses_each_gpu_stands_in_its_row():
    mine = Process(4_242, "ada", "/usr/bin/python3 -u train.py --lr 1", gpus=(1,))
    rows = (replace(mine, gpu_memory_mib=4_730), Process(7, None, "/bin/serve", gpus=(1,)))
    for width in (76, 118):
        drawn = gpu_texts(width, 8, processes=rows)
        assert ["ada train.py, " in row for row in drawn] == [number == 1 for number in range(8)]
    assert "ada train.py, serve  " in drawn[1]
    view = view_of(2, processes=rows)
    assert view.users_of(view.gpus[1]) == ("ada 4.6 GiB train.py", "serve")
    assert replace(view, cursor_ns=BEGIN_NS).users_of(view.gpus[1]) == ()
    asleep = replace(view.gpus[1], utilization_pct=None, state=GpuState.ASLEEP)
    assert view.users_of(asleep) == ()
    unnamed = view_of(2, processes=(Process(7, gpus=(1,), gpu_memory_mib=88),))
    assert unnamed.users_of(unnamed.gpus[1]) == ("88 MiB pid 7",)


@pytest.mark.parametrize("width", [74, 118, 198])
@pytest.mark.parametrize("gpus", [1, 2, 8, 16])
def test_the_rows_of_a_wide_panel_have_room_for_all_parts(width, gpus):
    for height in (23, 39, 59):
        form = panel_layout(width + 2, height, gpus, 5, True)
        used = int(form.top_height or 0)
        if form.processes:
            used += int(form.processes_height)
        if form.rows:
            used += int(form.gpus_height)
        assert used <= height - 1
        if form.charts:
            assert (height - 1 - used) // -(-form.charts // form.columns) >= 5


def test_trouble_is_marked_where_there_is_no_room_to_show_it():
    def broken(gpu):
        return replace(gpu, ecc_uncorrected=1) if gpu.index == 2 else gpu

    rows = gpu_texts(30, 4, gpus=4, change=broken, training=())
    assert [row[:3] for row in rows] == [" 0 ", " 1 ", " 2!", " 3 "]
    user = Process(7, "mara", "python serve.py", gpus=(1, 2))
    rows = gpu_texts(78, 4, gpus=4, change=broken, processes=(user,), training=())
    assert "mara serve.py" in rows[1]
    assert "ECC 1 uncorrected" in rows[2]


def test_until_there_is_a_model_the_gpu_that_was_asked_for_trains():
    session = folded(recorded_session("training", gpus=2))
    asked = replace(session.header, options={"device": "gpu:1"})
    assert gpus_that_train(asked, None) == (1,)
    assert gpus_that_train(asked, session.snapshot()) == (0,)
    # What a log holds there may be anything, and any GPU.
    for device, gpus in {"auto": (), "gpu:7": (), "gpu:1+0": (0, 1), "gpu:all": (0, 1)}.items():
        assert gpus_that_train(replace(asked, options={"device": device}), None) == gpus
    assert gpus_that_train(replace(asked, options={"device": ["gpu:1"]}), None) == ()


def test_a_gpu_that_never_gave_a_reading_has_a_dim_row_with_the_reason():
    def silent(gpu):
        return Gpu(gpu.index, why={"utilization_pct": "not supported"})

    never = MachineHistory()
    never.latest = view_of(1, silent).history.latest
    (row,) = gpu_rows(36, 1, history=never)
    assert "".join(text for text, _ in row).strip() == "▸0 no readings: not supported"
    assert row[-1][1] == MUTED
    assert layout_below_charts(98, 20, 1, True) == MachineLayout(
        "below", rows=True, gpus_height="1", side=True, size="tight"
    )
    # One that was read before is lost.
    view = view_of(1)
    (gpu,) = view.gpus
    assert not view.is_unread(gpu)
    assert not view.is_unread(silent(gpu))
    assert replace(view, history=never).is_unread(silent(gpu))
    # Nor does one without a reason say more than that nothing was read yet.
    assert not replace(view, history=never).is_unread(Gpu(0))


# ---- an axis of fewer columns ----


@pytest.mark.parametrize("known", range(1, 100, 7))
@pytest.mark.parametrize("count", [0, 8, 20, 26])
def test_along_fewer_columns_nothing_is_left_out_that_is_known(count, known):
    axis = TimeAxis(7 * SECOND_NS, SECOND_NS, 100, known)
    coarse = coarser(axis, count)
    assert coarse.elapsed <= coarse.count == count
    if count:
        assert coarse.start_ns <= axis.start_ns
        assert axis.end_ns <= coarse.end_ns < axis.end_ns + coarse.column_ns


# ---- in the room there is ----

SIZES = {"narrow": (80, 23), "wide": (120, 39), "large": (200, 59), "least": (38, 9)}


@pytest.mark.parametrize(
    ("size", "gpus", "charts"),
    [
        # Each has a chart of its memory too; without a GPU there are those of the machine.
        *(("wide", gpus, max(2, 2 * gpus)) for gpus in range(7)),
        *(("narrow", gpus, 2) for gpus in (0, 1)),
        *((size, gpus, 0) for size in ("wide", "large") for gpus in (9, 64)),
        *(("wide", 8, 0), ("narrow", 3, 0), ("narrow", 8, 0), ("large", 8, 16), ("least", 1, 0)),
        # Two have one chart each on a low screen.
        ("narrow", 2, 2),
    ],
)
def test_up_to_eight_gpus_have_two_charts_each_where_there_is_room_else_rows(size, gpus, charts):
    form = panel_layout(*SIZES[size], gpus, 5, False)
    assert (form.charts, form.rows) == (charts, charts == 0)


@pytest.mark.parametrize(
    ("size", "gpus", "charts"),
    [
        ("wide", 1, 4),
        ("narrow", 1, 2),
        *(("large", gpus, 4 * gpus) for gpus in (1, 4)),
    ],
)
def test_with_much_room_each_gpu_has_charts_of_its_power_and_temperature_too(size, gpus, charts):
    form = panel_layout(*SIZES[size], gpus, 5, True, per_gpu=4)
    assert form.charts == charts
    assert form.per_gpu == charts / gpus


@pytest.mark.parametrize("gpus", [0, 1, 2, 8])
def test_the_smallest_usual_screen_lists_processes_where_that_is_asked_for(gpus):
    assert panel_layout(80, 23, gpus, 5, True).processes
    assert not panel_layout(80, 23, gpus, 5, False).processes


@pytest.mark.parametrize("gpus", range(3, 17))
def test_up_to_sixteen_gpus_have_a_row_each_on_the_smallest_usual_screen(gpus):
    form = panel_layout(80, 23, gpus, 5, True)
    assert form.gpus_height == str(gpus + 2)
    assert form.cpu == (form.size != "meters")


@pytest.mark.parametrize("size", [(38, 9), (38, 13), (80, 11)])
def test_without_room_for_two_charts_the_gpu_has_one_and_the_cpu_is_a_meter(size):
    form = panel_layout(*size, 1, 4, False)
    assert (form.charts, form.cpu) == (1, False)
    assert panel_layout(*size, 0, 4, False).cpu
    assert panel_layout(38, 14, 1, 4, False).cpu


def below(height, **parts):
    """Return a layout whose GPUs have this height."""
    return MachineLayout("below", gpus_height=str(height), side=False, **parts)


@pytest.mark.parametrize(
    ("size", "gpus", "form"),
    [
        # A single GPU is larger than the CPU.
        ((38, 7), 1, below(7, charts=1, cpu=False)),
        ((38, 11), 1, below(7, charts=1)),
        ((178, 40), 1, below(32, charts=1)),
        ((58, 16), 2, below(10, charts=2)),
        ((58, 11), 2, below(7, charts=2, columns=2)),
        ((118, 24), 8, below(16, charts=8, columns=4)),
        # Many have a row each, and the CPU what these leave.
        ((58, 24), 8, below(10, rows=True)),
        ((58, 24), 16, below(10, rows=True)),
        ((38, 9), 16, below(5, rows=True, size="tight")),
        ((58, 11), 0, MachineLayout("below", side=False)),
        ((98, 16), 0, MachineLayout("below")),
        ((98, 20), 0, MachineLayout("below", 1, gpus_height="5")),
        ((98, 30), 0, MachineLayout("below", 2, gpus_height="12")),
    ],
)
def test_below_other_charts_what_has_no_room_is_left_out(size, gpus, form):
    assert layout_below_charts(*size, gpus) == form


def test_a_single_gpu_has_a_second_chart_where_that_fits():
    for height, charts in ((11, 1), (24, 2), (60, 2)):
        assert layout_below_charts(118, height, 1, per_gpu=2).charts == charts


@pytest.mark.parametrize("tiles", range(1, 9))
@pytest.mark.parametrize("size", [(28, 5), (60, 11), (98, 16), (120, 20), (200, 30)])
def test_no_chart_of_a_grid_is_squeezed(tiles, size):
    columns = grid_columns(tiles, *size)
    if columns:
        assert size[0] // columns >= 20
        assert size[1] // -(-tiles // columns) >= 5


def test_in_a_low_panel_the_processes_have_the_rows_of_the_figures_frame():
    form = panel_layout(80, 23, 1, 5, True)
    assert (form.size, form.top_height, form.processes_height) == ("bare", "6", "9")
    assert panel_layout(80, 23, 1, 5, False).size == "short"
