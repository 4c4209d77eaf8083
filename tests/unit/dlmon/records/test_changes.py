"""Leaving out what was sent before, and filling it in again."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlmon.records import (
    Cost,
    Cpu,
    Disk,
    Gpu,
    Machine,
    Memory,
    Network,
    Pressure,
    Process,
    ProcessTree,
    decode,
    encode,
)
from dlmon.records.changes import ALWAYS_WRITTEN, Changes, merge
from dlmon.session.machine_history import MachineHistory

SECOND = 1_000_000_000


def machine(t: int = 0, **parts) -> Machine:
    return Machine(t=t, wall=0.0, cost=Cost(0.0, 0.0), **parts)


DENIED, LOST = Cpu(why={"pct": "denied"}), Cpu(why={"pct": "lost"})


@pytest.mark.parametrize(
    ("given", "reported"),
    [
        (
            [Cpu(pct=50.0, mhz=mhz) for mhz in (3000, 3000, 2000, None, 2000)],
            [Cpu(pct=50.0, mhz=mhz) for mhz in (3000, None, 2000, None, None)],
        ),
        ([DENIED, DENIED, LOST, Cpu(pct=1.0), LOST], [DENIED, None, LOST, Cpu(pct=1.0), LOST]),
    ],
    ids=["a slow field", "a reason"],
)
def test_what_changes_seldom_is_reported_once_and_again_when_it_changes(given, reported):
    changes = Changes()
    assert [changes.only_changed(machine(cpu=cpu)).cpu for cpu in given] == reported


def test_each_gpu_is_compared_with_itself_and_none_at_all_is_reported_each_time():
    changes = Changes()
    first = (Gpu(0, power_limit_w=100.0), Gpu(1, power_limit_w=200.0))
    changes.only_changed(machine(gpus=first))
    second = (Gpu(0, power_limit_w=100.0), Gpu(1, power_limit_w=150.0))
    assert changes.only_changed(machine(gpus=second)).gpus == (Gpu(0), Gpu(1, power_limit_w=150.0))
    assert [changes.only_changed(machine(gpus=())).gpus for _ in range(2)] == [(), ()]


def test_the_table_of_processes_is_reported_with_every_row_when_it_changed():
    changes = Changes()
    table = (Process(10, cpu_pct=80, of_run=True), Process(20, gpus=(0,)))
    newer = (Process(10, cpu_pct=81, of_run=True), Process(20, gpus=(0,)))
    reported = [
        changes.only_changed(machine(processes=processes)).processes
        for processes in (table, None, table, newer, newer, ())
    ]
    assert reported == [table, None, None, newer, None, ()]


def test_who_a_process_is_is_reported_again_only_when_it_is_another():
    changes = Changes()
    unseen = {"command": "it has ended", "user": "it has ended"}
    reported = [
        json.loads(encode(changes.only_changed(machine(processes=rows))))["processes"]
        for rows in (
            (Process(10, "ada", "python", 80, started=5.0), Process(20, why=unseen)),
            (Process(10, "ada", "python", 81, started=5.0), Process(20, why=unseen)),
            (Process(10, "ada", "python", 81, started=9.0),),
            (Process(10, "ada", "sh", 81),),
            (),
            (Process(10, "ada", "sh", 81),),
        )
    ]
    row = {"pid": 10, "user": "ada", "command": "python", "cpu_pct": 80, "gpus": []}
    assert reported == [
        [
            row | {"started": 5.0},
            {"pid": 20, "user": None, "command": None, "gpus": [], "why": unseen},
        ],
        [{"pid": 10, "cpu_pct": 81, "gpus": []}, {"pid": 20, "gpus": []}],
        [row | {"cpu_pct": 81, "started": 9.0}],
        [row | {"command": "sh", "cpu_pct": 81}],
        [],
        [row | {"command": "sh", "cpu_pct": 81}],
    ]


numbers = st.sampled_from([None, 0, 1, 2])
reasons = st.sampled_from(["denied", "lost"])


@st.composite
def parts(draw):
    values = {name: draw(numbers) for name in ("pct", "mhz", "temperature_c")}
    why = {
        name: draw(reasons)
        for name, value in values.items()
        if value is None and draw(st.booleans())
    }
    return Cpu(**values, why=why)


@given(st.lists(parts(), max_size=12))
def test_a_reader_of_every_record_knows_what_was_read(readings):
    """Fold the news as a reader does, and compare with folding everything."""
    changes = Changes()
    from_news = from_all = Cpu()
    for reading in readings:
        news = changes.only_changed(machine(cpu=reading)).cpu
        from_news = merge(from_news, news) if news is not None else from_news
        from_all = merge(from_all, reading)
        assert from_news == from_all


@st.composite
def tables(draw):
    """Rows of few pids; one pid may stand in a table twice, of two namespaces."""
    rows = []
    for pid in draw(st.lists(st.sampled_from([10, 10, 20]), max_size=3)):
        user = draw(st.sampled_from([None, "ada", "eve"]))
        why = {} if user else {"user": draw(reasons), "command": draw(reasons)}
        of_run = draw(st.sampled_from([None, True, False]))
        row = Process(pid, user, user and "python", draw(numbers), of_run=of_run, why=why)
        started = draw(st.sampled_from([None, 5.0, 9.0])) if user else None
        rows.append(replace(row, started=started))
    return tuple(rows)


@given(st.lists(st.none() | tables(), min_size=1, max_size=8))
def test_a_reader_of_every_record_knows_who_each_process_is(reported):
    changes, history = Changes(), MachineHistory()
    for t, table in enumerate(reported):
        why = {"processes": "denied"} if table is None else {}
        read = replace(machine(processes=table, why=why), t=t)
        history.add(decode(encode(changes.only_changed(read))))
        assert history.latest.processes == table


def busy_second(t: int) -> Machine:
    """Return a sample of 8 GPUs that train and 16 cores that feed them."""
    return Machine(
        t=864_000_123_456_789 + t * SECOND,
        wall=1795215296.12 + t,
        cpu=Cpu(
            pct=61.3 + t,
            cores=tuple(range(60 + t, 76 + t)),
            mhz=3400 + 10 * (t // 5),
            temperature_c=71,
            throttled_pct=0.0,
            load_1m=14.25 + t // 5 / 100,
            power_w=281.4 + t,
            energy_j=12_345_678.9 + 300 * t,
            steal_pct=12.3 + t // 5,
        ),
        memory=Memory(used_mib=123_456 + t, swap_used_mib=0, swap_mib_s=0.0, major_faults_s=0.0),
        disk=Disk(read_mib_s=123.4 + t, write_mib_s=11.2),
        network=Network(receive_mib_s=110.2, send_mib_s=10.4 + t),
        process=ProcessTree(
            cpu_pct=712.3 + t,
            busiest_thread_pct=99.8,
            rss_mib=45_678 + t,
            processes=12,
            threads=480,
            major_faults_s=0.0,
        ),
        gpus=tuple(
            Gpu(
                index=index,
                utilization_pct=97 - t % 3,
                memory_used_mib=71_234,
                power_w=612.3 + t,
                power_limit_w=700.0,
                temperature_c=61 + (index + t) % 4,
                sm_mhz=1755 + 15 * (t % 4),
                memory_mhz=2619,
                throttle=("power cap",),
                energy_j=None if t % 5 else 123_456_789.1 + 3000 * t,
            )
            for index in range(8)
        ),
        pressure=Pressure(cpu_pct=34.5 + t // 5, memory_pct=0.0, io_pct=0.4),
        cost=Cost(cpu_ms=4.32, late_ms=0.15),
    )


def test_a_sample_of_8_gpus_and_16_cores_fits_in_1100_bytes():
    changes = Changes()
    encode(changes.only_changed(busy_second(0)))
    sizes = [len(encode(changes.only_changed(busy_second(t)))) for t in range(1, 30)]
    assert sum(sizes) / len(sizes) <= 1100
    assert max(size for t, size in enumerate(sizes, start=1) if t % 5) <= 1100


def test_what_is_left_out_still_reads_as_a_record():
    changes = Changes()
    changes.only_changed(busy_second(0))
    news = changes.only_changed(busy_second(1))
    assert decode(encode(news)) == news
    assert set(json.loads(encode(news))["gpus"][0]) == ALWAYS_WRITTEN[Gpu]
