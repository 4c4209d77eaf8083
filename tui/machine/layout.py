"""Where each part of a machine stands in the room there is. Pure.

What has no room is left out rather than squeezed: what the machine is comes
first, then one figure of each part, then cores, then charts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from textual.geometry import Region

from tui.machine.core_rows import core_rows_wanted
from tui.machine.gpu_rows import gpu_rows_wanted
from tui.machine.meters import meter_rows_wanted

ABOUT, CORES, METERS, CPU, MEMORY, GPU_ROWS = "about", "cores", "meters", "cpu", "memory", "gpus"
PROCESSES = "processes"

# From here on parts stand side by side.
_WIDE, _TWO_COLUMNS, _LEAST_WIDE_HEIGHT, _LEAST_TWO_COLUMNS_HEIGHT = 76, 100, 15, 22
_LEAST_CHART, _GOOD_CHART = 5, 7
_LEAST_TILE_WIDTH, _LEAST_TILE_HEIGHT, _LEAST_LABELLED_WIDTH = 28, 6, 36
_BORDERS = 2
_TALL = 28
# A panel of at least that height has a table of processes below, of about that share.
_LEAST_HEIGHT_FOR_PROCESSES, _SHARE_OF_PROCESSES = 36, 0.2
# Several GPUs need the room of a lower one themselves.
_LEAST_HEIGHT_BELOW_GPUS = 48
# A cell is about twice as tall as wide, and a chart reads well when it is longer than tall.
_TILE_SHAPE = 3.2
_METERS = 4


@dataclass(frozen=True)
class Shape:
    """How many of its parts a machine has, and how long it is to say what it is.

    `processes` says whether to show them where there is room.
    """

    cores: int
    gpus: int
    about_cells: int = 0
    processes: bool = False


def gpu_name(number: int) -> str:
    """Return the name of a GPU's chart, which is its widget's id."""
    return f"gpu-{number}"


class Place(NamedTuple):
    """Where a part stands, and whether it has a border; a chart always has one."""

    region: Region
    border: bool = True


Places = dict[str, Place]
"""The parts that are shown: by name, or by `gpu_name`."""


def machine_places(width: int, height: int, shape: Shape) -> Places:
    """Return where the parts stand in a panel of this size; borders lie inside."""
    if width < 1 or height < 1:
        return {}
    least = _LEAST_HEIGHT_FOR_PROCESSES if shape.gpus < 2 else _LEAST_HEIGHT_BELOW_GPUS
    if shape.processes and width >= _TWO_COLUMNS and height >= least:
        below = round(height * _SHARE_OF_PROCESSES)
        table = Place(Region(0, height - below, width, below))
        return _two_columns(width, height - below, shape) | {PROCESSES: table}
    if width >= _TWO_COLUMNS and height >= _LEAST_TWO_COLUMNS_HEIGHT:
        return _two_columns(width, height, shape)
    if width >= _WIDE and height >= _LEAST_WIDE_HEIGHT:
        return _full_rows(width, height, shape)
    return _stacked(width, height, shape)


def labelled_charts(places: Places) -> set[str]:
    """Return the charts that label the time: those that have no other one below them.

    Where these are narrow their own figures take that room, and the CPU's does it as well.
    """
    charts = {name: place.region for name, place in places.items() if _is_chart(name)}
    lowest = {
        name
        for name, own in charts.items()
        if not any(
            other.y > own.y and other.x < own.right and own.x < other.right
            for other in charts.values()
        )
    }
    narrow = all(charts[name].width < _LEAST_LABELLED_WIDTH for name in lowest)
    return lowest | ({CPU} & charts.keys() if narrow else set())


def _is_chart(name: str) -> bool:
    return name in (CPU, MEMORY) or name.startswith("gpu-")


def _two_columns(width: int, height: int, shape: Shape) -> Places:
    """Put cores, memory and meters beside the CPU's chart, and the GPUs below.

    Both columns are as wide, so that all charts have the same columns of time.
    """
    body = height - 1
    share = 1.0 if shape.gpus == 0 else 0.5 if shape.gpus == 1 else 0.42
    top = max(_METERS + 2 * _BORDERS + 3, round(body * share))
    if shape.gpus and GPU_ROWS in _pairs_below(Region(0, 0, width, body - top), shape):
        # What a row for each GPU leaves.
        top = max(top, body - shape.gpus - _BORDERS)
    below = _pairs_below(Region(0, 1 + top, width, body - top), shape) if shape.gpus else {}
    left = width // 2
    right = width - left
    # Memory needs no meter where it has a chart.
    meters = _METERS + _BORDERS - (MEMORY in below)
    cores = top - meters
    most = cores - _BORDERS - _LEAST_TILE_HEIGHT
    most = most if most >= _METERS else cores - _BORDERS
    wanted = core_rows_wanted(shape.cores, right - 4, most, roomy=True) + _BORDERS
    places = {ABOUT: Place(Region(0, 0, width, 1), False), CPU: Place(Region(0, 1, left, top))}
    # Memory has a chart of its own, and no meter, where cores leave it the room.
    spare = cores - wanted + 1
    if spare >= _LEAST_TILE_HEIGHT and MEMORY not in below:
        cores, meters = wanted, meters - 1
        places[MEMORY] = Place(Region(left, 1 + cores, right, spare))
    places[CORES] = Place(Region(left, 1, right, cores))
    places[METERS] = Place(Region(left, 1 + top - meters, right, meters))
    return places | below


def _full_rows(width: int, height: int, shape: Shape) -> Places:
    """Put one below the other over the full width."""
    cores = core_rows_wanted(shape.cores, width - 2, 4 if height >= 20 else 2)
    meters = 2
    left = height - 1 - cores - meters
    gpus = _gpus_height(shape, width, left)
    cpu = left - gpus
    below = Region(0, height - gpus, width, gpus)
    rows = (ABOUT, 1), (CPU, cpu), (CORES, cores), (METERS, meters)
    return _column(width, rows) | _below(below, shape)


def _gpus_height(shape: Shape, width: int, left: int) -> int:
    """Return the rows that GPUs, or the memory in their place, get of those that are left."""
    half = (left + 1) // 2
    if GPU_ROWS in _below(Region(0, 0, width, half), shape):
        return min(gpu_rows_wanted(shape.gpus, width)[0] + _BORDERS, max(half, left - 6))
    return half


def _below(room: Region, shape: Shape) -> Places:
    """Put the GPUs into a grid of charts, or into rows where charts have no room; else memory."""
    if shape.gpus == 0:
        return {MEMORY: Place(room)}
    names = [gpu_name(number) for number in range(shape.gpus)]
    return _grid(room, names, range(1, shape.gpus + 1)) or {GPU_ROWS: Place(room)}


def _pairs_below(room: Region, shape: Shape) -> Places:
    """Put the GPUs into a grid of an even number of columns; memory fills the last place."""
    names = [gpu_name(number) for number in range(shape.gpus)]
    names += [MEMORY] * (shape.gpus % 2)
    return _grid(room, names, range(2, len(names) + 1, 2)) or {GPU_ROWS: Place(room)}


def _grid(room: Region, names: list[str], column_counts: Iterable[int]) -> Places:
    """Put charts into the grid that suits them best; into none where they have no room."""
    best: tuple[float, list[Region]] = (0.0, [])
    for columns in column_counts:
        rows = -(-len(names) // columns)
        width, height = room.width // columns, room.height // rows
        if width < _LEAST_TILE_WIDTH or height < _LEAST_TILE_HEIGHT:
            continue
        # Places of the grid that stay empty are room that is lost.
        score = min(width / _TILE_SHAPE, height) * (len(names) / (columns * rows)) ** 3
        if score > best[0]:
            tiles = [_tile(room, n, columns, rows) for n in range(len(names))]
            best = (score, tiles)
    return {name: Place(region) for name, region in zip(names, best[1], strict=False)}


def _tile(room: Region, number: int, columns: int, rows: int) -> Region:
    """Return a tile of the grid, in which all are as wide."""
    row, column = divmod(number, columns)
    left, right = (room.width * edge // columns for edge in (column, column + 1))
    top, bottom = (room.height * edge // rows for edge in (row, row + 1))
    return Region(room.x + left, room.y + top, right - left, bottom - top)


def _stacked(width: int, height: int, shape: Shape) -> Places:
    """Put one below the other in a narrow column, the essentials first."""
    inner = width - 2
    wanted, least = gpu_rows_wanted(shape.gpus, inner) if shape.gpus else (0, 0)
    about, meters, gpus, cores = 1, min(2, height - 1), min(least, max(0, height - 3)), 0
    left = height - about - meters - gpus
    more_gpus = min(left, wanted - gpus)
    gpus, left = gpus + more_gpus, left - more_gpus
    if left and shape.cores:
        most = 8 if height >= _TALL else max(1, min(4, left - _LEAST_CHART))
        cores = min(left, core_rows_wanted(shape.cores, inner, most))
        left -= cores
    if left and shape.about_cells > inner:
        about, left = 2, left - 1
    # The CPU's chart shows what its meter would, and the memory's chart what the memory's would.
    charts = _charts(left + gpus + 1, gpus, shape)
    if charts:
        if len(charts) > 1:
            gpus = 0
        memory_has_chart = MEMORY in charts
        room = height - about - cores - gpus
        meters = meter_rows_wanted(_METERS - memory_has_chart, inner)
        meters = max(1 - memory_has_chart, min(meters, room - len(charts) * _GOOD_CHART))
        room -= meters
        # A row each, where there are figures to show, before a single chart grows tall.
        own_rows = shape.gpus - gpus
        if gpus and room - own_rows >= _GOOD_CHART:
            gpus, room = shape.gpus, room - own_rows
    else:
        room = 0
        more = min(left, _METERS - meters)
        meters, cores = meters + more, cores + left - more
    edges = [room * n // max(1, len(charts)) for n in range(len(charts) + 1)]
    shares = ((name, edges[n + 1] - edges[n]) for n, name in enumerate(charts))
    rows = (ABOUT, about), (CORES, cores), (METERS, meters), *shares, (GPU_ROWS, gpus)
    return _column(width, rows)


def _column(width: int, rows: Iterable[tuple[str, int]]) -> Places:
    """Put parts one below the other; those without a row are left out."""
    places: Places = {}
    y = 0
    for name, height in rows:
        if height > 0:
            places[name] = Place(Region(0, y, width, height), _is_chart(name))
            y += height
    return places


def _charts(left: int, gpu_rows: int, shape: Shape) -> list[str]:
    """Return which charts have room: of the CPU, and of all GPUs or of the memory.

    GPUs that had to do with rows give them up for charts where all have room.
    """
    names = [CPU, *(gpu_name(n) for n in range(shape.gpus))] if shape.gpus else [CPU, MEMORY]
    if left >= len(names) * _GOOD_CHART or (shape.gpus == 1 and left >= 2 * _LEAST_CHART):
        return names
    return [CPU] if left - gpu_rows >= _LEAST_CHART else []
