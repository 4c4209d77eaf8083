"""How a machine stands in the room there is: a chart for each of up to eight GPUs, else rows."""

import pytest

from tui.machine.machine import Form, alone, among_charts, grid_columns

SIZES = {"narrow": (80, 23), "wide": (120, 39), "large": (200, 59), "least": (38, 9)}


@pytest.mark.parametrize(
    ("size", "gpus", "charts"),
    [
        # The memory has the last place of a grid, or the only one.
        *(("wide", gpus, gpus + (gpus % 2 or gpus == 0)) for gpus in range(9)),
        *(("narrow", gpus, max(1, gpus)) for gpus in (0, 1, 2, 3)),
        *((size, gpus, 0) for size in ("wide", "large") for gpus in (9, 64)),
        *(("narrow", 8, 0), ("large", 8, 8), ("least", 1, 0)),
    ],
)
def test_up_to_eight_gpus_have_a_chart_each_where_there_is_room_else_rows(size, gpus, charts):
    form = alone(*SIZES[size], gpus, 5, False)
    assert (form.charts, form.rows) == (charts, charts == 0)


@pytest.mark.parametrize(("gpus", "height"), [(0, 36), (1, 36), (2, 48), (64, 48)])
def test_a_large_machine_lists_processes_where_that_is_asked_for(gpus, height):
    assert alone(120, height, gpus, 5, True).processes
    assert not alone(120, height - 1, gpus, 5, True).processes
    assert not alone(120, height, gpus, 5, False).processes


def test_without_room_for_a_chart_the_cpu_is_a_meter():
    assert not alone(38, 9, 1, 4, False).cpu
    assert alone(38, 10, 1, 4, False).cpu


@pytest.mark.parametrize(
    ("size", "gpus", "form"),
    [
        ((40, 7), 1, Form("beside", charts=1, side=False)),
        ((60, 11), 1, Form("beside", charts=2, side=False)),
        ((98, 24), 1, Form("beside", charts=4)),
        ((60, 11), 2, Form("beside", charts=2, side=False)),
        ((40, 7), 2, Form("beside", charts=2, columns=2, side=False)),
        ((120, 16), 8, Form("beside", charts=8, columns=4)),
        ((60, 11), 8, Form("beside", rows=True, side=False)),
        ((40, 7), 16, Form("beside", rows=True, side=False, size="tight")),
        ((60, 11), 0, Form("wide")),
        ((98, 16), 0, Form("beside", charts=1)),
    ],
)
def test_under_other_charts_what_has_no_room_is_left_out(size, gpus, form):
    assert among_charts(*size, gpus) == form


@pytest.mark.parametrize("tiles", range(1, 9))
@pytest.mark.parametrize("size", [(28, 5), (60, 11), (98, 16), (120, 20), (200, 30)])
def test_no_chart_of_a_grid_is_squeezed(tiles, size):
    columns = grid_columns(tiles, *size)
    if columns:
        assert size[0] // columns >= 20
        assert size[1] // -(-tiles // columns) >= 5
