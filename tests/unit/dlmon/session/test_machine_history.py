"""What is kept of a machine's readings: each GPU's own series, gaps where nothing was reported."""

import pytest

from dlmon.records import Cpu, Gpu, GpuState, Machine, Process
from dlmon.session.machine_history import MachineHistory

SECOND_NS = 1_000_000_000


def sample(second, *gpus, **parts):
    return Machine(t=second * SECOND_NS, wall=float(second), gpus=gpus, **parts)


def history_of(*samples):
    history = MachineHistory()
    for one in samples:
        history.add(one)
    return history


def test_readings_are_kept_go_on_where_they_did_not_change_and_have_a_gap_where_they_are_lost():
    history = history_of(
        sample(1, Gpu(0, 50, memory_used_mib=100, power_w=80.0), Gpu(1, 0), cpu=Cpu(power_w=40.0)),
        sample(2, Gpu(0, 60, memory_used_mib=200, power_w=90.0), Gpu(1, 10)),
        sample(3, Gpu(0, 60, why={"power_w": "lost"}), cpu=Cpu(why={"power_w": "denied"})),
    )
    assert history.gpu_utilization_pct[0].columns(0, SECOND_NS, 3) == [50, 60, 60]
    assert history.gpu_memory_mib[0].columns(0, SECOND_NS, 3) == [100, 200, 200]
    assert history.gpu_power_w[0].columns(0, SECOND_NS, 3) == [80, 90, None]
    assert history.cpu_power_w.columns(0, SECOND_NS, 3) == [40, 40, None]
    assert set(history.gpu_power_w) == {0}
    history.add(sample(4, Gpu(0, memory_used_mib=150)))
    assert history.gpu_memory_peak_mib == {0: 200}


def test_the_table_of_processes_stands_until_a_newer_one_or_a_reason():
    history, first = MachineHistory(), (Process(1, cpu_pct=5),)
    second = (Process(1, cpu_pct=7), Process(2))
    reported = []
    for number, processes in enumerate((first, None, second, (), None)):
        why = {"processes": "denied"} if number == 4 else {}
        history.add(sample(number, processes=processes, why=why))
        reported.append(history.latest.processes)
    assert reported == [first, first, second, (), None]
    assert history.latest.why == {"processes": "denied"}


def test_energy_since_the_begin_is_counted_for_each_gpu_until_its_counter_began_again_or_is_lost():
    history = history_of(
        sample(1, Gpu(0, energy_j=1000.0), Gpu(1, energy_j=50.0), Gpu(2, energy_j=1.0), Gpu(3))
    )
    assert history.energy.gpu_joules_since_start == {0: 0.0, 1: 0.0, 2: 0.0}
    lost = Gpu(1, state=GpuState.LOST, why={"energy_j": "lost"})
    history.add(sample(2, Gpu(0, energy_j=3.0), lost, Gpu(2)))
    history.add(sample(3, Gpu(0, energy_j=2000.0), Gpu(1, energy_j=90.0), Gpu(2, energy_j=6.0)))
    assert history.energy.gpu_joules_since_start == {2: 5.0}
    history.add(Machine(t=4 * SECOND_NS, wall=4.0, why={"gpus": "hangs"}))
    history.add(sample(5, Gpu(2, energy_j=9.0)))
    assert history.energy.gpu_joules_since_start == {}


def test_a_counter_that_is_read_late_counts_from_then():
    asleep, denied = Gpu(0, why={"energy_j": "asleep"}), Cpu(why={"energy_j": "denied"})
    history = history_of(sample(1, asleep, cpu=denied))
    assert history.energy.cpu.joules_since_start is None
    history.add(sample(2, Gpu(0, energy_j=10.0), cpu=Cpu(energy_j=5.0)))
    history.add(sample(3, Gpu(0, energy_j=14.0), cpu=Cpu(energy_j=7.0)))
    assert history.energy.gpu_joules_since_start == {0: 4.0}
    assert history.energy.cpu.joules_since_start == 2.0


@pytest.mark.parametrize("state", [*GpuState, None])
def test_a_counter_goes_on_while_its_gpu_is_left_alone_and_is_not_known_across_a_loss(state):
    history = history_of(
        sample(1, Gpu(0, energy_j=10.0)),
        sample(2, Gpu(0, state=state, why={"energy_j": "timed out"})),
        sample(3, Gpu(0, energy_j=14.0)),
    )
    goes_on = state in (GpuState.ASLEEP, GpuState.IDLE, GpuState.ANSWERS, None)
    assert history.energy.gpu_joules_since_start == ({0: 4.0} if goes_on else {})
    history.add(sample(4, Gpu(0, energy_j=2.0)))
    assert history.energy.gpu_joules_since_start == {}


def test_how_much_of_a_machine_was_used_is_the_mean_over_all_of_the_time():
    history = MachineHistory()
    for second in range(1, 10_001):
        busy = 80.0 if second <= 2_500 else 0.0
        reading = Gpu(0, busy, energy_j=50.0 * second)
        history.add(sample(second, reading, cpu=Cpu(pct=busy / 2, energy_j=10.0 * second)))
    use = history.use()
    assert (use.cpu_pct, use.gpu_pct) == (10.0, {"gpu:0": 20.0})
    assert use.energy_j == {"cpu": 99_990.0, "gpu:0": 499_950.0}
    assert use.why == {}


def test_what_gpus_really_do_is_kept_over_time_as_far_as_it_is_known():
    history = MachineHistory()
    for second in (1, 2):
        history.add(sample(second, Gpu(0, 50, sm_active_pct=10.0 * second), Gpu(1, 60)))
    (name,) = history.gpu_activity
    assert (name, list(history.gpu_activity[name])) == ("sm_active_pct", [0])
    assert history.gpu_activity[name][0].mean == 15.0


def test_what_was_not_read_of_a_machine_has_its_reason():
    history = MachineHistory()
    assert history.use().why["cpu_pct"] == "it was not sampled"
    history.add(sample(1, Gpu(0, 50, why={"energy_j": "not supported"}), cpu=Cpu(pct=5.0)))
    use = history.use()
    assert (use.cpu_pct, use.gpu_pct, use.energy_j) == (5.0, {"gpu:0": 50.0}, {})
    assert use.why == {
        "energy_j.cpu": "its energy counter was not read",
        "energy_j.gpu:0": "not supported",
    }
