"""Rows of GPUs: histories as fine as they can be, and the figures of the one that trains."""

import re
from dataclasses import replace

import pytest
from fakes.recorded import BEGIN_NS, folded, recorded_session

from tui.drawing.time_axis import TimeAxis
from tui.machine.gpu_rows import GpuRows, coarser
from tui.machine.view import MachineView, gpu_that_trains
from tui.widgets.lines import HIGH, PLAIN, row_width

SECOND_NS = 1_000_000_000


def drawn(width, height, gpus=8, mark=True, without=frozenset(), known=18, **changes):
    session = folded(recorded_session("training", gpus=gpus))
    view = MachineView(session.machine, session.header.machine, 0.2, 1.0, gpu_index=0)
    rows = GpuRows()
    rows._view = replace(view, **changes)
    rows._axis = TimeAxis(BEGIN_NS, SECOND_NS, 104, known)
    rows._mark, rows._without = mark, without
    lines = rows.draw(width, height)
    assert len(lines) <= height
    assert all(row_width(row) <= width for row in lines)
    return ["".join(text for text, _ in row).rstrip() for row in lines]


def test_a_history_is_as_long_as_there_is_data_for():
    axis = TimeAxis(start_ns=0, column_ns=SECOND_NS, count=100, known=16)
    assert coarser(axis, 20) == replace(axis, count=20)
    axis = replace(axis, known=45)
    assert coarser(axis, 20) == TimeAxis(0, 3 * SECOND_NS, 20, 15)


@pytest.mark.parametrize("known", range(1, 100))
@pytest.mark.parametrize("count", [8, 20, 26])
def test_a_history_leaves_nothing_out_that_is_known(count, known):
    axis = TimeAxis(start_ns=7 * SECOND_NS, column_ns=SECOND_NS, count=100, known=known)
    coarse = coarser(axis, count)
    assert coarse.start_ns <= axis.start_ns
    assert axis.end_ns <= coarse.end_ns < axis.end_ns + coarse.column_ns
    assert coarse.known <= coarse.count == count


def test_the_history_of_a_full_axis_moves_by_whole_cells_and_reaches_to_its_end():
    full = TimeAxis(start_ns=0, column_ns=SECOND_NS, count=100, known=100)
    begins = set()
    for second in range(20):
        moved = replace(full, start_ns=second * SECOND_NS)
        coarse = coarser(moved, 20)
        assert coarse.column_ns == 5 * SECOND_NS
        assert moved.end_ns <= coarse.end_ns < moved.end_ns + coarse.column_ns
        begins.add(coarse.start_ns)
    assert len(begins) == 3


def test_a_history_of_no_room_has_no_columns():
    assert coarser(TimeAxis(0, SECOND_NS, 100, 100), 0).known == 0


def test_rows_to_spare_show_all_figures_of_the_gpu_that_trains():
    first, *rows = drawn(38, 7)
    assert re.fullmatch("▸GPU 0 [⠀-⣿]{9} +96 %  61 °C", first)
    assert re.fullmatch("   mem ⣶{9} +4.7 of 6.0 GiB", rows[0])
    assert rows[1] == "  peak 4.7  1.3 left  118 of 120 W"
    assert rows[2] == " 1 ──   0 % 0.0/6G   2 ──   0 % 0.0/6G"


def test_both_curves_of_the_gpu_that_trains_are_of_one_time_and_do_not_move_with_their_figures():
    def curves(used_mib, utilization_pct, width):
        session = folded(recorded_session("training", gpus=8))
        machine = session.machine.latest
        first = replace(machine.gpus[0], memory_used_mib=used_mib, utilization_pct=utilization_pct)
        session.machine.latest = replace(machine, gpus=(first, *machine.gpus[1:]))
        rows = GpuRows()
        rows._view = MachineView(session.machine, session.header.machine, 0.2, 1.0, gpu_index=0)
        rows._axis = TimeAxis(BEGIN_NS, SECOND_NS, 104, 18)
        rows._mark = True
        return [row[1][0] for row in rows.draw(width, 8)[:2]]

    for width in (34, 36, 56, 98):
        seen = [curves(*now, width) for now in ((0, 0), (950, 7), (6_144, 100))]
        assert seen[0] == seen[1] == seen[2]
        assert len({len(curve) for curve in seen[0]}) == 1


def test_a_gpu_whose_memory_is_unknown_has_its_figures_alone():
    session = folded(recorded_session("training", gpus=8))
    machine = session.machine.latest
    first = replace(machine.gpus[0], memory_used_mib=None)
    session.machine.latest = replace(machine, gpus=(first, *machine.gpus[1:]))
    rows = GpuRows()
    rows._view = MachineView(session.machine, session.header.machine, 0.2, 1.0, gpu_index=0)
    rows._axis = TimeAxis(BEGIN_NS, SECOND_NS, 104, 18)
    rows._mark = True
    drawn = ["".join(text for text, _ in row) for row in rows.draw(56, 8)]
    assert not any("mem" in row for row in drawn)
    assert "61 °C  118 of 120 W" in drawn[1]


def test_in_two_rows_what_memory_is_in_use_comes_before_the_power():
    rows = drawn(36, 5, gpus=4)
    assert rows[0].endswith(" 96 %  61 °C")
    assert rows[1].endswith(" 4.7 of 6.0 GiB")
    assert drawn(56, 5, gpus=4)[1].startswith("  61 °C  118 of 120 W  4.7 of 6.0 GiB  peak 4.7")


@pytest.mark.parametrize("width", range(20, 120))
def test_where_the_temperature_of_a_gpu_has_room_its_memory_has_as_well(width):
    rows = [row for row in drawn(width, 7, gpus=8, mark=False) if "°C" in row]
    assert all("/6G" in row or "of 6.0 GiB" in row for row in rows)


def others_at_80_columns(used_mib, total_mib, gpus=8):
    """Return the rows of the GPUs that don't train, with the styles of their text."""
    session = folded(recorded_session("training", gpus=gpus))
    first, *others = session.machine.latest.gpus
    others = [
        replace(gpu, memory_used_mib=used) for gpu, used in zip(others, used_mib, strict=False)
    ]
    session.machine.latest = replace(session.machine.latest, gpus=(first, *others))
    facts = session.header.machine
    facts = replace(facts, gpus=tuple(replace(gpu, memory_mib=total_mib) for gpu in facts.gpus))
    rows = GpuRows()
    rows._view = MachineView(session.machine, facts, 0.2, 1.0, gpu_index=0)
    rows._axis = TimeAxis(BEGIN_NS, SECOND_NS, 104, 18)
    rows._mark = True
    lines = rows.draw(38, 7)
    assert all(row_width(row) <= 38 for row in lines)
    return [row for row in lines if "GPU 0" not in row[0][0] and "/" in "".join(t for t, _ in row)]


@pytest.mark.parametrize("total_mib", [6_078, 24_564, 81_559, 143_771, 294_912])
@pytest.mark.parametrize("gpus", range(4, 9))
def test_the_memory_of_every_other_gpu_stands_at_80_columns_in_even_columns(total_mib, gpus):
    used_mib = [0, 2_970, total_mib // 2, total_mib - 1_000, 500, total_mib, 0]
    rows = others_at_80_columns(used_mib, total_mib, gpus)
    texts = ["".join(text for text, _ in row) for row in rows]
    found = [match for text in texts for match in re.finditer(r"[\d.]+/\d+G", text)]
    assert len(found) == gpus - 1
    assert len({match.end() for match in found}) == (1 if gpus < 6 else 2)


def test_memory_that_is_nearly_full_is_marked_where_it_stands_in_few_cells():
    styles = {
        text.strip(): style
        for row in others_at_80_columns([3_000, 5_800, 6_100, 0, 0, 0, 0], 6_144)
        for text, style in row
    }
    assert styles["2.9/6G"] == PLAIN
    assert styles["5.7/6G"] == styles["6.0/6G"] == HIGH


def test_a_gpu_whose_memory_is_unknown_keeps_its_column_empty():
    first, *_ = others_at_80_columns([None, *[3_000] * 6], 6_144)
    assert "".join(text for text, _ in first) == " 1 ──   0 %          2 ──   0 % 2.9/6G"


def test_with_fewer_rows_the_most_important_figures_stay():
    rows = drawn(38, 7, gpus=16)
    assert re.fullmatch("▸GPU 0  [⠀-⣿]+ +96/79%  busy/memory", rows[0])
    assert rows[1] == "  61 °C  118 of 120 W  4.7 of 6.0 GiB"
    assert rows[2] == " 1      0/0%  2      0/0%  3      0/0%"
    assert rows[6] == " 13     0/0%  14     0/0%  15     0/0%"


def of_16(first_mib, others_mib, busy_pct=100.0):
    """Return the rows of 16 GPUs at 80 columns, with the styles of their text."""
    session = folded(recorded_session("training", gpus=16))
    first, *others = session.machine.latest.gpus
    first = replace(first, memory_used_mib=first_mib)
    others = [
        replace(gpu, memory_used_mib=used, utilization_pct=busy_pct)
        for gpu, used in zip(others, others_mib, strict=True)
    ]
    session.machine.latest = replace(session.machine.latest, gpus=(first, *others))
    rows = GpuRows()
    rows._view = MachineView(session.machine, session.header.machine, 0.2, 1.0, gpu_index=0)
    rows._axis, rows._mark = TimeAxis(BEGIN_NS, SECOND_NS, 104, 18), True
    lines = rows.draw(38, 7)
    assert all(row_width(row) <= 38 for row in lines)
    return lines, ["".join(text for text, _ in row).rstrip() for row in lines]


def test_the_memory_of_16_gpus_has_room_at_80_columns_as_a_percentage_that_the_first_row_names():
    _, rows = of_16(4_800, [6_144, 3_072, 61, *[0] * 12])
    assert rows[0].endswith(" 96/78%  busy/memory")
    assert rows[2] == " 1  100/100%  2   100/50%  3    100/1%"


def test_full_memory_is_marked_there_and_what_is_unknown_is_a_dash():
    lines, rows = of_16(4_800, [6_144, None, 3_000, *[0] * 12])
    assert rows[2] == " 1  100/100%  2    100/–%  3   100/49%"
    styles = {text.strip(): style for text, style in lines[2]}
    assert (styles["100%"], styles["49%"], styles["100"]) == (HIGH, PLAIN, HIGH)


def test_without_a_row_that_names_it_no_percentage_stands_for_the_memory():
    _, rows = of_16(None, [3_000] * 15)
    assert rows[0].endswith(" 96 %")
    assert rows[2] == " 1  ━ 100 %   2  ━ 100 %   3  ━ 100 %"


def test_below_the_chart_of_a_gpu_the_others_show_their_memory_rather_than_a_history():
    rows = drawn(58, 5, gpus=16, mark=False, without=frozenset({0}))
    assert len(rows) == 5
    assert rows[4] == "13 ──   0 % 0.0/6G  14 ──   0 % 0.0/6G  15 ──   0 % 0.0/6G"


def test_a_stale_gpu_has_no_figures():
    rows = drawn(38, 7, age_s=12.0)
    assert rows[0] == "▸GPU 0 stale 12 s"
    assert "°C" not in "".join(rows)


def test_trouble_is_marked_where_there_is_no_room_to_show_it():
    def marked(width):
        session = folded(recorded_session("training", gpus=4))
        machine = session.machine.latest
        broken = replace(machine.gpus[2], ecc_uncorrected=1)
        session.machine.latest = replace(machine, gpus=(*machine.gpus[:2], broken, machine.gpus[3]))
        view = MachineView(session.machine, session.header.machine, 0.2, 1.0)
        rows = GpuRows()
        rows._view, rows._axis = view, TimeAxis(BEGIN_NS, SECOND_NS, 104, 18)
        return ["".join(text for text, _ in row) for row in rows.draw(width, 4)]

    assert [row[:6] for row in marked(60)] == ["GPU 0 ", "GPU 1 ", "GPU 2!", "GPU 3 "]


def test_a_divided_gpu_says_so_and_shows_the_rest():
    session = folded(recorded_session("training", gpus=2))
    machine = session.machine.latest
    divided = replace(machine.gpus[0], utilization_pct=None, mig=True)
    session.machine.latest = replace(machine, gpus=(divided, machine.gpus[1]))
    rows = GpuRows()
    rows._view = MachineView(session.machine, session.header.machine, 0.2, 1.0)
    rows._axis = TimeAxis(BEGIN_NS, SECOND_NS, 104, 18)
    first, _ = ("".join(text for text, _ in row) for row in rows.draw(60, 2))
    assert first.startswith("GPU 0 MIG on: no utilisation ")
    assert first.split()[-6:] == ["61", "°C", "118", "of", "120", "W"]


def test_a_gpu_that_has_a_chart_has_no_row():
    rows = drawn(60, 4, mark=False, without=frozenset({0}))
    assert "GPU 0" not in "".join(rows)
    assert rows[0].startswith("GPU 1 ")


def test_a_row_each_where_there_is_one_for_all():
    rows = drawn(100, 8, mark=False)
    assert [row[:6] for row in rows] == [f"GPU {index} "[:6] for index in range(8)]
    assert "118 of 120 W  4.7 of 6.0 GiB" in rows[0]


def test_a_short_cell_still_says_gpu():
    rows = drawn(36, 8, gpus=16, mark=False)
    assert rows[7].startswith("GPU 14 ")
    assert "  GPU 15 " in rows[7]


def test_until_there_is_a_model_the_gpu_that_was_asked_for_trains():
    session = folded(recorded_session("training", gpus=2))
    asked = replace(session.header, options={"device": "gpu:1"})
    assert gpu_that_trains(asked, None) == 1
    assert gpu_that_trains(asked, session.model) == session.model.gpu_index == 0
    assert gpu_that_trains(replace(asked, options={"device": "auto"}), None) is None
    # What a log holds there may be anything, and any GPU.
    assert gpu_that_trains(replace(asked, options={"device": ["gpu:1"]}), None) is None
    assert gpu_that_trains(replace(asked, options={"device": "gpu:7"}), None) is None
