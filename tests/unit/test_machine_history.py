"""What is kept of a machine's readings: each GPU's own series, gaps where nothing was told."""

from dlmon.records import Gpu, Machine
from dlmon.session import MachineHistory

SECOND_NS = 1_000_000_000


def sample(second, *gpus):
    return Machine(t=second * SECOND_NS, wall=float(second), gpus=gpus)


def test_a_gpus_memory_and_power_are_kept_beside_its_utilisation():
    history = MachineHistory()
    history.fold(sample(1, Gpu(0, 50, memory_used_mib=100, power_w=80.0), Gpu(1, 0)))
    history.fold(sample(2, Gpu(0, 60, memory_used_mib=200, power_w=90.0), Gpu(1, 10)))
    assert history.gpu_utilization_pct[0].columns(0, SECOND_NS, 2) == [50, 60]
    assert history.gpu_memory_mib[0].columns(0, SECOND_NS, 2) == [100, 200]
    assert history.gpu_power_w[0].columns(0, SECOND_NS, 2) == [80, 90]
    assert set(history.gpu_power_w) == {0}


def test_what_did_not_change_goes_on_and_what_is_lost_is_a_gap():
    history = MachineHistory()
    history.fold(sample(1, Gpu(0, 50, memory_used_mib=100, power_w=80.0)))
    history.fold(sample(2, Gpu(0, 50, why={"power_w": "lost"})))
    assert history.gpu_memory_mib[0].columns(0, SECOND_NS, 2) == [100, 100]
    assert history.gpu_power_w[0].columns(0, SECOND_NS, 2) == [80, None]
