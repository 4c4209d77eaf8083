"""The process table's order, its columns, and what a filter leaves."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlmon.figures.machine.processes import (
    about_process,
    columns_at,
    command_text,
    matching,
    reasons_text,
    without_interpreter,
)
from dlmon.figures.units import gpus_text
from dlmon.records import Process
from tui.machine.process_list import BY_NAME, COLUMNS, columns_for, in_order

NAMES = [column.name for column in COLUMNS]
TRAINS = Process(42, "ada", "python train.py", 281.0, 1_900, 40, (0, 1), 4_700, True)
SERVES = Process(7, "mara", "python serve.py", 60.0, 2_300, 12, (1,), 900, False)
PACKS = Process(99, "root", "tar c /home", 97.0, 12, 1)
OUTSIDE = "a pid of another namespace"
FOREIGN = Process(48, gpus=(2,), gpu_memory_mib=5_000, why={"command": OUTSIDE, "of_run": OUTSIDE})
NOW = 1_700_000_000.0
ALL = (TRAINS, SERVES, PACKS, FOREIGN)

numbers = st.none() | st.integers(0, 9)
names = st.none() | st.text(max_size=3)
processes = st.lists(
    st.builds(
        Process,
        pid=st.integers(1, 10**6),
        user=names,
        command=names,
        cpu_pct=st.none() | st.floats(0, 900),
        rss_mib=numbers,
        threads=numbers,
        gpus=st.lists(st.integers(0, 15), max_size=3).map(tuple),
        gpu_memory_mib=numbers,
    ),
    unique_by=lambda process: process.pid,
    max_size=12,
)


def pids(found):
    return [process.pid for process in found]


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        ("pid", [7, 42, 48, 99]),
        ("user", [42, 7, 99, 48]),
        ("gpus", [42, 7, 48, 99]),
        ("gpu_memory_mib", [48, 42, 7, 99]),
        ("cpu_pct", [42, 99, 7, 48]),
        ("rss_mib", [7, 42, 99, 48]),
        ("threads", [42, 7, 99, 48]),
        ("command", [7, 42, 99, 48]),
    ],
)
def test_it_is_sorted_by_any_column_and_the_unknown_comes_last(by, expected):
    assert pids(in_order(ALL, by)) == expected


@given(processes, st.sampled_from(NAMES), st.booleans())
def test_an_order_loses_nothing_and_reversed_keeps_the_unknown_last(some, by, reverse):
    found = in_order(some, by, reverse)
    assert sorted(pids(found)) == sorted(pids(some))
    values = [BY_NAME[by].order(process) for process in found]
    known = [value for value in values if value is not None]
    assert values == known + [None] * (len(values) - len(known))
    descends = BY_NAME[by].largest_first != reverse
    assert known == sorted(known, reverse=descends)


def test_equal_ones_stand_by_cpu_then_by_pid():
    alike = [Process(3, cpu_pct=1.0), Process(2, cpu_pct=9.0), Process(1, cpu_pct=1.0)]
    assert pids(in_order(alike, "user")) == [2, 1, 3]


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("", [42, 7, 99, 48]),
        ("  ", [42, 7, 99, 48]),
        ("python", [42, 7]),
        ("PYTHON mara", [7]),
        ("gpu:1", [42, 7]),
        ("root tar", [99]),
        ("99", [99]),
        ("[/x]", []),
    ],
)
def test_a_filter_leaves_what_holds_every_word(typed, expected):
    assert pids(matching(ALL, typed)) == expected


@pytest.mark.parametrize(
    ("width", "gone"),
    [
        (140, []),
        (120, ["threads"]),
        (78, ["threads"]),
        (74, ["threads", "started"]),
    ],
)
def test_where_there_is_little_room_the_least_important_columns_go(width, gone):
    shown = [column.name for column in columns_for(width, True, with_engines=True)]
    assert shown == [name for name in NAMES if name not in gone]
    assert (
        sum(column.cells + 1 for column in columns_for(width, True, with_engines=True)) < width - 10
    )


def test_without_a_gpu_there_are_no_columns_of_gpus():
    assert not {"gpus", "gpu_memory_mib"} & {column.name for column in columns_for(120, False)}


@pytest.mark.parametrize(
    ("gpus", "text"),
    [((), ""), ((0,), "0"), ((2, 0), "0,2"), ((0, 1, 2, 3), "0-3"), ((0, 1, 3, 6, 7), "0-1,3,6-7")],
)
def test_numbers_of_gpus_are_written_short(gpus, text):
    assert gpus_text(gpus) == text


@pytest.mark.parametrize(
    ("name", "process", "text"),
    [
        ("cpu_pct", TRAINS, "281"),
        ("rss_mib", TRAINS, "1.9 GiB"),
        ("gpu_memory_mib", SERVES, "900 MiB"),
        # On no GPU it holds no memory there: nothing is unknown.
        ("gpu_memory_mib", PACKS, ""),
        ("gpu_memory_mib", Process(1, gpus=(0,)), "–"),
        ("gpu_memory_mib", Process(1, why={"gpus": "denied"}), "–"),
        ("gpu_memory_mib", Process(1, why={"gpu_memory_mib": "denied"}), "–"),
        ("gpus", PACKS, ""),
        ("user", FOREIGN, "–"),
        ("started", replace(PACKS, started=NOW - 72), "01:12"),
        ("started", replace(PACKS, started=NOW - 3_600 * 23), "23:00:00"),
        ("started", replace(PACKS, started=NOW - 86_400 * 12 - 5), "12 days"),
        # A clock that was set meanwhile.
        ("started", replace(PACKS, started=NOW + 3), "00:00"),
    ],
)
def test_a_cell_is_written_for_people_and_an_unknown_one_is_no_zero(name, process, text):
    (column,) = (one for one in columns_at(NOW) if one.name == name)
    assert column.text(process) == text


def test_in_place_of_an_unknown_command_stands_the_reason():
    assert command_text(FOREIGN) == f"(4.9 GiB on GPU 2: {OUTSIDE})"
    assert command_text(replace(FOREIGN, gpus=())) == f"({OUTSIDE})"
    assert command_text(Process(1)) == "(unknown)"
    assert reasons_text(FOREIGN) == f"{OUTSIDE}: command, of this run"
    assert reasons_text(TRAINS) == ""


@pytest.mark.parametrize(
    ("typed", "expected"),
    [("gpu:1", [1]), ("gpu:10", [2]), ("gpu:01", []), ("gpu:0", [4]), ("gpu:", [1, 2, 3, 4])],
)
def test_a_number_of_a_gpu_is_that_one_alone(typed, expected):
    some = [Process(1, gpus=(1,)), Process(2, gpus=(10, 11)), Process(3, gpus=(15,))]
    some += [Process(4, gpus=(0, 2)), Process(5, command="run --device gpu:1")]
    assert pids(matching(some, typed)) == expected


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("/usr/bin/python3 -m train /data/set", "python3 -m train /data/set"),
        ("./train.sh", "train.sh"),
        ("/opt/app/", "/opt/app/"),
        ("/usr/bin/tar  c", "tar  c"),
        ("python /home/ada/train.py", "python /home/ada/train.py"),
        ("[kworker/0:1]", "[kworker/0:1]"),
    ],
)
def test_a_command_is_shown_without_the_folder_of_its_program(command, text):
    process = Process(1, command=command)
    assert command_text(process) == text
    # It stands where one looks for what is seen, and is found by all of it.
    assert BY_NAME["command"].order(process) == text.lower()
    assert matching([process], command.split()[0]) == [process]


@pytest.mark.parametrize(
    ("command", "rest"),
    [
        ("python serve.py --shard 3", "serve.py --shard 3"),
        ("python3.11 -u -m workloads.train mnist", "workloads.train mnist"),
        ("python -X dev /home/ada/train.py --lr 1", "train.py --lr 1"),
        ("python -c import time", "python -c import time"),
        ("python -c run('python')", "python -c run('python')"),
        ("bash /dev/fd/3", "bash /dev/fd/3"),
        ("python", "python"),
        ("Xorg vt2 -auth /run", "Xorg vt2 -auth /run"),
        ("(a pid of another namespace)", "(a pid of another namespace)"),
    ],
)
def test_a_command_without_its_interpreter_begins_with_the_script(command, rest):
    assert without_interpreter(command) == rest


def test_a_process_names_its_parent_even_if_that_is_not_listed():
    child = Process(9, "ada", "python3 train.py", threads=4, parent=3)
    shell = Process(3, "ada", "/bin/bash run.sh")
    assert about_process(child, [child, shell]) == "of ada, parent 3 (run.sh), 4 threads"
    assert about_process(child, [child]) == "of ada, parent 3, 4 threads"
    assert about_process(Process(1, parent=0), []) == ""
