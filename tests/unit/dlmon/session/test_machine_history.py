"""What is kept of a machine's readings: each GPU's own series, gaps where nothing was reported."""

import pytest

from dlmon.records import Cpu, Gpu, GpuState, Machine, Process
from dlmon.session.machine_history import MachineHistory

SECOND_NS = 1_000_000_000


def sample(second, *gpus, **parts):
    return Machine(t=second * SECOND_NS, wall=float(second), gpus=gpus, **parts)


def test_a_gpus_memory_and_power_are_kept_beside_its_utilisation():
    history = MachineHistory()
    history.fold(sample(1, Gpu(0, 50, memory_used_mib=100, power_w=80.0), Gpu(1, 0)))
    history.fold(sample(2, Gpu(0, 60, memory_used_mib=200, power_w=90.0), Gpu(1, 10)))
    assert history.gpu_utilization_pct[0].columns(0, SECOND_NS, 2) == [50, 60]
    assert history.gpu_memory_mib[0].columns(0, SECOND_NS, 2) == [100, 200]
    assert history.gpu_power_w[0].columns(0, SECOND_NS, 2) == [80, 90]
    assert set(history.gpu_power_w) == {0}


def test_the_most_of_a_gpus_memory_is_kept():
    history = MachineHistory()
    for second, used_mib in enumerate((100, 900, None, 300), 1):
        history.fold(sample(second, Gpu(0, memory_used_mib=used_mib), Gpu(1)))
    assert history.gpu_memory_peak_mib == {0: 900}


def test_what_did_not_change_goes_on_and_what_is_lost_is_a_gap():
    history = MachineHistory()
    history.fold(sample(1, Gpu(0, 50, memory_used_mib=100, power_w=80.0)))
    history.fold(sample(2, Gpu(0, 50, why={"power_w": "lost"})))
    assert history.gpu_memory_mib[0].columns(0, SECOND_NS, 2) == [100, 100]
    assert history.gpu_power_w[0].columns(0, SECOND_NS, 2) == [80, None]


def test_the_cpus_power_is_kept_and_what_is_denied_is_a_gap():
    history = MachineHistory()
    history.fold(sample(1, cpu=Cpu(power_w=40.0)))
    history.fold(sample(2, cpu=Cpu(power_w=60.0)))
    history.fold(sample(3, cpu=Cpu(why={"power_w": "denied"})))
    assert history.cpu_power_w.columns(0, SECOND_NS, 3) == [40, 60, None]


def test_the_table_of_processes_stands_until_a_newer_one_or_a_reason():
    history = MachineHistory()
    first, second = (Process(1, cpu_pct=5),), (Process(1, cpu_pct=7), Process(2))
    reported = []
    for second_of, processes, why in (
        (1, first, {}),
        (2, None, {}),
        (3, second, {}),
        (4, (), {}),
        (5, None, {"processes": "denied"}),
    ):
        history.fold(sample(second_of, processes=processes, why=why))
        reported.append(history.latest.processes)
    assert reported == [first, first, second, (), None]
    assert history.latest.why == {"processes": "denied"}


def test_energy_since_the_begin_is_counted_for_each_gpu():
    history = MachineHistory()
    assert history.energy.gpu_joules_since_start == {}
    history.fold(sample(1, Gpu(0, energy_j=1000.0), Gpu(1, energy_j=50.0), Gpu(2)))
    assert history.energy.gpu_joules_since_start == {0: 0.0, 1: 0.0}
    history.fold(sample(2, Gpu(0, energy_j=1300.0), Gpu(1)))
    history.fold(sample(3, Gpu(0), Gpu(1, energy_j=75.5)))
    assert history.energy.gpu_joules_since_start == {0: 300.0, 1: 25.5}


def test_energy_is_not_reported_of_a_counter_that_began_again_or_was_lost():
    history = MachineHistory()
    history.fold(sample(1, Gpu(0, energy_j=1000.0), Gpu(1, energy_j=50.0), Gpu(2, energy_j=1.0)))
    history.fold(
        sample(
            2, Gpu(0, energy_j=3.0), Gpu(1, state=GpuState.LOST, why={"energy_j": "lost"}), Gpu(2)
        )
    )
    history.fold(sample(3, Gpu(0, energy_j=2000.0), Gpu(1, energy_j=90.0), Gpu(2, energy_j=6.0)))
    assert history.energy.gpu_joules_since_start == {2: 5.0}
    history.fold(Machine(t=4 * SECOND_NS, wall=4.0, why={"gpus": "hangs"}))
    history.fold(sample(5, Gpu(2, energy_j=9.0)))
    assert history.energy.gpu_joules_since_start == {}


def test_a_counter_that_is_read_late_counts_from_then():
    history = MachineHistory()
    history.fold(sample(1, Gpu(0, why={"energy_j": "asleep"}), cpu=Cpu(why={"energy_j": "denied"})))
    assert history.energy.cpu.joules_since_start is None
    history.fold(sample(2, Gpu(0, energy_j=10.0), cpu=Cpu(energy_j=5.0)))
    history.fold(sample(3, Gpu(0, energy_j=14.0), cpu=Cpu(energy_j=7.0)))
    assert history.energy.gpu_joules_since_start == {0: 4.0}
    assert history.energy.cpu.joules_since_start == 2.0


@pytest.mark.parametrize("state", [GpuState.ASLEEP, GpuState.IDLE, GpuState.ANSWERS, None])
def test_a_counter_goes_on_while_its_gpu_is_left_alone_or_one_reading_fails(state):
    history = MachineHistory()
    history.fold(sample(1, Gpu(0, energy_j=10.0)))
    history.fold(sample(2, Gpu(0, state=state, why={"energy_j": "timed out"})))
    history.fold(sample(3, Gpu(0, energy_j=14.0)))
    assert history.energy.gpu_joules_since_start == {0: 4.0}
    history.fold(sample(4, Gpu(0, energy_j=2.0)))
    assert history.energy.gpu_joules_since_start == {}


@pytest.mark.parametrize(
    "state",
    [GpuState.LOST, GpuState.NO_DRIVER, GpuState.VERSIONS_DIFFER, GpuState.UNKNOWN],
)
def test_nothing_is_known_of_a_counter_across_a_loss(state):
    history = MachineHistory()
    history.fold(sample(1, Gpu(0, energy_j=10.0)))
    history.fold(sample(2, Gpu(0, state=state, why={"energy_j": "timed out"})))
    history.fold(sample(3, Gpu(0, energy_j=14.0)))
    assert history.energy.gpu_joules_since_start == {}


def test_who_a_process_is_stands_until_it_is_reported_anew():
    history = MachineHistory()
    whole = Process(1, "ada", "python", cpu_pct=5, why={"gpus": "denied"})
    reported = []
    for second_of, row in (
        (1, whole),
        (2, Process(1, cpu_pct=6, of_run=True)),
        (3, Process(1, cpu_pct=7)),
        (4, Process(1, "eve", "sh")),
        (5, Process(2)),
        (6, Process(1)),
    ):
        history.fold(sample(second_of, processes=(row,)))
        reported += history.latest.processes
    assert reported == [
        whole,
        Process(1, "ada", "python", cpu_pct=6, of_run=True, why={"gpus": "denied"}),
        Process(1, "ada", "python", cpu_pct=7, why={"gpus": "denied"}),
        Process(1, "eve", "sh"),
        Process(2),
        Process(1),
    ]


def test_how_much_of_a_machine_was_used_is_the_mean_over_all_of_the_time():
    history = MachineHistory()
    for second in range(1, 10_001):
        busy = 80.0 if second <= 2_500 else 0.0
        reading = Gpu(0, busy, energy_j=50.0 * second)
        history.fold(sample(second, reading, cpu=Cpu(pct=busy / 2, energy_j=10.0 * second)))
    use = history.use()
    assert (use.cpu_pct, use.gpu_pct) == (10.0, {"gpu:0": 20.0})
    assert use.energy_j == {"cpu": 99_990.0, "gpu:0": 499_950.0}
    assert use.why == {}


def test_what_was_not_read_of_a_machine_has_its_reason():
    history = MachineHistory()
    assert history.use().why["cpu_pct"] == "it was not sampled"
    history.fold(sample(1, Gpu(0, 50, why={"energy_j": "not supported"}), cpu=Cpu(pct=5.0)))
    use = history.use()
    assert (use.cpu_pct, use.gpu_pct, use.energy_j) == (5.0, {"gpu:0": 50.0}, {})
    assert use.why == {
        "energy_j.cpu": "its energy counter was not read",
        "energy_j.gpu:0": "not supported",
    }
