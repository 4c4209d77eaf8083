"""How a machine stands in the room there is: a chart for each of up to eight GPUs, else rows."""

import pytest

from tui.machine.machine import Form, alone, among_charts, grid_columns


def of(width, height, gpus, side_rows=5, processes=False):
    return alone(width, height, gpus, side_rows, processes)


@pytest.mark.parametrize(
    ("size", "gpus"), [((120, 39), 1), ((120, 39), 2), ((120, 39), 8), ((200, 59), 8)]
)
def test_up_to_eight_gpus_have_a_chart_each_where_there_is_room(size, gpus):
    form = of(*size, gpus)
    assert (form.arrangement, form.charts, form.rows) == ("wide", gpus, "")


@pytest.mark.parametrize(
    ("size", "gpus"), [((80, 23), 8), ((200, 59), 9), ((200, 59), 64), ((38, 9), 1)]
)
def test_more_than_that_or_those_without_room_have_a_row_each(size, gpus):
    form = of(*size, gpus)
    assert form.charts == 0
    assert form.rows


@pytest.mark.parametrize("size", [(80, 23), (120, 39), (200, 59)])
@pytest.mark.parametrize("gpus", [0, 1, 3, 5, 7])
def test_memory_has_the_last_place_of_the_grid_or_a_meter(size, gpus):
    form = of(*size, gpus)
    assert form.memory == (gpus == 0 or (form.arrangement == "wide" and gpus % 2 == 1))


@pytest.mark.parametrize(("gpus", "height"), [(0, 36), (1, 36), (2, 48), (64, 48)])
def test_a_large_machine_lists_processes_where_that_is_asked_for(gpus, height):
    assert of(120, height, gpus, processes=True).processes
    assert not of(120, height - 1, gpus, processes=True).processes
    assert not of(120, height, gpus).processes


def test_without_room_for_a_chart_the_cpu_is_a_meter():
    assert not of(38, 9, 1, side_rows=4).cpu
    assert of(38, 10, 1, side_rows=4).cpu


@pytest.mark.parametrize(
    ("size", "gpus", "form"),
    [
        ((40, 7), 1, Form("beside", charts=1, side=False)),
        ((60, 11), 1, Form("beside", charts=1, side=False, gpu_memory=True)),
        ((98, 24), 1, Form("beside", charts=1, gpu_memory=True, curves=True)),
        ((60, 11), 2, Form("beside", charts=2, side=False)),
        ((40, 7), 2, Form("beside", charts=1, rows="1", side=False)),
        ((120, 16), 8, Form("beside", charts=8, columns=4)),
        ((60, 11), 8, Form("beside", charts=1, rows="4", side=False)),
        ((40, 7), 8, Form("beside", rows="1fr", side=False)),
        ((60, 11), 0, Form("wide")),
        ((98, 16), 0, Form("beside", memory=True)),
    ],
)
def test_under_other_charts_what_trains_comes_first_and_what_has_no_room_is_left_out(
    size, gpus, form
):
    assert among_charts(*size, gpus) == form


@pytest.mark.parametrize("tiles", range(1, 9))
@pytest.mark.parametrize("size", [(28, 5), (60, 11), (98, 16), (120, 20), (200, 30)])
def test_no_chart_of_a_grid_is_squeezed(tiles, size):
    columns = grid_columns(tiles, *size)
    if columns:
        assert size[0] // columns >= 28
        assert size[1] // -(-tiles // columns) >= 5
