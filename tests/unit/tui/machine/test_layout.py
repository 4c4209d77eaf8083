"""Where the parts of a machine stand: inside of their room, apart, the essentials first."""

from itertools import combinations, product

import pytest

from tui.machine.layout import (
    ABOUT,
    CORES,
    CPU,
    GPU_ROWS,
    MEMORY,
    METERS,
    PROCESSES,
    Shape,
    gpu_name,
    labelled_charts,
    machine_places,
)

GPUS = (0, 1, 2, 3, 8, 16)
CORES_COUNTS = (0, 1, 2, 8, 16, 64, 256)


def is_chart(name):
    return name in (CPU, MEMORY) or name.startswith("gpu-")


@pytest.mark.parametrize("width", [36, 42, 59, 60, 75, 76, 80, 99, 100, 120, 200])
def test_nothing_overlaps_or_leaves_its_room_and_no_chart_is_squeezed(width):
    for height, gpus, cores in product((*range(4, 41, 3), 59), GPUS, CORES_COUNTS):
        places = machine_places(width, height, Shape(cores, gpus, about_cells=90))
        for name, (region, _) in places.items():
            assert 0 <= region.x < region.right <= width, (name, height, gpus, cores)
            assert 0 <= region.y < region.bottom <= height, (name, height, gpus, cores)
            assert not is_chart(name) or region.height >= 5, (name, height, gpus, cores)
        for (one, first), (other, second) in combinations(places.items(), 2):
            assert not first.region.overlaps(second.region), (one, other, height, gpus, cores)


@pytest.mark.parametrize("size", [(36, 8), (42, 21), (60, 15), (80, 23), (120, 39), (200, 59)])
@pytest.mark.parametrize("gpus", GPUS)
def test_the_essentials_are_always_there(size, gpus):
    places = machine_places(*size, Shape(8, gpus))
    assert ABOUT in places
    assert CPU in places or METERS in places
    assert MEMORY in places or METERS in places
    every_gpu = [gpu_name(number) in places for number in range(gpus)]
    assert GPU_ROWS in places or all(every_gpu)


@pytest.mark.parametrize("gpus", GPUS)
def test_a_large_panel_has_a_table_of_processes_below_where_that_was_asked_for(gpus):
    for size, wanted in (((200, 59), True), ((120, 39), gpus < 2), ((80, 60), False)):
        shape = Shape(8, gpus, processes=True)
        places = machine_places(*size, shape)
        assert (PROCESSES in places) is wanted
        assert PROCESSES not in machine_places(*size, Shape(8, gpus))
        if wanted:
            table = places[PROCESSES].region
            assert table.bottom == size[1]
            assert table.height >= 8
            assert all(p.region.bottom <= table.y for n, p in places.items() if n != PROCESSES)


@pytest.mark.parametrize(
    ("size", "gpus"), [((120, 39), 1), ((120, 39), 2), ((120, 39), 8), ((200, 59), 16)]
)
def test_each_gpu_has_a_chart_of_its_own_where_there_is_room(size, gpus):
    places = machine_places(*size, Shape(8, gpus))
    assert {gpu_name(number) for number in range(gpus)} <= set(places)
    assert GPU_ROWS not in places


def test_many_gpus_have_rows_where_charts_have_no_room():
    places = machine_places(80, 23, Shape(8, 8))
    assert GPU_ROWS in places
    assert gpu_name(0) not in places


def test_without_a_gpu_memory_has_its_chart():
    for size in ((42, 21), (80, 23), (120, 39), (200, 59)):
        assert MEMORY in machine_places(*size, Shape(8, 0))


@pytest.mark.parametrize("gpus", [3, 5, 7, 16])
@pytest.mark.parametrize("size", [(120, 39), (200, 59)])
def test_no_gpu_has_a_larger_chart_than_another(size, gpus):
    places = machine_places(*size, Shape(8, gpus))
    regions = [places[gpu_name(n)].region for n in range(gpus) if gpu_name(n) in places]
    for side in ("width", "height"):
        lengths = {getattr(region, side) for region in regions}
        assert not lengths or max(lengths) - min(lengths) <= 1


@pytest.mark.parametrize("size", [(80, 23), (120, 39)])
@pytest.mark.parametrize("gpus", [8, 16])
def test_rows_of_gpus_leave_none_of_their_room_blank(size, gpus):
    places = machine_places(*size, Shape(64, gpus))
    if GPU_ROWS in places:
        assert places[GPU_ROWS].region.height - 2 in (gpus, gpus // 2)


def test_in_a_narrow_column_gpus_have_a_row_each_before_the_cpus_chart_grows_tall():
    places = machine_places(72, 29, Shape(2, 8))
    assert places[GPU_ROWS].region.height == 8
    assert places[CPU].region.height >= 7


@pytest.mark.parametrize("height", range(8, 24))
def test_a_narrow_column_is_filled_to_its_last_row(height):
    for gpus, cores in product((0, 1, 2), (8, 64)):
        places = machine_places(42, height, Shape(cores, gpus))
        assert max(place.region.bottom for place in places.values()) == height, (gpus, cores)


def test_what_a_machine_is_takes_a_second_row_only_where_it_needs_it():
    assert machine_places(42, 21, Shape(8, 1, 40))[ABOUT].region.height == 1
    assert machine_places(42, 21, Shape(8, 1, 41))[ABOUT].region.height == 2


def test_a_place_of_no_size_has_no_parts():
    assert machine_places(0, 20, Shape(8, 1)) == machine_places(80, 0, Shape(8, 1)) == {}


@pytest.mark.parametrize("cores", [2, 16, 64, 128, 256])
def test_cores_have_a_place_in_every_large_panel(cores):
    for size in ((42, 21), (80, 23), (120, 39), (200, 59)):
        for gpus in GPUS[:5]:
            assert CORES in machine_places(*size, Shape(cores, gpus))


def test_the_lowest_charts_label_the_time_and_the_cpus_where_those_are_narrow():
    assert labelled_charts(machine_places(120, 39, Shape(8, 1))) == {gpu_name(0), MEMORY}
    assert labelled_charts(machine_places(80, 23, Shape(8, 0))) == {MEMORY}
    assert labelled_charts(machine_places(80, 23, Shape(64, 8))) == {CPU}
    assert labelled_charts(machine_places(120, 39, Shape(64, 8))) == {
        *(gpu_name(number) for number in range(4, 8)),
        CPU,
    }
