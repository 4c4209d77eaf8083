"""The table of processes, from a /proc made of files and a driver's word."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from dlmon.records import Gpu, GpuState, Process
from dlmon.sensors.nvidia.queries import DRIVER_NOT_LOADED, STATES
from dlmon.sensors.processes import tree as scan
from dlmon.sensors.processes.table import (
    COMMAND_CHARACTERS,
    FROM_PROC,
    HOSTS_PID,
    MAX_BUSIEST,
    MAX_OF_RUN,
    MAX_ON_GPUS,
    MAX_UNANSWERED,
    NO_ANSWER,
    NOT_SEEN,
    ON_GPUS,
    ProcessTableReader,
    TimedLookups,
)
from dlmon.sensors.processes.tree import ProcessProvider, Scan
from dlmon.sensors.provider import SensorReading

SECOND = 1_000_000_000
LOOK = 5 * SECOND
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
AT_BOOT = 1_700_000_000.0
PAGES_IN_MIB = 2**20 // os.sysconf("SC_PAGE_SIZE")


def on_gpus(*held: tuple[int, int, int | None]) -> dict[int, dict[int, int | None]]:
    found: dict[int, dict[int, int | None]] = {}
    for gpu, pid, mib in held:
        found.setdefault(pid, {})[gpu] = mib
    return found


class Machine:
    """Processes that the test starts, ends and gives CPU time, and the table of them."""

    def __init__(self, proc: Path, **options) -> None:
        self.proc = proc
        self.tree = ProcessProvider(proc)
        self.t = 0
        options = {"at_boot": AT_BOOT, "same_pids": True, **options}
        self.table = ProcessTableReader(self.tree, user_name=lambda uid: "ada", **options)
        self.be_patient(60)

    def be_patient(self, seconds: float) -> None:
        for answers in (self.table._commands, self.table._users):
            answers._patience_s = seconds

    def process(self, pid, parent=1, cpu_s=0.0, command=None, name="py", started=100, state="S"):
        folder = self.proc / str(pid)
        folder.mkdir(exist_ok=True)
        ticks = round(cpu_s * TICKS_PER_S)
        folder.joinpath("stat").write_text(
            f"{pid} ({name}) {state} {parent} 1 1 0 -1 4194304 1 0 0 0 {ticks} 0 7 7 20 0 4 0 "
            f"{started} 1000000 {3 * PAGES_IN_MIB} 184467440737 0 0 0\n"
        )
        if command is not None:
            folder.joinpath("cmdline").write_bytes(command)

    def end(self, pid):
        for file in (self.proc / str(pid)).iterdir():
            file.unlink()
        (self.proc / str(pid)).rmdir()

    def look(self, *held: tuple[int, int, int | None], **reported) -> SensorReading:
        """Return the table of a look 5 s after the one before; GPU, pid and MiB are `held`."""
        self.t += LOOK
        self.tree.fast(self.t)
        self.tree.slow(self.t)
        return self.table.read(self.t, SensorReading(gpu_processes=on_gpus(*held), **reported))

    def rows(self, *held: tuple[int, int, int | None], **reported) -> dict[int, Process]:
        rows = self.look(*held, **reported).processes
        assert rows is not None
        return {row.pid: row for row in rows}


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_a_row_reports_who_runs_what_and_what_it_takes(machine: Machine):
    machine.process(10, command=b"python\0-m\0train\0")
    machine.tree.watch(10, 0)
    machine.look()
    machine.process(10, cpu_s=4.0, command=b"python\0-m\0train\0")
    assert machine.rows((1, 10, 500), (0, 10, 24)) == {
        10: Process(
            pid=10,
            user="ada",
            command="python -m train",
            cpu_pct=80,
            rss_mib=3,
            threads=4,
            gpus=(0, 1),
            gpu_memory_mib=524,
            of_run=True,
            started=AT_BOOT + 100 / TICKS_PER_S,
            parent=1,
        )
    }


def test_the_run_comes_first_then_who_is_on_gpus_then_the_busiest(machine: Machine):
    for pid in (10, 20, 30, 31, 32, 40):
        machine.process(pid)
    machine.process(11, parent=10)
    machine.tree.watch(10, 0)
    machine.look()
    machine.process(11, parent=10, cpu_s=2.0)
    machine.process(30, cpu_s=3.0)
    machine.process(31, cpu_s=4.0)
    machine.process(32, cpu_s=0.05)
    rows = machine.rows((0, 20, 100), (0, 10, 900))
    assert list(rows) == [11, 10, 20, 31, 30, 32]
    assert [row.of_run for row in rows.values()] == [True, True, False, False, False, False]
    assert [row.cpu_pct for row in rows.values()] == [40, 0, 0, 80, 60, 1]


def test_while_nothing_is_watched_nobody_is_said_to_be_of_the_run_or_not(machine: Machine):
    machine.process(20)
    assert machine.rows((0, 20, 100))[20].of_run is None
    machine.process(10)
    machine.tree.watch(10, machine.t)
    assert machine.rows((0, 20, 100))[20].of_run is False
    machine.end(10)
    assert machine.rows((0, 20, 100))[20].of_run is False


@pytest.mark.parametrize(("cpu_s", "state"), [(0.02, "S"), (3.0, "Z")], ids=["idle", "a zombie"])
def test_processes_of_nobodys_interest_are_left_out(machine: Machine, cpu_s, state):
    machine.process(50)
    machine.look()
    machine.process(50, cpu_s=cpu_s, state=state)
    assert machine.look().processes == ()


def test_the_table_stays_small_and_keeps_room_for_each_kind(machine: Machine):
    many = range(100)
    machine.process(10)
    for pid in many:
        machine.process(1000 + pid, parent=10)
        machine.process(2000 + pid)
        machine.process(3000 + pid)
    machine.tree.watch(10, 0)
    machine.look()
    for pid in many:
        machine.process(1000 + pid, parent=10, cpu_s=1 + pid / 10)
        machine.process(3000 + pid, cpu_s=1 + pid / 10)
    held = [(0, 2000 + pid, pid) for pid in many]
    rows = machine.rows(*held)
    assert list(rows) == [
        *range(1099, 1099 - MAX_OF_RUN, -1),
        *range(2099, 2099 - MAX_ON_GPUS, -1),
        *range(3099, 3099 - MAX_BUSIEST, -1),
    ]


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (b"a\0\x1b[31mred\0\xe2\x80\xaetxt\0", "a red txt"),
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b"postgres: writer\0\0\0\0", "postgres: writer"),
        # As ps names one without words.
        (b"", "[py]"),
        (b"dlmon\0exec\0--alert\0https://s3cret\0--\0x\0", "dlmon exec --alert ... -- x"),
        (b"sh\0-c\0dlmon run x --alert=https://s3cret -x", "sh -c dlmon run x --alert ... -x"),
        (b"x\0" * 100_000, "x " * (COMMAND_CHARACTERS // 2 - 1) + "x…"),
    ],
)
def test_a_command_is_one_short_clean_line(machine: Machine, words: bytes, command: str):
    machine.process(20, command=words)
    assert machine.rows((0, 20, 1))[20].command == command


def test_a_command_is_read_again_after_an_exec_and_not_each_time(machine: Machine):
    asked = []
    reads = machine.table._commands._ask
    machine.table._commands._ask = lambda process: asked.append(process) or reads(process)
    reported = []
    for command in (b"parent", b"child", b"never read", b"never read"):
        machine.process(20, command=command)
        reported.append(machine.rows((0, 20, 1))[20].command)
    machine.process(20, command=b"renamed", name="worker")
    reported.append(machine.rows((0, 20, 1))[20].command)
    assert reported == ["parent", "child", "child", "child", "renamed"]
    assert len(asked) == 3


def test_a_pid_that_is_used_again_is_another_process(machine: Machine):
    machine.process(20, command=b"old", cpu_s=50.0)
    machine.look((0, 20, 1))
    machine.process(20, command=b"new", started=999)
    row = machine.rows((0, 20, 1))[20]
    assert row.command == "new"
    assert (row.cpu_pct, row.why["cpu_pct"]) == (None, "no earlier reading yet")


def test_a_pid_that_proc_does_not_show_has_ended_or_is_hidden(machine: Machine):
    machine.tree.watch(os.getpid(), 0)
    row = machine.rows((0, 77, 300))[77]
    why = dict.fromkeys((*FROM_PROC, "of_run"), NOT_SEEN)
    assert row == Process(77, gpus=(0,), gpu_memory_mib=300, why=why)


def test_where_a_drivers_pids_mean_nothing_no_row_claims_to_be_on_no_gpu(tmp_path: Path):
    machine = Machine(tmp_path, same_pids=False)
    machine.process(20)
    machine.tree.watch(20, 0)
    unused = SensorReading(gpus=(Gpu(0),), gpu_processes={})
    machine.look()
    rows = machine.table.read(machine.t, unused).processes
    assert rows is not None
    assert "gpus" not in rows[0].why
    ours, theirs = machine.look((0, 99, 500)).processes or ()
    assert (ours.why["gpus"], ours.why["gpu_memory_mib"]) == (HOSTS_PID, HOSTS_PID)
    assert "gpus" not in theirs.why
    assert theirs.why["command"] == HOSTS_PID


@pytest.mark.parametrize(
    ("reported", "why"),
    [
        ({"gpus": (Gpu(0),), "why": {"gpu_processes": "denied"}}, "denied"),
        ({"gpus_state": GpuState.ASLEEP, "why": {"gpus": "asleep"}}, "asleep"),
        ({"gpus_state": GpuState.LOST, "why": {"gpus": "lost"}}, "lost"),
        # Without a driver nothing can be on a GPU.
        ({"gpus_state": GpuState.NO_DRIVER, "why": {"gpus": "no driver"}}, None),
        ({"gpus_state": STATES[DRIVER_NOT_LOADED], "why": {"gpus": "no driver"}}, None),
    ],
)
def test_where_no_driver_is_asked_or_answers_no_row_claims_to_be_on_no_gpu(
    machine: Machine, reported, why
):
    machine.process(10)
    machine.tree.watch(10, 0)
    machine.look()
    (row,) = machine.table.read(machine.t, SensorReading(**reported)).processes
    assert [row.why.get(name) for name in ON_GPUS] == [why] * len(ON_GPUS)


def test_a_process_that_does_not_answer_keeps_nobody_waiting(tmp_path: Path, monkeypatch):
    machine = Machine(tmp_path)
    machine.process(20, command=b"fine")
    machine.process(21, command=b"hangs")
    answers = threading.Event()
    reads = machine.table._commands._ask

    def ask(process):
        if process.pid == 21:
            answers.wait(60)
        return reads(process)

    machine.table._commands._ask = ask
    machine.be_patient(1)
    held = ((0, 20, 1), (0, 21, 1))
    try:
        rows = machine.rows(*held)
        assert rows[20].command == "fine"
        assert rows[21].command is None
        assert rows[21].why["command"] == NO_ANSWER
        assert rows[21].rss_mib == 3
        machine.be_patient(60)
        answers.set()
        assert machine.rows(*held)[21].command == "hangs"
    finally:
        answers.set()


def test_a_user_whose_name_is_not_known_in_time_is_a_number(tmp_path: Path):
    never = threading.Event()
    tree = ProcessProvider(tmp_path)
    table = ProcessTableReader(tree, same_pids=True, user_name=lambda uid: str(never.wait(60)))
    Machine(tmp_path).process(20)
    tree.slow(0)
    try:
        reported = table.read(0, SensorReading(gpu_processes={20: {0: 1}})).processes
    finally:
        never.set()
    assert reported is not None
    assert reported[0].user == str(tmp_path.stat().st_uid)


def test_questions_that_nobody_answers_take_few_threads():
    answer = threading.Event()
    asked = []
    answers = TimedLookups(lambda key: asked.append(key) or answer.wait(60), patience_s=0.001)
    try:
        for _ in range(3):
            assert answers.get(range(100)) == {}
        assert len(asked) <= MAX_UNANSWERED
    finally:
        answer.set()


def test_on_a_large_machine_idle_processes_are_read_in_turns_and_busy_ones_always(
    tmp_path: Path, monkeypatch
):
    monkeypatch.setattr(scan, "MAX_IDLE", 10)
    machine = Machine(tmp_path)
    for pid in range(100, 136):
        machine.process(pid)
    looking = Scan(str(tmp_path))
    looking.update(0, {})
    for number in range(1, 7):
        machine.process(135, cpu_s=5.0 * number)
        looking.update(number * LOOK, {})
        idle = [look.t for pid, look in looking.samples.items() if pid != 135]
        assert sum(t == number * LOOK for t in idle) == (35 if number == 1 else 10)
        assert (looking.samples[135].t, looking.samples[135].cpu_pct) == (number * LOOK, 100)
    assert min(idle) > LOOK
