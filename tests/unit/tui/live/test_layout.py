"""The panels of the live screen as a function of what a run has."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.live.layout import LOWER_PANELS, Panel, RunContent, arrange_panels, panel_rows

SMALL, MIDDLE, LARGE = (80, 18), (120, 33), (200, 52)
SIZES = {"80×24": SMALL, "120×40": MIDDLE, "200×60": LARGE}

FIRST = RunContent(gpus=1, step_rows=6, has_loss=True, epochs=14, output_lines=4)
"""The first run of a script, which has everything but something to compare with."""
STATES = {
    "starting": RunContent(has_begun=False, step_rows=1, output_lines=4),
    "starting silently": RunContent(has_begun=False, step_rows=1, bars=9),
    "starting beside others": RunContent(has_begun=False, step_rows=4, has_processes=True),
    "first step": RunContent(),
    "first run": FIRST,
    "second run": replace(FIRST, bars=2),
    "published": replace(FIRST, bars=9),
    "no GPU": replace(FIRST, gpus=0),
    "no epochs": replace(FIRST, epochs=0),
    "silent": replace(FIRST, epochs=0, output_lines=0, has_loss=False),
    "failed at once": RunContent(trains=False, output_lines=4, is_running=False, has_figure=False),
    "beside others": replace(FIRST, has_processes=True),
    "recording": RunContent(trains=False, gpus=2, has_figure=False),
    "out of memory": replace(FIRST, has_failed=True, is_running=False, needs_memory=True),
    "failed by its code": replace(FIRST, has_failed=True, is_running=False),
    "failed unread": replace(FIRST, has_failed=True, is_running=False, has_machine=False),
}
LEFT, RIGHT = "throughput machine", "comparison step loss"
BROAD_LEFT = "throughput loss machine"
EXPECTED = {
    "starting": ["step machine | output"] * 3,
    "starting silently": ["step machine | "] * 3,
    "starting beside others": ["step machine | processes"] * 3,
    "first step": [f"{LEFT} | comparison output"] * 3,
    "first run": [
        f"{LEFT} | {RIGHT}",
        f"{LEFT} epochs | {RIGHT} output",
        f"{BROAD_LEFT} | comparison step epochs output",
    ],
    "second run": [
        f"{LEFT} | comparison loss epochs",
        f"{LEFT} epochs | {RIGHT} output",
        f"{BROAD_LEFT} | comparison step epochs output",
    ],
    "published": [
        f"{LEFT} | comparison loss epochs",
        f"{LEFT} epochs | comparison loss output",
        f"{BROAD_LEFT} | comparison step epochs output",
    ],
    "no GPU": [
        f"{LEFT} | {RIGHT}",
        f"{LEFT} epochs | {RIGHT} output",
        f"{BROAD_LEFT} | comparison step epochs output",
    ],
    "no epochs": [
        f"{LEFT} | {RIGHT}",
        f"{LEFT} | {RIGHT} output",
        f"{BROAD_LEFT} | comparison step output",
    ],
    "silent": [f"{LEFT} | comparison step output"] * 3,
    "failed at once": ["machine | output"] * 3,
    "beside others": [
        f"{LEFT} | {RIGHT}",
        f"{LEFT} epochs | {RIGHT} output",
        f"{BROAD_LEFT} | comparison step epochs output processes",
    ],
    "recording": ["machine | "] * 3,
    "out of memory": ["machine | loss", "machine | loss output", "machine output | loss"],
    "failed by its code": ["loss | output", "machine | loss output", "machine output | loss"],
    "failed unread": ["loss | output"] * 3,
}


def columns(content, size):
    """Return the panels of both columns, each from the top down."""
    regions = arrange_panels(content, *size)
    in_order = sorted(regions, key=lambda panel: regions[panel].y)
    sides = [[panel for panel in in_order if bool(regions[panel].x) == right] for right in (0, 1)]
    return " | ".join(" ".join(side) for side in sides)


@pytest.mark.parametrize("state", STATES)
def test_a_run_is_shown_by_what_it_has(state):
    assert [columns(STATES[state], size) for size in SIZES.values()] == EXPECTED[state]


@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
def test_with_a_gpu_the_machine_is_larger_than_without(size):
    with_gpu, without = (
        arrange_panels(content, *size)[Panel.MACHINE].height
        for content in (FIRST, STATES["no GPU"])
    )
    assert with_gpu > without


def test_a_chart_that_hardly_moves_leaves_its_room_and_output_takes_what_it_has():
    for panel, other in ((Panel.THROUGHPUT, Panel.MACHINE), (Panel.MACHINE, Panel.THROUGHPUT)):
        moving, flat = (
            arrange_panels(replace(FIRST, flat=frozenset(panels)), *(200, 44))
            for panels in ((), (panel,))
        )
        assert flat[panel].height < moving[panel].height
        assert flat[other].height > moving[other].height
    short, long = (
        arrange_panels(replace(STATES["beside others"], output_lines=lines), *(200, 44))
        for lines in (4, 400)
    )
    assert short[Panel.OUTPUT].height < long[Panel.OUTPUT].height


def test_on_a_large_screen_the_loss_is_largest_and_another_metric_no_higher():
    content = replace(FIRST, epochs=2, bars=9, flat=frozenset({Panel.THROUGHPUT, Panel.MACHINE}))
    with_metric = replace(content, has_metric=True)
    regions, rows = arrange_panels(with_metric, *LARGE), panel_rows(with_metric, LARGE[1])
    for panel in (Panel.THROUGHPUT, Panel.MACHINE, Panel.EPOCHS):
        assert regions[panel].height <= rows[panel].most
    for panel in (Panel.THROUGHPUT, Panel.MACHINE, Panel.METRIC):
        assert regions[panel].height <= regions[Panel.LOSS].height
    assert regions[Panel.METRIC].x > regions[Panel.LOSS].x
    assert Panel.METRIC not in arrange_panels(content, *LARGE)
    assert Panel.METRIC not in arrange_panels(with_metric, *MIDDLE)


def test_the_throughput_of_a_run_that_stands_leaves_its_room_where_there_is_little():
    stands = replace(FIRST, has_stalled=True)
    assert Panel.THROUGHPUT not in arrange_panels(stands, *SMALL)
    assert Panel.THROUGHPUT in arrange_panels(stands, *MIDDLE)


def test_a_machine_that_is_not_read_has_no_panel():
    assert Panel.MACHINE not in arrange_panels(replace(FIRST, has_machine=False), *MIDDLE)


def test_many_gpus_have_rows_for_two_beside_each_other_and_leave_room_to_the_throughput():
    regions = arrange_panels(replace(FIRST, gpus=16), *SMALL)
    assert (regions[Panel.MACHINE].height, regions[Panel.THROUGHPUT].height) == (12, 6)
    many = arrange_panels(replace(FIRST, gpus=64), *MIDDLE)
    assert many[Panel.MACHINE].height <= MIDDLE[1] * 2 // 3


def test_what_a_person_chose_takes_the_place_of_what_matters_more():
    for panel in LOWER_PANELS:
        assert panel in arrange_panels(replace(FIRST, first=panel), *SMALL)


contents = st.builds(
    RunContent,
    trains=st.booleans(),
    gpus=st.integers(0, 64),
    bars=st.sampled_from([0, 2, 9, 50]),
    step_rows=st.sampled_from([0, 3, 6]),
    has_loss=st.booleans(),
    has_metric=st.booleans(),
    has_stalled=st.booleans(),
    has_failed=st.booleans(),
    needs_memory=st.booleans(),
    epochs=st.sampled_from([0, 1, 14, 5_000]),
    output_lines=st.sampled_from([0, 1, 400]),
    is_running=st.booleans(),
    has_figure=st.booleans(),
    has_begun=st.booleans(),
    has_processes=st.booleans(),
    has_machine=st.booleans(),
    flat=st.frozensets(st.sampled_from([Panel.THROUGHPUT, Panel.MACHINE])),
    hidden=st.frozensets(st.sampled_from(Panel), max_size=6),
    first=st.none() | st.sampled_from(LOWER_PANELS),
)


@given(contents, st.integers(60, 300), st.integers(8, 84))
def test_panels_fill_the_screen_without_overlap_and_none_is_too_small_or_empty(
    content, width, height
):
    regions, rows = arrange_panels(content, width, height), panel_rows(content, height)
    cells = [
        (x, y)
        for region in regions.values()
        for x in range(region.x, region.right)
        for y in range(region.y, region.bottom)
    ]
    assert len(cells) == len(set(cells)) == (width * height if regions else 0)
    assert bool(regions) == bool(rows)
    assert regions.keys() <= rows.keys()
    assert all(regions[panel].height >= rows[panel].least for panel in regions)
    assert regions.keys().isdisjoint(content.hidden)


@given(contents, st.integers(60, 300), st.integers(8, 84), st.integers(1, 500))
def test_nothing_moves_while_epochs_and_bars_beyond_the_shown_ones_are_added(
    content, width, height, more
):
    content = replace(content, epochs=max(content.epochs, 1_000), bars=max(content.bars, 10))
    later = replace(content, epochs=content.epochs + more, bars=content.bars + more)
    assert arrange_panels(later, width, height) == arrange_panels(content, width, height)
