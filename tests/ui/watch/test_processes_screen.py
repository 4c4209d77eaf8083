"""The processes of a machine, over the live screen, the home screen and the watch."""

import signal
import subprocess
import sys
from dataclasses import replace

import psutil
import pytest
from fakes.details import WIDE, chosen, footer, heading, pids, report, rows, shown
from fakes.recorded import recorded_session
from fakes.states import State
from textual.widgets import Input

from dlmon.records import Machine, Process, Trainer
from dlmon.session.machine_history import MachineHistory
from dlmon.session.source import MachineSource
from dlmon.system.foreign_processes import NoSignal
from tui.machine.process_list import ProcessDetails, ProcessList
from tui.screens.help import HelpScreen
from tui.watch.processes_screen import ProcessesScreen, SignalScreen


class EveryProcess(MachineSource):
    """All processes of this machine, as a test says."""

    def __init__(self):
        self.history, self.said = MachineHistory(1.0), 0

    def say(self, *processes):
        self.said += 1
        self.history.add(Machine(self.said, 0.0, processes=processes))


@pytest.fixture
def every(monkeypatch):
    source = EveryProcess()
    monkeypatch.setattr(ProcessesScreen, "read_all", lambda self: source)
    return source


# ---- the processes ----


async def test_it_is_sorted_by_what_is_held_on_gpus_at_first_and_the_run_is_above_others():
    async with shown("2-gpus-in-depth") as stage:
        assert "▼GPU mem" in heading(stage)
        assert "this run first, by GPU mem" in stage.text
        assert pids(stage)[:4] == [4_242, 4_250, 5_001, 981]
        await stage.press("P")
        assert "this run first" not in stage.text
        assert pids(stage)[:3] == [4_242, 7_311, 4_250]
    async with shown("no-gpu-in-depth") as stage:
        assert "▼CPU %" in heading(stage)
        assert "GPU" not in heading(stage)
        assert "G GPU mem" not in footer(stage)
        assert pids(stage)[:3] == [4_242, 4_250, 7_311]


async def test_what_is_chosen_stays_chosen_when_the_order_changes_and_is_shown_whole():
    async with shown("in-depth") as stage:
        # The run's own is chosen at first.
        assert chosen(stage) == 4_242
        await stage.press("down", "down", "down")
        assert chosen(stage) == 7_311
        await stage.press("i")
        assert chosen(stage) == 7_311
        pointed = [row for row in rows(stage, ProcessList) if "▸" in row]
        assert len(pointed) == 1
        assert "tar c /home" in pointed[0]
        assert rows(stage, ProcessDetails)[0].strip() == "tar c /home"
        await report(stage, Process(5, command="new", cpu_pct=900.0), Process(7_311, command="tar"))
        assert chosen(stage) == 7_311
        await report(stage, Process(5, command="new", cpu_pct=900.0))
        assert chosen(stage) is None
        assert not stage.app.screen.query_one(ProcessDetails).display


async def test_what_is_typed_filters_and_the_footer_offers_what_works_then():
    async with shown("in-depth") as stage:
        usual = footer(stage)
        await stage.press("slash")
        assert footer(stage).split() == ["⏎", "Keep", "esc", "Clear", "f1", "Help"]
        # Letters that are commands are letters here; the arrows still choose.
        await stage.press(*"/?qsigpt")
        assert stage.app.screen.query_one(Input).value == "/?qsigpt"
        assert "No process matches that." in stage.text
        await stage.press("f1")
        assert isinstance(stage.app.screen, HelpScreen)
        await stage.press("escape", "escape")
        assert footer(stage) == usual
        await stage.press("slash", *"root")
        assert set(pids(stage)) == {7_311, 1}
        assert "2 of 6" in stage.text
        await stage.press("down")
        assert chosen(stage) == 7_311
        await stage.press("enter", "i")
        assert set(pids(stage)) == {7_311, 1}


async def test_why_there_are_no_processes_is_said():
    records = recorded_session("training")
    hidden = [
        replace(record, why={"processes": "denied: /proc is hidden"})
        if isinstance(record, Machine)
        else record
        for record in records
    ]
    for state, said in (
        ("evaluating", "Reading the processes …"),
        ("completed", "No processes were recorded."),
        (State(hidden), "denied: /proc is hidden"),
    ):
        async with shown(state) as stage:
            assert said in stage.text


# ---- a signal ----


class Found:
    """A process that a test has found; it notes what it is sent."""

    def __init__(self, pid, started):
        self.pid, self.sent = pid, []

    def send(self, number):
        self.sent.append(number)


def with_found(stage, find):
    stage.app.screen._find = find


async def test_the_chosen_process_gets_the_signal_that_is_answered():
    found = []
    async with shown("in-depth") as stage:
        with_found(stage, lambda *which: found.append(Found(*which)) or found[-1])
        for key, sent in (
            ("t", signal.SIGTERM),
            ("i", signal.SIGINT),
            ("k", signal.SIGKILL),
            ("s", signal.SIGSTOP),
            ("c", signal.SIGCONT),
            ("escape", None),
        ):
            await stage.press("k")
            assert isinstance(stage.app.screen, SignalScreen)
            assert "Send a signal to process 4242 of ada, a part of this run?" in stage.text
            assert found[-1].sent == []
            await stage.press(key)
            assert isinstance(stage.app.screen, ProcessesScreen)
            assert (found[-1].pid, found[-1].sent) == (4_242, [sent] if sent else [])


def said(stage):
    return [notification.message for notification in stage.app._notifications]


async def test_why_a_process_gets_no_signal_is_said_and_nothing_is_asked():
    def refused(pid, started):
        raise NoSignal(f"process {pid} belongs to another user")

    async with shown("in-depth", size=WIDE) as stage:
        with_found(stage, refused)
        await stage.press("k")
        await report(stage, Process(5, command="new", cpu_pct=900.0))
        await stage.press("k")
        assert isinstance(stage.app.screen, ProcessesScreen)
        assert said(stage) == [
            "process 4242 belongs to another user",
            "choose a process first, with up and down",
        ]


@pytest.mark.parametrize(("state", "view"), [("over-in-depth", "live"), ("in-depth", "replay")])
async def test_what_is_recorded_is_offered_no_signal_and_the_key_says_why(state, view):
    async with shown(state, view, size=WIDE) as stage:
        await stage.press("f5")
        assert isinstance(stage.app.screen, ProcessesScreen)
        assert "k Signal" not in footer(stage)
        await stage.press("down", "k")
        assert isinstance(stage.app.screen, ProcessesScreen)
        assert said(stage) == ["these processes are as recorded: no signal is sent to them"]


@pytest.fixture
def child():
    """A process of our own that waits."""
    command = [sys.executable, "-c", "print(flush=True); input()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        yield process
        process.kill()


async def test_a_real_process_gets_the_signal_and_a_pid_that_is_used_again_does_not(every, child):
    started = psutil.Process(child.pid).create_time()
    own = Process(child.pid, "ada", "python", started=started)
    async with shown("in-depth") as stage:
        # The same pid, of an earlier process.
        await show_all(stage, every, replace(own, started=started - 60))
        await stage.press("N", "down", "k")
        assert isinstance(stage.app.screen, ProcessesScreen)
        [why] = said(stage)
        assert "has ended: another one has its number now" in why
        await show_all(stage, every, own)
        await stage.press("k", "k")
        assert child.wait(10) == -signal.SIGKILL
        assert f"SIGKILL was sent to process {child.pid}" in said(stage)


# ---- all processes ----

SHELL = Process(10, "ada", "bash", 0, 5, 1, started=1.0, parent=1)
LAUNCHER = Process(20, "ada", "torchrun", 1, 90, 1, started=2.0, parent=10)
RANK = Process(21, "ada", "python train.py", 150, 900, 9, started=3.0, parent=20)
OTHER = Process(30, "mara", "make", 60, 20, 1, started=4.0, parent=1)
INIT = Process(1, "root", "init", 0, 9, 1, started=0.5)
ALL = (OTHER, RANK, INIT, LAUNCHER, SHELL)
ON_GPU = Process(20, gpus=(0,), gpu_memory_mib=512, of_run=True, started=2.0, command="torchrun")


async def show_all(stage, every, *processes):
    await report(stage, ON_GPU)
    every.say(*processes)
    await stage.settle()


async def test_all_are_listed_with_what_the_session_knows_of_them(every):
    async with shown("in-depth", size=WIDE) as stage:
        await show_all(stage, every, *ALL)
        assert pids(stage) == [20, 21, 30, 1, 10]
        by_pid = {process.pid: process for process in stage.app.screen.table.all_rows}
        assert (by_pid[20].gpus, by_pid[20].gpu_memory_mib) == ((0,), 512)
        # What the run's processes started is the run's too.
        assert [pid for pid, process in by_pid.items() if process.of_run] == [21, 20]
        assert "read every second" in stage.text
        every.say(*ALL, Process(99, "ada", "new", 1, 1, 1, started=9.0, parent=10))
        await stage.settle()
        assert 99 in pids(stage)


async def test_the_time_that_a_gpu_worked_for_a_process_has_a_column_if_it_is_known(every):
    async with shown("in-depth", size=WIDE) as stage:
        await show_all(stage, every, *ALL)
        assert "GPU %" not in heading(stage)
        await report(stage, replace(ON_GPU, gpu_pct=73))
        every.say(*ALL)
        await stage.settle()
        assert "GPU %" in heading(stage)
        assert " 73 " in stage.text


async def test_kernel_threads_are_left_out_but_not_what_has_their_number_in_a_container(every):
    below = Process(40, "root", "[kworker/0:0]", 0, 0, 1, started=0.7, parent=2)
    async with shown("in-depth", size=WIDE) as stage:
        await show_all(stage, every, *ALL, Process(2, "root", "[kthreadd]", started=0.6), below)
        assert pids(stage) == [20, 21, 30, 1, 10]
        every.say(*ALL, Process(2, "root", "python serve.py", started=0.6), below)
        await stage.settle()
        assert set(pids(stage)) == {1, 2, 10, 20, 21, 30, 40}


async def test_while_nothing_is_on_a_gpu_there_are_no_columns_of_it_and_the_order_is_by_cpu(every):
    async with shown("in-depth", size=WIDE) as stage:
        await report(stage, replace(ON_GPU, gpus=(), gpu_memory_mib=None))
        every.say(*ALL)
        await stage.settle()
        assert "▼CPU %" in heading(stage)
        assert "GPU" not in heading(stage)
        assert pids(stage)[:3] == [21, 20, 30]
        await report(stage, ON_GPU)
        assert "▼GPU mem" in heading(stage)


async def test_letters_sort_as_in_top_and_again_they_reverse(every):
    async with shown("in-depth", size=WIDE) as stage:
        await show_all(stage, every, *ALL)
        assert "G GPU mem" in footer(stage)
        for key, order in (
            ("P", [21, 30, 20, 1, 10]),
            ("M", [21, 20, 30, 1, 10]),
            ("N", [1, 10, 20, 21, 30]),
            ("N", [30, 21, 20, 10, 1]),
            ("G", [20, 21, 30, 1, 10]),
        ):
            await stage.press(key)
            assert pids(stage) == order, key


async def test_a_tree_puts_each_below_its_parent_and_keeps_its_order(every):
    async with shown("in-depth", size=WIDE) as stage:
        await show_all(stage, every, *ALL)
        assert "running" in heading(stage)
        await stage.press("t")
        assert "as a tree" in stage.text
        # The branches take its room.
        assert "running" not in heading(stage)
        assert pids(stage) == [1, 10, 20, 21, 30]
        lines = rows(stage, ProcessList)
        assert "├─ bash" in lines[2]
        assert "│  └─ torchrun" in lines[3]
        assert "│     └─ python train.py" in lines[4]
        assert "└─ make" in lines[5]
        # Whatever works more than before, the order stays.
        every.say(*(replace(process, cpu_pct=99 - process.pid) for process in ALL))
        await stage.settle()
        assert pids(stage) == [1, 10, 20, 21, 30]
        await stage.press("t")
        assert pids(stage)[0] == 20


async def test_a_bar_is_as_long_as_the_share(every):
    async with shown("in-depth", size=WIDE) as stage:
        await show_all(stage, every, *(replace(process, cpu_pct=100) for process in ALL[:1]), RANK)
        full, less = (row for row in rows(stage, ProcessList)[1:3])
        assert "150 █████ " in full
        assert "100 ███▍" in less


async def test_processes_with_the_same_command_are_told_apart(every):
    command = "python train.py --workers 2 --epochs 3 --seed 5 --name the-longest"
    rank = replace(RANK, command=command)
    forks = [replace(rank, pid=pid, parent=21, started=4.0) for pid in (22, 23)]
    async with shown("in-depth", size=WIDE) as stage:
        trains = Trainer(stage._clock.now_ns, 0, 21, "torch", rank=1)
        stage.app.screen_stack[0]._source.session.add(trains)
        await show_all(stage, every, LAUNCHER, rank, *forks)
        lines = [line for line in rows(stage, ProcessList) if "train.py" in line]
        assert "rank 1 train.py --workers" in lines[0]
        # What fits less is cut after the script's name, not after the interpreter's.
        assert all("fork of 21 train.py --workers" in line for line in lines[1:])


async def test_where_a_container_can_not_tell_who_is_on_a_gpu_one_row_says_it():
    async with shown("other-namespace", size=WIDE) as stage:
        assert "GPU" not in heading(stage)
        assert stage.text.count("4.6 GiB on GPU 0: this container can't see the host's pids") == 1
