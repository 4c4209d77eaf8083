"""Every state that a screen can be seen in, by name, and the screen that shows it.

To look at one: python -m tests.fakes.states training 120x40 --ascii
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, chdir, contextmanager
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import dlmon.system.this_host
from dlmon.cli.start import Sources, Start
from dlmon.exit_codes import DONE
from dlmon.log.label import Label, write_label
from dlmon.options.script import remember_script
from dlmon.options.settings import Settings
from dlmon.protocol.job import Job
from dlmon.quantities import GPU_ACTIVITY
from dlmon.records import (
    Alert,
    AlertEvent,
    Batches,
    CodeSamples,
    Epoch,
    Facts,
    Failure,
    FailureKind,
    Frame,
    Gpu,
    GpuFacts,
    Machine,
    Metrics,
    MigInstance,
    Model,
    Notice,
    Operation,
    Output,
    Process,
    ProcessStack,
    ProcessTree,
    Profile,
    Record,
    Result,
    SeenAt,
    SessionHeader,
    SourceLines,
    Stack,
    StepParts,
    ThreadStack,
    Trainer,
    decode,
    encode,
)
from dlmon.session.follower import SessionFollower
from dlmon.session.machine_history import MachineHistory
from dlmon.session.replay import ReplaySource
from dlmon.session.source import MachineSource
from tui.app import DlmonApp
from tui.machine.machine import MachinePanel
from tui.screens.starting import StartingScreen
from tui.watch import processes_screen

from .hosts import FakeHost, FakeLink, live
from .recorded import (
    BEGIN_NS,
    BEGIN_WALL,
    BOOT_ID,
    HOST,
    folded,
    recorded_machine,
    recorded_session,
    write_log,
)
from .screens import (
    Clock,
    FakeSensors,
    FakeSupervisor,
    GrowingLog,
    fake_machine,
    refused_launch,
    screen_text,
    until,
    until_read,
)

Size = tuple[int, int]

SIZES: tuple[Size, ...] = ((80, 24), (120, 40), (200, 60))
DAY_S = 86_400

LONG_NAME = "a name that goes on and on, " * 12 + "to its end"
WIDE_NAME = "漢字かな交じり文 한국어 👩🏽\u200d🚀🇯🇵❤\ufe0f Z\u0334\u0317\u0305a\u0352lgo e\u0301"
RIGHT_TO_LEFT_NAME = "\u202egnp.exe\u202c שלום \u2067مرحبا\u2069 \u200fend"


@dataclass(frozen=True)
class State:
    """A session, and what its viewer finds around it.

    Attributes:
        records: what the log holds.
        earlier: sessions of the same log directory, over by then.
        locked: its supervisor still holds the lock of the log.
        ours: the viewer holds the pipe to its supervisor.
        silent_s: how long ago the last record came.
        has_processes: the samples in the log hold the processes of the machine.
    """

    records: list[Record]
    earlier: tuple[list[Record], ...] = ()
    locked: bool = True
    ours: bool = True
    silent_s: float = 0.0
    has_processes: bool = False

    @property
    def header(self) -> SessionHeader:
        header = self.records[0]
        assert isinstance(header, SessionHeader)
        return header

    @property
    def supervisor(self) -> FakeSupervisor | None:
        header = self.header
        job = Job(header.workload or "", ("true",), {}, "", script=header.is_script)
        return FakeSupervisor(job=job) if self.ours else None

    @cached_property
    def log(self) -> bytes:
        """What the log holds, as it stands there."""
        records = _beside_others(self.records) if self.has_processes else self.records
        return b"".join(map(encode, records))


def renamed(records: list[Record], text: str) -> list[Record]:
    """Return records that hold `text` wherever a log can hold any, and at their end all kinds."""
    changed: list[Record] = []
    for record in records:
        if isinstance(record, SessionHeader):
            record = _renamed_header(record, text)
        elif isinstance(record, Model):
            record = replace(record, device_name=text, data=text, backend=text)
        elif isinstance(record, Epoch):
            record = replace(record, metrics={text: 0.5, "loss": None}, why={"loss": text})
        changed.append(record)
    last = max(getattr(record, "t", 0) for record in records)
    wall = BEGIN_WALL + (last - BEGIN_NS) / 1e9
    unknown = {"utilization_pct": text}
    return [
        *changed,
        Machine(last, wall, gpus=(Gpu(0, throttle=(text,)), Gpu(1, why=unknown))),
        Machine(last, wall, processes=_named(text)),
        Output(last, "stdout", text),
        Output(last, text, text),
        Notice(last, text),
    ]


def _named(text: str) -> tuple[Process, ...]:
    """Return processes that hold `text` wherever they can hold any."""
    return (
        Process(1, text, text, 1.0, 2, 3, (0,), 4, True),
        Process(2, text, None, gpus=(0,), why={"command": text, "of_run": text, text: text}),
    )


def _renamed_header(header: SessionHeader, text: str) -> SessionHeader:
    machine = header.machine
    return replace(
        header,
        host=text,
        machine=replace(
            machine,
            cpu_model=text,
            gpus=tuple(
                replace(gpu, name=text, uuid=text, bus_id=text, why={"slowdown_c": text})
                for gpu in machine.gpus or ()
            ),
            driver=text,
            governor=text,
            why={"gpus": text},
        ),
        options={"batch_size": text, "steps": [text], "device": text, text: {text: text}},
    )


def _with_samples(
    records: list[Record], change: Callable[[Machine], Machine], last: int | None = None
) -> list[Record]:
    """Return records whose samples are changed: all, or so many of the last ones."""
    times = [record.t for record in records if isinstance(record, Machine)]
    since = times[-last if last else 0]
    return [
        change(record) if isinstance(record, Machine) and record.t >= since else record
        for record in records
    ]


def _unanswered(reason: str, machine: Machine) -> Machine:
    """Return a sample whose GPUs give that reason for every reading."""
    why = {spec.name: reason for spec in fields(Gpu) if spec.default is None}
    return replace(machine, gpus=tuple(Gpu(gpu.index, why=why) for gpu in machine.gpus or ()))


def _in_depth(
    records: list[Record],
    change: Callable[[Gpu], Gpu] = lambda gpu: gpu,
    processes: tuple[Process, ...] | None = None,
) -> list[Record]:
    """Return records of a machine that reports all there is to report; `change` alters its GPUs."""
    header, *rest = records
    assert isinstance(header, SessionHeader)
    gpus = tuple(map(_facts_in_depth, header.machine.gpus or ()))
    facts = replace(header.machine, gpus=gpus or header.machine.gpus, cpu_limit=6.0)
    table = _processes(len(gpus)) if processes is None else processes
    taken_j = dict.fromkeys(("cpu", *(gpu.index for gpu in gpus)), 4.5e7)

    def deepened(machine: Machine) -> Machine:
        taken_j["cpu"] += _PACKAGE_W
        for gpu in machine.gpus or ():
            taken_j[gpu.index] += gpu.power_w or 0.0
        return replace(
            machine,
            cpu=replace(
                machine.cpu,
                load_1m=3.2,
                power_w=_PACKAGE_W,
                energy_j=taken_j["cpu"],
                throttled_pct=4.0,
                limit_used_pct=48.0,
            ),
            memory=replace(machine.memory, major_faults_s=0.0),
            process=_tree_of(table, machine.process or ProcessTree()),
            gpus=tuple(change(_gpu_in_depth(gpu, taken_j[gpu.index])) for gpu in machine.gpus or ())
            or None,
            processes=table,
        )

    return _with_samples([replace(header, machine=facts), *rest], deepened)


_PACKAGE_W = 64.0


def _tree_of(table: tuple[Process, ...], tree: ProcessTree) -> ProcessTree:
    """Return what the processes of the run take together."""
    own = [process for process in table if process.of_run]
    return replace(
        tree,
        cpu_pct=sum(process.cpu_pct or 0.0 for process in own),
        rss_mib=sum(process.rss_mib or 0 for process in own),
        processes=len(own),
        threads=sum(process.threads or 0 for process in own),
        major_faults_s=12.0,
    )


def _facts_in_depth(facts: GpuFacts) -> GpuFacts:
    return replace(
        facts,
        bus_id=f"0000:{0x41 + facts.index:02x}:00.0",
        slowdown_c=93,
        memory_max_mhz=4_004,
        pcie_max_generation=3,
        pcie_max_width=16,
    )


def _gpu_in_depth(gpu: Gpu, energy_j: float) -> Gpu:
    works, fanless = gpu.index == 0, gpu.index == 1
    unread = dict.fromkeys(("fan_pct", "energy_j"), "not supported") if fanless else {}
    return replace(
        gpu,
        # What the processes on it hold.
        memory_used_mib=4_850 if works else 3_003,
        energy_j=None if fanless else energy_j,
        fan_pct=None if fanless else 45 if works else 0,
        pcie_generation=3 if works else 1,
        # One sits in a slot with half of the lanes.
        pcie_width=8 if gpu.index == 1 else 16,
        pcie_receive_mib_s=310.0 if works else 0.0,
        pcie_send_mib_s=12.0 if works else 0.0,
        mig=False,
        instances=(),
        encoder_pct=0,
        decoder_pct=7 if works else 0,
        memory_busy_pct=57 if works else 0,
        sm_active_pct=61.2 if works else 0.0,
        sm_occupancy_pct=38.4 if works else 0.0,
        tensor_pct=22.5 if works else 0.0,
        dram_pct=48.7 if works else 0.0,
        xid_errors=1 if gpu.index == 2 else 0,
        xids=(94,) if gpu.index == 2 else (),
        nvlinks=4 if gpu.index < 2 else 0,
        nvlink_receive_mib_s=1_800.0 if works else 0.0,
        nvlink_send_mib_s=1_750.0 if works else 0.0,
        ecc_corrected=3 if works else 0,
        ecc_uncorrected=1 if gpu.index == 2 else 0,
        why={**gpu.why, **unread},
    )


def _slowed(machine: Machine) -> Machine:
    """Return a sample whose working GPUs have a lower clock than the usual one."""
    gpus = (replace(gpu, sm_mhz=1_607) if gpu.throttle else gpu for gpu in machine.gpus or ())
    return replace(machine, gpus=tuple(gpus))


def _divided(gpu: Gpu) -> Gpu:
    """Return a GPU that is divided into instances."""
    unknown = ("utilization_pct", "encoder_pct", "decoder_pct", *GPU_ACTIVITY)
    unknown = (*unknown, "sm_occupancy_pct")
    why = dict.fromkeys(unknown, "not supported")
    name, total_mib = "NVIDIA GeForce GTX 1060 6GB MIG 1g.3gb", 3_072
    parts = (
        MigInstance(0, name, 7, 0, total_mib, 2_911, (4_242,)),
        MigInstance(1, name, 8, 0, total_mib, 0, ()),
    )
    unread = dict.fromkeys(unknown)
    held = {"memory_used_mib": parts[0].memory_used_mib}
    return replace(gpu, **unread, **held, mig=True, instances=parts, why=gpu.why | why)


_TRAINER = "/usr/bin/python3 -m workloads.train cifar10-cnn --batch-size 100 --epochs 3"


def _processes(gpus: int) -> tuple[Process, ...]:
    """Return what runs on a machine with so many GPUs: a training run among other things."""
    on = tuple(range(min(1, gpus)))
    others = tuple(
        Process(5_000 + number, "mara", f"python serve.py --shard {number}", number / 10, 2_300)
        for number in range(1, gpus)
    )
    rows = (
        replace(
            Process(4_242, "ada", _TRAINER, 259.0, 1_840, 42, on, 4_730 if gpus else None, True),
            started=BEGIN_WALL - 12,
        ),
        Process(
            *(4_250, "ada", "python3 loader 1 of 2", 22.0, 210, 3),
            of_run=True,
            started=BEGIN_WALL + 9,
            parent=4_242,
        ),
        Process(981, "gdm", "/usr/lib/xorg/Xorg vt2 -auth /run/user/120/x", 1.5, 88, 9, on, 118)
        if gpus
        else Process(981, "gdm", "/usr/lib/xorg/Xorg vt2 -auth /run/user/120/x", 1.5, 88, 9),
        *(
            replace(
                other,
                threads=12,
                gpus=(number,),
                gpu_memory_mib=3_000,
                of_run=False,
                started=BEGIN_WALL - 9_000 * number,
            )
            for number, other in enumerate(others, 1)
        ),
        Process(7_311, "root", "tar c /home", 24.0, 12, 1, of_run=False),
        Process(7_402, "lin", "java -jar build.jar --serve", 4.0, 2_400, 118, of_run=False),
        Process(1, "root", "/sbin/init", 0.0, 11, 1, of_run=False, started=BEGIN_WALL - 900_000),
    )
    return tuple(replace(row, started=row.started or BEGIN_WALL - 3_600) for row in rows)


def _holding(gpus: tuple[Gpu, ...] | None, table: Sequence[Process]) -> tuple[Gpu, ...] | None:
    """Return GPUs whose memory holds what the processes of the table have on them."""
    held = {
        gpu.index: sum(row.gpu_memory_mib or 0 for row in table if gpu.index in row.gpus)
        for gpu in gpus or ()
    }
    more = {gpu.index: max(gpu.memory_used_mib or 0, held[gpu.index]) for gpu in gpus or ()}
    return gpus and tuple(replace(gpu, memory_used_mib=more[gpu.index]) for gpu in gpus)


def _all_processes(table: tuple[Process, ...]) -> tuple[Process, ...]:
    """Return all processes of a machine whose session has this table."""
    others = (
        (1, 0, "root", "/sbin/init", 0.0, 11),
        (612, 1, "root", "/usr/lib/systemd/systemd-journald", 0.4, 62),
        (655, 1, "root", "/usr/lib/systemd/systemd-udevd", 0.0, 9),
        (903, 1, "messagebus", "/usr/bin/dbus-daemon --system", 0.1, 6),
        (940, 1, "root", "/usr/sbin/sshd -D", 0.0, 8),
        (951, 1, "root", "/usr/bin/nvidia-persistenced --verbose", 0.0, 3),
        (1_204, 1, "root", "/usr/bin/dockerd -H fd://", 0.7, 118),
        (3_801, 940, "ada", "sshd: ada@pts/0", 0.2, 7),
        (3_802, 3_801, "ada", "-bash", 0.0, 6),
        (3_850, 3_802, "ada", "tmux new -s train", 0.3, 9),
        (3_851, 3_850, "ada", "-bash", 0.0, 6),
        (4_230, 3_851, "ada", "/usr/bin/python3 -m dlmon.supervisor", 1.2, 38),
        (4_236, 4_230, "ada", "/usr/bin/python3 -m dlmon.sensors", 0.8, 24),
        (4_900, 940, "mara", "sshd: mara@pts/1", 0.0, 7),
        (4_901, 4_900, "mara", "-bash", 0.0, 6),
        (7_400, 1, "lin", "tmux new -s build", 0.0, 8),
    )
    known = {process.pid: process for process in table if process.command is not None}
    parents = {4_242: 4_230, 7_402: 7_400, 981: 1, 7_311: 1}
    parents |= {pid: 4_901 for pid in known if 5_000 < pid < 5_100}
    every = {
        pid: Process(
            *(pid, user, command, cpu_pct, rss_mib, 1),
            started=BEGIN_WALL - (20 if "dlmon" in command else 900_000 - pid * 100),
            parent=parent,
        )
        for pid, parent, user, command, cpu_pct, rss_mib in others
    }
    every |= {
        pid: replace(
            process,
            gpus=(),
            gpu_memory_mib=None,
            of_run=None,
            parent=process.parent or parents.get(pid, 0),
        )
        for pid, process in known.items()
    }
    return tuple(every[pid] for pid in sorted(every))


class _AllProcesses(MachineSource):
    """All processes of the machine of a state; none are read at first."""

    def __init__(self, state: State, is_read: bool) -> None:
        self.history = MachineHistory(1.0)
        samples = [sample for sample in state.records if isinstance(sample, Machine)]
        if is_read and samples:
            table = samples[-1].processes or _processes(0)
            self.history.add(replace(samples[-1], processes=_all_processes(table)))


_OUTSIDE = "this container can't see the host's pids"
_UNREAD_HERE = dict.fromkeys(("gpus", "gpu_memory_mib"), _OUTSIDE)
_OTHER_NAMESPACE = (
    Process(
        *(17, "root", "python train.py", 281.0, 1_900, 42),
        of_run=True,
        started=BEGIN_WALL - 12,
        why=_UNREAD_HERE,
    ),
    Process(
        48_211,
        gpus=(0,),
        gpu_memory_mib=4_730,
        why=dict.fromkeys(("user", "command", "cpu_pct", "rss_mib", "threads", "of_run"), _OUTSIDE),
    ),
)


def _own_script(reached: str = "training", **options) -> list[Record]:
    """Return a session of a script that the catalog doesn't know."""
    header, *rest = recorded_session(reached, **options)
    of_its_own = [replace(one, data=None) if isinstance(one, Model) else one for one in rest]
    command = ("python", "train_resnet.py", "--lr", "1e-3")
    return [replace(header, workload="train_resnet.py", command=command), *of_its_own]


_PART_US = {"wait_us": 1_000, "copy_us": 100, "forward_us": 1_800, "backward_us": 1_900}
_PART_US |= {"optimizer_us": 500}
"""The parts of a step whose other time the script's own code takes."""
_AUGMENT = Frame("/home/ada/resnet/train_resnet.py", 118, "augment")


def _pytorch(
    ranks: Sequence[Mapping[str, int]] = (_PART_US,),
    code: Frame | None = None,
    busy_pct: Sequence[int] = (34,),
    step_us: int = 18_000,
    **machine,
) -> list[Record]:
    """Return a script of PyTorch's whose steps are measured, with their parts on each rank.

    Args:
        ranks: the parts of a step of each rank.
        code: the line that most samples of the script's own code saw.
        busy_pct: the utilisation of each GPU while it trains.
        step_us: the time of a step.
        machine: the machine, as of `recorded_session`.
    """
    header, *rest = _own_script(step_us=step_us, **machine)
    assert isinstance(header, SessionHeader)
    options = {**header.options, "workload": None, "epochs": None}
    records: list[Record] = [replace(header, options=options, directory="/home/ada/resnet")]
    read = {"device": "gpu:0", "workers": 2, "optimizer": "AdamW", "fused": True}
    read |= {"pin_memory": True, "compute_precision": "bfloat16", "backend": None}
    for record in rest:
        if isinstance(record, Machine):
            records.append(_working(record, busy_pct))
        elif not isinstance(record, (Model, Batches, Epoch)):
            records.append(record)
    for number, parts in enumerate(ranks):
        mark, rank = number or None, number if len(ranks) > 1 else None
        trains = Trainer(BEGIN_NS, number, 4_242 + number, "torch", "2.13.0", "3.11.7", rank=rank)
        records.append(replace(trains, world_size=len(ranks) if len(ranks) > 1 else None))
        for record in rest:
            if isinstance(record, Model):
                device = {"device": f"gpu:{number}"} if machine.get("gpus") != 0 else {}
                records.append(replace(record, **read | device, trainer=mark))
            elif isinstance(record, Epoch):
                records.append(replace(record, trainer=mark))
            elif isinstance(record, Batches):
                wait_us = record.time_us * parts["wait_us"] // step_us
                records.append(replace(record, wait_us=wait_us, trainer=mark))
        records += _of_steps(rest, parts, step_us, mark, code)
    return [records[0], *sorted(records[1:], key=lambda record: getattr(record, "t", BEGIN_NS))]


def _of_steps(
    records: Sequence[Record],
    parts: Mapping[str, int],
    step_us: int,
    trainer: int | None,
    code: Frame | None,
) -> Iterator[Record]:
    """Yield the parts of four steps a second of training, and samples of the script's own code."""
    last_ns = 0
    for record in records:
        if not isinstance(record, Batches) or record.t_last < last_ns + 10**9:
            continue
        last_ns = record.t_last
        # Steps differ a little from each other.
        varied_us = last_ns // 1_000 % 7 * 20
        known = {name: 4 * (part_us + varied_us) for name, part_us in parts.items()}
        step = 4 * (step_us + len(parts) * varied_us)
        yield StepParts(last_ns, 4, step, **known, trainer=trainer)
        if code is not None:
            yield CodeSamples(last_ns, 10, (SeenAt(6, code, code),), trainer)


def _working(sample: Machine, busy_pct: Sequence[int]) -> Machine:
    """Return a sample of a machine that does what a script asks of it."""
    gpus, is_working = [], any(gpu.utilization_pct for gpu in sample.gpus or ())
    for gpu in sample.gpus or ():
        pct = busy_pct[gpu.index % len(busy_pct)] + sample.t // 10**9 % 5 if is_working else 0
        throttle = None if gpu.throttle is None else ()
        known = {"power_w": 12.0 + 0.9 * pct, "temperature_c": 38 + pct // 4, "throttle": throttle}
        gpus.append(replace(gpu, utilization_pct=pct, sm_mhz=1_860 if pct else 139, **known))
    process = sample.process and replace(sample.process, busiest_thread_pct=61.0)
    return replace(sample, gpus=tuple(gpus) or None, process=process)


_RANK_US = {**_PART_US, "forward_us": 2_500, "backward_us": 12_900}
_SLOW_RANK_US = {**_RANK_US, "wait_us": 9_900, "backward_us": 4_000}
_RANKS = (*[_RANK_US] * 5, _SLOW_RANK_US, *[_RANK_US] * 2)


def _of_ranks() -> list[Record]:
    """Return eight ranks on eight GPUs, of which all others wait for the data of one."""
    # A GPU that waits for another one in a collective operation is busy.
    busy_pct = [93] * 5 + [48] + [93] * 2
    return _with_samples(
        _pytorch(_RANKS, busy_pct=busy_pct, gpus=8, cores=64),
        lambda sample: replace(
            sample,
            gpus=tuple(
                replace(gpu, memory_used_mib=sample.gpus[0].memory_used_mib) for gpu in sample.gpus
            ),
        ),
    )


_STALLED_NS = 75_000_000_000
_PACKAGES = "/usr/lib/python3/site-packages"
_LIBRARY = f"{_PACKAGES}/torch"


# What PyTorch's profiler names on a GPU of the Pascal generation, in single precision.
_TENSOR = "cudnnTensorStruct, float const*"
_KERNELS = (
    (
        "void implicit_convolve_sgemm<float, float, 128, 6, 7, 3, 3, 5, 1, false, true, true>"
        "(int, int, int, float const*, int, float*, float const*, kernel_conv_params)",
        265,
        300_000,
    ),
    (
        "void cudnn::detail::dgrad_engine<float, 512, 6, 5, 3, 3, 3, false>"
        "(int, int, int, float const*, int, float const*, int, float*, kernel_grad_params)",
        260,
        190_000,
    ),
    (
        "void cudnn::cnn::wgrad_alg0_engine<float, 128, 5, 5, 3, 3, 3, false, 512>"
        "(int, int, int, float const*, int, float*, float const*, kernel_grad_params)",
        265,
        160_000,
    ),
    (
        "void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, int, 512, true, 1, true>"
        f"({_TENSOR}, cudnnTensorStruct, float*)",
        265,
        72_000,
    ),
    (
        "void cudnn::bn_bw_1C11_kernel_new<float, float, float2, 512, true, 1>"
        f"(float, float, float, float, {_TENSOR}, {_TENSOR})",
        265,
        58_000,
    ),
    ("Memcpy HtoD (Pinned -> Device)", 10, 57_000),
    (
        "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, "
        "std::array<char*, 3ul> >"
        "(int, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>)",
        800,
        49_000,
    ),
    ("maxwell_sgemm_128x64_tn", 15, 26_000),
    (
        "void at::native::(anonymous namespace)::max_pool_forward_nchw<float>"
        "(int, float const*, long, long, long)",
        5,
        15_000,
    ),
    ("void cudnn::ops::nchwToNhwcKernel<float>", 20, 3_000),
)
_DEVICE_US = sum(device_us for *_, device_us in _KERNELS)


def _stalled() -> list[Record]:
    """Return a session of a script that was profiled, and saves for over a minute now."""
    header, *rest = _own_script(ended=1, step_us=200_000, cut_after=480)
    last = rest[-1].t
    ends = (each.t + 1_000 * sum(each.dt_us[1:]) for each in rest if isinstance(each, Batches))
    since = max(end for end in ends if end < last - _STALLED_NS)
    calm = [
        _waiting(each) if isinstance(each, Machine) and each.t > since else each for each in rest
    ]
    kept = [each for each in calm if not isinstance(each, (Batches, Metrics)) or each.t <= since]
    script = Frame("/home/ada/resnet/train_resnet.py", 88, "save")
    frames = (
        Frame(f"{_LIBRARY}/serialization.py", 1_166, "_save"),
        Frame(f"{_LIBRARY}/serialization.py", 944, "save"),
        script,
        Frame(script.file, 141, "main"),
    )
    known = (
        Profile(
            since,
            1,
            since - 10**9,
            since,
            5,
            "torch",
            "profile-1.json.gz",
            81_000,
            tuple(
                Operation(name, calls, 0, device_us, device_us / _DEVICE_US)
                for name, calls, device_us in _KERNELS
            ),
            0.07,
            0.061,
            0.0,
        ),
        Alert(
            since + 60 * 10**9,
            AlertEvent.STALLED,
            "STALLED: no batch for 60 s",
            since,
            False,
            ("after epoch 2, step 106", "a step usually takes 200 ms"),
        ),
        ProcessStack(
            last,
            1,
            4_242,
            (
                ThreadStack("MainThread", frames, script, True),
                ThreadStack(
                    "Thread-3 (_pin_memory_loop)",
                    (
                        Frame("/usr/lib/python3.12/selectors.py", 415, "select"),
                        Frame("/usr/lib/python3.12/multiprocessing/connection.py", 1_136, "wait"),
                        Frame("/usr/lib/python3.12/multiprocessing/queues.py", 103, "get"),
                        Frame(f"{_LIBRARY}/utils/data/_utils/pin_memory.py", 37, "do_one_step"),
                    ),
                ),
            ),
        ),
        Stack(last, since, 1_480, 1_480, (SeenAt(1_466, frames[0], script),), True),
        SourceLines(last, script.file, script.line, 86, SAVE),
        SourceLines(last, script.file, 141, 139, CALLER),
    )
    return [header, *kept, *known]


SAVE = (
    "    # [bold]Every[/] epoch, not only the best.",
    "    path = folder / f'epoch-{epoch}.pt'",
    "    torch.save({'model': net.state_dict(), 'optimizer': optimizer.state_dict()}, path)",
    "    return path",
    "",
)
"""The source at which a run stands."""

CALLER = (
    "    for epoch in range(args.epochs):",
    "        train(net, loader, optimizer)",
    "        save(net, optimizer, epoch)",
    "        validate(net, held_out)",
    "",
)

TRACEBACK = f"""\
Traceback (most recent call last):
  File "/home/ada/resnet/data.py", line 31, in read
    return self.index[name]
           ~~~~~~~~~~^^^^^^
KeyError: 'n02119789_[b]4[/].JPEG'

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/home/ada/resnet/train_resnet.py", line 160, in <module>
    main()
    ~~~~^^
  File "/home/ada/resnet/train_resnet.py", line 141, in main
    train(net, loader, epoch)
    ~~~~~^^^^^^^^^^^^^^^^^^^^
  File "/home/ada/resnet/train_resnet.py", line 97, in train
    for images, labels in loader:
                          ^^^^^^
  File "{_LIBRARY}/utils/data/dataloader.py", line 733, in __next__
    data = self._next_data()
  File "{_LIBRARY}/utils/data/dataloader.py", line 789, in _next_data
    data = self._dataset_fetcher.fetch(index)  # may raise StopIteration
  File "{_LIBRARY}/utils/data/_utils/fetch.py", line 52, in fetch
    data = [self.dataset[idx] for idx in possibly_batched_index]
            ~~~~~~~~~~~~^^^^^
  File "/home/ada/resnet/data.py", line 33, in read
    raise MissingImage(name) from error
data.MissingImage: n02119789_[b]4[/].JPEG is in no archive
"""


def _with_traceback() -> list[Record]:
    """Return a session of a script that an exception of its own ended."""
    header, *rest, result = _own_script("result", status="failed", ended=1)
    assert isinstance(header, SessionHeader)
    assert isinstance(result, Result)
    lines = TRACEBACK.splitlines()
    kept = [each for each in rest if not isinstance(each, Failure) and not _is_error(each)]
    result = replace(result, error=lines[-1], failure=FailureKind.EXCEPTION)
    output = [Output(kept[-1].t, "stdout", f"read archive {n} of 640") for n in range(24, 288, 24)]
    output += [Output(kept[-1].t, "stderr", line) for line in lines]
    return [replace(header, directory="/home/ada/resnet"), *kept, *output, result]


_ALLOCATOR = "bfc_allocator.cc"
_OUT_OF_MEMORY = f"""\
W {_ALLOCATOR}:501] Allocator (GPU_0_bfc) ran out of memory trying to allocate 1.53GiB
W {_ALLOCATOR}:512] Current allocation summary follows.
I {_ALLOCATOR}:1039] BFCAllocator dump for GPU_0_bfc
I {_ALLOCATOR}:1046] Bin (65536): Total Chunks: 12, Chunks in use: 12. 1.1MiB allocated.
I {_ALLOCATOR}:1046] Bin (4194304): Total Chunks: 9, Chunks in use: 8. 48.2MiB allocated.
I {_ALLOCATOR}:1046] Bin (268435456): Total Chunks: 4, Chunks in use: 3. 4.4GiB allocated.
I {_ALLOCATOR}:1114]      Summary of in-use Chunks by size:
I {_ALLOCATOR}:1117] 12 Chunks of size 93952 totalling 1.1MiB
I {_ALLOCATOR}:1117] 8 Chunks of size 6291456 totalling 48.0MiB
I {_ALLOCATOR}:1117] 3 Chunks of size 1572864000 totalling 4.4GiB
I {_ALLOCATOR}:1121] Sum Total of in-use chunks: 4.4GiB
W {_ALLOCATOR}:513] ************************************************____________________
Traceback (most recent call last):
  File "{_PACKAGES}/workloads/main.py", line 121, in train
    network.fit(batches, epochs=epochs, callbacks=callbacks)
  File "{_PACKAGES}/keras/src/utils/traceback_utils.py", line 122, in error_handler
    raise e.with_traceback(filtered_tb) from None
  File "{_PACKAGES}/tensorflow/python/eager/execute.py", line 53, in quick_execute
    tensors = pywrap_tfe.TFE_Py_Execute(ctx._handle, device_name, op_name,
"""


def _out_of_memory() -> list[Record]:
    """Return a session that ran out of memory, with what TensorFlow prints then."""
    *records, failure, result = recorded_session(status="failed")
    kept = [each for each in records if not _is_error(each) or "Error" in each.text]
    (at,) = [number for number, each in enumerate(kept) if _is_error(each)]
    printed = [Output(kept[at].t, "stderr", line) for line in _OUT_OF_MEMORY.splitlines()]
    return [*kept[:at], *printed, *kept[at:], failure, result]


def _is_error(record: Record) -> bool:
    return isinstance(record, Output) and record.stream == "stderr"


def _beside_others(records: list[Record]) -> list[Record]:
    """Return records of a run whose samples hold the processes of its machine."""
    header, (trainer, loader, *others) = records[0], _processes(1)
    assert isinstance(header, SessionHeader)
    command = " ".join(header.command or ()) or trainer.command

    def beside(sample: Machine) -> Machine:
        taken_pct = (sample.process and sample.process.cpu_pct) or 0.0
        loading_pct = min(loader.cpu_pct or 0.0, taken_pct)
        trains = replace(trainer, command=command, cpu_pct=taken_pct - loading_pct)
        table = (trains, replace(loader, cpu_pct=loading_pct), *others)
        return replace(sample, processes=table, gpus=_holding(sample.gpus, table))

    return _with_samples(records, beside)


def _waiting(sample: Machine) -> Machine:
    """Return a sample of a machine on which the run waits."""
    idle = {"utilization_pct": 0, "power_w": 24.0, "sm_mhz": 139, "throttle": ()}
    gpus = [replace(gpu, **idle, temperature_c=44) for gpu in sample.gpus or ()]
    cpu = sample.cpu and replace(sample.cpu, pct=4.0)
    process = sample.process and replace(sample.process, cpu_pct=2.0, busiest_thread_pct=2.0)
    return replace(sample, gpus=tuple(gpus), cpu=cpu, process=process)


def _earlier(days: int, **options) -> list[Record]:
    """Return a session that began so many days before the others."""
    name = f"202611{20 - days}-145600-cifar10-cnn-000{days}"
    *records, result = recorded_session(
        session_id=name, begin_wall=BEGIN_WALL - days * DAY_S, **options
    )
    assert isinstance(result, Result)
    account = {"startup": 2.1, "loading": 0.9, "compiling": 1.5}
    steps_s = 0.9 * (result.wall_s - sum(account.values()))
    account |= {"training": steps_s, "validation": steps_s / 9}
    return [*records, replace(result, account=account)]


def _busy(records: list[Record]) -> list[Record]:
    """Return records of a machine that had other work at the start."""
    header, *rest = records
    machine = replace(header.machine, cpu_pct=63.0, foreign_gpu_processes=2)
    return [replace(header, machine=machine), *rest]


_ON_MIG = tuple(
    replace(row, gpus=(0,), gpu_memory_mib=2_843)
    if row.pid == 4_242
    else replace(row, gpus=(), gpu_memory_mib=None)
    for row in _processes(1)
)
_ASLEEP = "asleep (runtime power management)"
_TRAINING = recorded_session("training")
_LONG = {"epochs": 1000, "ended": 400, "samples": 1_000}

STATES: dict[str, State] = {
    # The phases of a run, and how it can end.
    "importing": State(recorded_session("importing")),
    "compiling": State(recorded_session("compiling")),
    "training": State(_TRAINING, has_processes=True),
    "opening": State(recorded_session("opening")),
    "evaluating": State(recorded_session("evaluating", workload="mnist-mlp-small", step_us=2_000)),
    "completed": State(recorded_session()),
    "failed": State(_out_of_memory()),
    "failed-with-traceback": State(_with_traceback()),
    "interrupted": State(_TRAINING, locked=False),
    # What can go wrong beside it.
    "power-cap": State(_with_samples(_TRAINING, _slowed)),
    "lost-gpu": State(_with_samples(_TRAINING, partial(_unanswered, "lost"), last=6)),
    "nan-loss": State(_own_script(ended=2, nan_loss=True)),
    # Machines.
    "no-gpu": State(recorded_session("training", gpus=0)),
    "unsupported-gpu": State(_with_samples(_TRAINING, partial(_unanswered, "not supported"))),
    "2-gpus": State(recorded_session("training", gpus=2)),
    "16-gpus": State(recorded_session("training", gpus=16, cores=192)),
    "in-depth": State(_in_depth(_TRAINING)),
    "no-gpu-in-depth": State(_in_depth(recorded_session("training", gpus=0))),
    "2-gpus-in-depth": State(_in_depth(recorded_session("training", gpus=2))),
    "8-gpus-in-depth": State(_in_depth(recorded_session("training", gpus=8, cores=64))),
    "mig": State(_in_depth(_TRAINING, _divided, _ON_MIG)),
    "asleep": State(_with_samples(_in_depth(_TRAINING), partial(_unanswered, _ASLEEP), last=6)),
    "other-namespace": State(_in_depth(_TRAINING, processes=_OTHER_NAMESPACE)),
    "over-in-depth": State(_in_depth(recorded_session())),
    "256-cores": State(recorded_session("training", gpus=0, cores=256)),
    # Names.
    "long-names": State(renamed(recorded_session("training", gpus=2), LONG_NAME)),
    "wide-names": State(renamed(recorded_session("training", gpus=2), WIDE_NAME)),
    "right-to-left-names": State(renamed(recorded_session("training"), RIGHT_TO_LEFT_NAME)),
    # Runs.
    "1000-epochs": State(recorded_session("training", **_LONG)),
    "earlier-runs": State(
        _TRAINING,
        earlier=(_earlier(1), _earlier(2, step_us=20_000), _earlier(3, status="stopped")),
    ),
    "badges": State(
        _busy(recorded_session("training", steps_cap=120)),
        earlier=(_earlier(1, steps_cap=60), _earlier(2, samples=10_000)),
    ),
    "slow-cpu": State(recorded_session("training", gpus=0, ended=0, step_us=700_000, cut_after=40)),
    "own-script": State(_pytorch(code=_AUGMENT), has_processes=True),
    "own-script-without-samples": State(_pytorch()),
    "data-bound": State(
        _pytorch([{**_PART_US, "wait_us": 10_500, "forward_us": 2_000}]), has_processes=True
    ),
    "waiting-for-rank": State(_of_ranks()),
    "ranks-without-sensors": State(
        [record for record in _of_ranks() if not isinstance(record, Machine)]
    ),
    "stalled": State(_stalled(), has_processes=True),
    "stalled-and-over": State(_stalled(), locked=False),
    # A machine without a workload.
    "recording": State(
        _with_samples(
            recorded_machine(status=None, for_s=7_200.0),
            lambda sample: replace(
                sample, processes=tuple(replace(row, of_run=None) for row in _processes(1))
            ),
        )
    ),
    "recorded": State(recorded_machine(status="stopped"), locked=False, ours=False),
}

RECORDINGS = ("recording", "recorded")


class Stage:
    """dlmon with a state on one of its screens, on a machine that it takes for its own.

    The app has still to be run, and `begin` to be called in it.
    """

    def __init__(self, app: DlmonApp, view: str, state: State, clock: Clock) -> None:
        self.app = app
        self.view = view
        self.state = state
        self._clock = clock

    async def begin(self, pilot) -> None:
        """Bring the state on the screen."""
        self.pilot = pilot
        await pilot.pause()
        # The one that reads the log starts the one that reads the other sessions.
        for _ in range(2):
            await self.app.workers.wait_for_complete()
        if self.view not in _OF_A_SESSION:
            await until(pilot, lambda: any(sensors.running for sensors in FakeSensors.started))
            self._let_sensors_speak()
        await self.settle()
        self._clock.advance(self.state.silent_s)
        if self.view in _ON_TOP:
            await _ON_TOP[self.view](self)
        await self.settle()

    @property
    def sensors(self) -> FakeSensors:
        """The sensors that run for a screen without a session."""
        (sensors,) = (sensors for sensors in FakeSensors.started if sensors.running)
        return sensors

    def _let_sensors_speak(self) -> None:
        header = self.state.header
        samples = [record for record in self.state.records if isinstance(record, Machine)]
        if self.view == "home":
            samples = [replace(sample, process=None) for sample in samples]
        if self.view == "watch":
            # No run is watched here, and the processes are read from the start on.
            table = samples[-1].processes or _processes(len(header.machine.gpus or ()))
            table = tuple(replace(process, of_run=False) for process in table)
            samples = [
                replace(sample, process=None, processes=table, gpus=_holding(sample.gpus, table))
                for sample in samples
            ]
        facts = Facts(header.t, header.wall, header.host, header.machine)
        # What a process says is decoded, and so cleaned, before a screen hears of it.
        said = [decode(encode(record)) for record in (facts, *samples)]
        self.sensors.say(*said[:-_PAINTED])
        for record in said[-_PAINTED:]:
            self.sensors.say(record)
            self._paint()
        self._clock.now_ns = folded(self.state.records).last_t

    async def settle(self) -> None:
        """Let all that follows from a change be drawn, as its timers would have it."""
        # More than once, for rows take their places before they are drawn in them.
        before, text = None, self.text
        while text != before:
            before = text
            self._paint()
            await self.pilot.pause()
            text = self.text

    def _paint(self) -> None:
        for screen in self.app.screen_stack:
            if hasattr(screen, "tick"):
                screen.tick()
            for panel in screen.query(MachinePanel):
                panel.paint()

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.settle()

    async def resize(self, size: Size) -> None:
        """Give the terminal another size."""
        await self.pilot.resize_terminal(*size)
        await self.settle()

    @property
    def text(self) -> str:
        return screen_text(self.app)


async def _open_sessions(stage: Stage, *keys: str) -> None:
    await stage.app.run_action("sessions")
    await until_read(stage.pilot)
    await stage.settle()
    if keys:
        await stage.press(*keys)


async def _push_starting(stage: Stage) -> None:
    sentence = "starting the session: waiting for the sensors …"
    clock = itertools.chain((0.0,), itertools.repeat(4.0)).__next__
    work = lambda waiting: asyncio.sleep(0)  # noqa: E731
    stage.app.push_screen(StartingScreen(sentence, work, DONE, clock=clock))


async def _edit_script(stage: Stage) -> None:
    remember_script(("python", "train.py", "--epochs", "3"), "/home/ada/resnet")
    await stage.press("E")


_OF_A_SESSION = (
    *("live", "log", "quit", "help", "palette", "compare"),
    *("gpus", "processes", "processes-at-first", "metrics", "replay", "replay-seek"),
    *("ranks", "stacks", "profile"),
)
_PAINTED = 12
"""The last samples of a machine that its screen paints one by one: cores have no other history."""
_ON_TOP = {
    "log": lambda stage: stage.press("l"),
    "quit": lambda stage: stage.press("q"),
    "help": lambda stage: stage.press("question_mark"),
    "palette": lambda stage: stage.press("ctrl+p"),
    "compare": lambda stage: stage.press("c"),
    "gpus": lambda stage: stage.press("g"),
    "processes": lambda stage: stage.press("p"),
    "processes-at-first": lambda stage: stage.press("p"),
    "metrics": lambda stage: stage.press("m"),
    "ranks": lambda stage: stage.press("W"),
    "stacks": lambda stage: stage.press("S"),
    "profile": lambda stage: stage.press("P"),
    "sessions": _open_sessions,
    "marked": lambda stage: _open_sessions(stage, "down", "space", "space", "o"),
    "columns": lambda stage: _open_sessions(stage, "V", "space"),
    "rename": lambda stage: _open_sessions(stage, "down", "u"),
    "delete": lambda stage: _open_sessions(stage, "down", "x"),
    "starting": _push_starting,
    "script": _edit_script,
    "replay": lambda stage: stage.press("home", "space", "n", "n"),
    "replay-seek": lambda stage: stage.press("home", "space", "n", "n", "colon"),
}
NAMED_SESSIONS = ("marked", "columns", "rename", "delete")
"""Views of the sessions screen where earlier sessions have names."""
VIEWS = (
    *_OF_A_SESSION,
    *("home", "script", "sessions", "starting", "watch"),
)


@contextmanager
def staged(
    state: State,
    view: str = "live",
    folder: str = "sessions",
    start: Mapping[str, object] | None = None,
    **settings,
) -> Iterator[Stage]:
    """Set the stage; `settings` are those of `config.toml`, such as ascii or theme.

    The sessions lie in a folder of this name. `start` is what the app is to show first.
    Nothing can be launched, and no other machine be reached.
    """
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dlmon-")))
        clock = Clock(BEGIN_NS)
        _be_the_machine(stack, home)
        read = partial(_AllProcesses, state, is_read=view == "processes")
        _patch(stack, processes_screen, "all_processes", read)
        ended = isinstance(state.records[-1], Result)
        # A path from here is the same in every picture.
        stack.enter_context(chdir(home))
        log_dir = Path(folder)
        for number, records in enumerate(state.earlier):
            earlier = write_log(log_dir, records, f"earlier-{number}")
            if view in NAMED_SESSIONS:
                label = Label(f"base {number}", "before the change of the batch size")
                write_label(earlier, label)
        log = GrowingLog(log_dir, [replace(state.header, id="shown")])
        log.path.write_bytes(state.log)
        stack.callback(log.drop_lock)
        if not state.locked:
            log.drop_lock()
        if view.startswith("replay"):
            where: dict[str, object] = {"replayed": (log.path,)}
        elif view in _OF_A_SESSION:
            clock.now_ns = folded(state.records).last_t
            where = {"log": log.path, "started": state.supervisor}
        else:
            where = {"watch_interval_s": 1.0} if view.startswith("watch") else {}
        where.update(start or {})
        sources = Sources(
            follow=partial(SessionFollower, clock=clock),
            replay=partial(ReplaySource, clock=clock),
            machine=partial(fake_machine, clock=clock),
            launch=refused_launch,
            hosts=lambda name, *more: live(FakeHost(name, clock, *more), clock),
            connection=partial(FakeLink, clock=clock),
            # Home is seen an hour after what ended, and while it runs that which goes on.
            wall_clock=lambda: BEGIN_WALL + (clock.now_ns - BEGIN_NS) / 1e9 + 3600 * ended,
        )
        app = DlmonApp(Start(log_dir, Settings(**settings), **where, sources=sources))
        yield Stage(app, view, state, clock)


def _be_the_machine(stack: ExitStack, home: Path) -> None:
    """Let this machine be the one that was recorded, and keep a person's own settings out."""
    patch = partial(_patch, stack)
    patch(dlmon.system.this_host, "socket", SimpleNamespace(gethostname=lambda: HOST))
    patch(dlmon.system.this_host, "Path", lambda path: SimpleNamespace(read_text=lambda: BOOT_ID))
    patch(FakeSensors, "started", [])
    stack.callback(time.tzset)
    environment = {"TZ": "UTC", "XDG_STATE_HOME": str(home), "XDG_CONFIG_HOME": str(home)}
    stack.enter_context(mock.patch.dict(os.environ, environment))
    time.tzset()
    for name in ("NO_COLOR", "COLORTERM", "TERM", "DLMON_CONFIG"):
        os.environ.pop(name, None)


def _patch(stack: ExitStack, owner: object, name: str, value: object) -> None:
    stack.enter_context(mock.patch.object(owner, name, value))


@asynccontextmanager
async def on_stage(
    state: State | str,
    view: str = "live",
    size: Size = (120, 40),
    notifications: bool = False,
    **settings,
) -> AsyncIterator[Stage]:
    """Show a state, or the one of this name, in a terminal of a size; give what a person sees."""
    with staged(STATES[state] if isinstance(state, str) else state, view, **settings) as stage:
        async with stage.app.run_test(size=size, notifications=notifications) as pilot:
            await stage.begin(pilot)
            yield stage


async def pictures(state: State, view: str, sizes: tuple[Size, ...], **settings) -> dict[Size, str]:
    """Open a state at the first size, resize it through the others; return each one's text."""
    taken = {}
    async with on_stage(state, view, sizes[0], **settings) as stage:
        for size in sizes:
            if size != sizes[0]:
                await stage.resize(size)
            taken[size] = stage.text
    return taken


def main() -> None:
    """Print the text of states, to be looked at."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("state", choices=[*STATES, "all"])
    parser.add_argument("sizes", nargs="*", metavar="WIDTHxHEIGHT")
    parser.add_argument("--view", choices=(*VIEWS, *NAMED_SESSIONS), default="live")
    parser.add_argument("--ascii", action="store_true")
    asked = parser.parse_args()
    sizes = tuple(tuple(map(int, size.split("x"))) for size in asked.sizes) or SIZES
    names = [*STATES] if asked.state == "all" else [asked.state]
    for name in names:
        taken = asyncio.run(pictures(STATES[name], asked.view, sizes, ascii=asked.ascii))
        for (width, height), text in taken.items():
            print(f"{f' {asked.view}, {name}, {width}×{height} ':═^{width}}\n{text}")


if __name__ == "__main__":
    main()
