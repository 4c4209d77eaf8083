"""All that is known of a machine, and why the rest is not."""

from dataclasses import fields, replace

import pytest
from fakes.recorded import NO_DRIVER, folded
from fakes.states import STATES

from dlmon.records import Gpu, GpuFacts, Machine, MachineFacts, Process
from dlmon.session.machine_history import MachineHistory
from tui.machine.view import MachineView
from tui.watch.detail_screens import MachineDetail, _troubles, sections, why_unknown


def view_of(name):
    session = folded(STATES[name].records)
    return MachineView(session.machine, session.header.machine, 0.2, 1.0, training=(0,))


def section_of(gpu, facts=None):
    """Return what is shown of a single GPU."""
    history = MachineHistory()
    history.add(Machine(1, 0.0, gpus=(gpu,)))
    machine = MachineFacts(gpus=(facts or GpuFacts(gpu.index, "T4"),))
    first, *_ = sections(MachineView(history, machine, 0.2, 1.0))
    return first


def texts(section):
    return {figure.label: figure.text for figure in section.figures if figure.is_known}


@pytest.mark.parametrize(
    "name", [spec.name for spec in fields(Gpu) if spec.name not in ("index", "state", "why")]
)
def test_no_reading_is_unknown_without_a_word(name):
    whole = folded(STATES["in-depth"].records).machine.latest.gpus[0]
    # Both of a pair, or the other one is shown alone.
    unknown = {name} | next((pair for pair in PAIRS if name in pair), set())
    reason = "the driver said no"
    missing = replace(whole, **dict.fromkeys(unknown), why=dict.fromkeys(unknown, reason))
    facts = GpuFacts(0, "RX", vendor="amd") if name in OF_AMD else None
    section = section_of(missing, facts)
    if name not in ("power_limit_w", "energy_j"):
        assert reason in why_unknown(section.figures), name
    unexplained = section_of(replace(missing, why={}), facts)
    if name not in ("power_limit_w", "energy_j"):
        assert "no reading" in why_unknown(unexplained.figures), name


OF_AMD = ("junction_c", "memory_c", "gtt_used_mib")
PAIRS = (
    {"pcie_generation", "pcie_width"},
    {"pcie_receive_mib_s", "pcie_send_mib_s"},
    {"nvlink_receive_mib_s", "nvlink_send_mib_s"},
    {"ecc_corrected", "ecc_uncorrected"},
    {"xid_errors", "xids"},
)


def users(*processes, why=None):
    """Return what is said of who uses GPU 0, or why nothing is."""
    history = MachineHistory()
    rows = None if why else processes
    sample = Machine(
        1, 0.0, gpus=(Gpu(0, 50),), processes=rows, why={"processes": why} if why else {}
    )
    history.add(sample)
    facts = MachineFacts(gpus=(GpuFacts(0, "T4"),))
    section, *_ = sections(MachineView(history, facts, 0.2, 1.0))
    (figure,) = (figure for figure in section.figures if figure.label == "used by")
    return (figure.text, None) if figure.is_known else (None, figure.text)


def test_who_uses_a_gpu_stands_with_it_and_what_each_holds():
    assert users(
        Process(7, "mara", gpus=(1,), gpu_memory_mib=512),
        Process(42, "ada", gpus=(0,), gpu_memory_mib=1_024),
        Process(43, gpus=(0, 1), gpu_memory_mib=6_144),
        Process(44, "lin", gpus=(0,), why={"gpu_memory_mib": "denied"}),
    ) == ("pid 43 6.0 GiB on 2 GPUs, ada (pid 42) 1.0 GiB, lin (pid 44)", None)


def test_where_nobody_uses_a_gpu_or_that_is_not_known_it_is_said():
    assert users(Process(7, "mara", gpus=(1,))) == ("nobody", None)
    assert users() == ("nobody", None)
    assert users(Process(7, "mara", why={"gpus": "a container"})) == (None, "a container")
    assert users(why="not read yet") == (None, "not read yet")


def test_what_is_unknown_for_one_reason_is_shown_together():
    why = dict.fromkeys(("fan_pct", "ecc_corrected", "ecc_uncorrected"), "not supported")
    section = section_of(Gpu(0, 50, why={**why, "nvlinks": "denied"}))
    assert why_unknown(section.figures)["not supported"] == "fan, ECC"
    assert why_unknown(section.figures)["denied"] == "NVLinks"


@pytest.mark.parametrize(
    ("state", "problem"),
    [
        ("lost-gpu", "lost"),
        ("asleep", "asleep (runtime power management)"),
        ("unsupported-gpu", "no reading: not supported"),
        ("no-gpu", f"no GPU: {NO_DRIVER}"),
    ],
)
def test_a_gpu_that_shows_nothing_has_its_reason_alone(state, problem):
    section, *_ = sections(view_of(state))
    assert section.problem == problem
    assert why_unknown(section.figures) == {}
    assert not {figure.label for figure in section.figures} - {"energy", "to try"}


def test_before_the_first_sample_nothing_is_claimed():
    (waiting,) = sections(MachineView(MachineHistory(), MachineFacts(), None, 1.0))
    assert waiting.problem == "waiting for the first sample"
    assert waiting.figures == ()


def part(title, machine, facts=None):
    """Return a part of a machine without a run."""
    history = MachineHistory()
    history.add(machine)
    view = MachineView(history, facts or MachineFacts(), 0.1, 1.0)
    (found,) = (section for section in sections(view) if section.title == title)
    return found


UNREAD = dict.fromkeys(("gpus", "gpu_memory_mib"), "denied")


@pytest.mark.parametrize(
    ("processes", "expected"),
    [
        (None, {"at the start": "0 others on the GPUs"}),
        ((), {"GPUs used by": "0 processes"}),
        ((Process(1, gpus=(0, 1)), Process(2)), {"GPUs used by": "1 process"}),
        # A container's own processes don't show it, but the driver names those on GPUs.
        ((Process(1, gpus=(0,)), Process(2, why=UNREAD)), {"GPUs used by": "1 process"}),
        ((Process(2, why=UNREAD),), {}),
        # No more than these are shown.
        (
            tuple(Process(pid, gpus=(0,)) for pid in range(1, 17)),
            {"GPUs used by": "16 processes or more"},
        ),
    ],
)
def test_how_many_use_gpus_is_shown_as_of_now_where_it_is_read(processes, expected):
    machine = Machine(1, 0.0, gpus=(Gpu(0, 5),), processes=processes)
    facts = MachineFacts(gpus=(GpuFacts(0, "T4"),), foreign_gpu_processes=0)
    section = part("Driver and sensors", machine, facts)
    names = ("GPUs used by", "at the start")
    assert {name: text for name, text in texts(section).items() if name in names} == expected


@pytest.mark.parametrize(("vendors", "named"), [(("amd",), False), (("amd", "nvidia"), True)])
def test_nvidias_driver_is_named_only_beside_a_gpu_of_nvidias(vendors, named):
    cards = tuple(GpuFacts(index, "", vendor=name) for index, name in enumerate(vendors))
    facts = MachineFacts(gpus=cards, why={"driver": "no NVIDIA driver"})
    machine = Machine(1, 0.0, gpus=tuple(Gpu(card.index, 5) for card in cards))
    driver = [
        one for one in part("Driver and sensors", machine, facts).figures if one.label == "driver"
    ]
    assert bool(driver) is named


def test_what_a_framework_holds_of_gpu_memory_stands_with_the_run():
    view = view_of("in-depth")
    (run,) = [one for one in sections(view) if one.title == "This run"]
    assert "GPU memory" not in texts(run)
    held = "allocated 31.2 GiB, peak 36.4 GiB of 79.6 GiB"
    (run,) = [one for one in sections(replace(view, memory=held)) if one.title == "This run"]
    assert texts(run)["GPU memory"] == held


def lines_of(name):
    view = view_of(name)
    rows = MachineDetail()._all_rows(sections(view), view, 118)
    return ["".join(text for text, _ in row).strip() for row in rows]


def test_what_is_unknown_of_the_machine_has_one_line_at_the_end():
    lines = lines_of("unsupported-gpu")
    assert lines[-1] == "load, package, energy, faults, run faults: no reading"
    assert [line for line in lines if "no reading" in line] == [
        "no reading: not supported",
        lines[-1],
    ]
    # Of a GPU it stands below its figures.
    lines = lines_of("mig")
    (unknown,) = (line for line in lines if line.startswith("utilisation: unknown while MIG is on"))
    assert lines.index(unknown) < lines.index(next(one for one in lines if one.startswith("CPU ")))
    assert lines[-1] != ""


def test_a_gpu_of_the_run_is_named_so_whether_or_not_it_works():
    for name in ("in-depth", "asleep"):
        section, *_ = sections(view_of(name))
        assert "of this run" in section.about


def test_the_mark_of_a_gpu_among_several_is_explained():
    meaning = "memory error, contained: one program is hit"
    said = f"GPU 2: ECC 1 uncorrected, Xid 94: {meaning}"
    assert _troubles(view_of("8-gpus-in-depth")) == said
    assert _troubles(view_of("training")) == ""
    assert _troubles(replace(view_of("8-gpus-in-depth"), cursor_ns=1)) == ""
