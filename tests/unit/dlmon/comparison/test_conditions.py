import pytest

from dlmon.comparison.conditions import busy_at_start
from dlmon.records import MachineFacts


@pytest.mark.parametrize(
    ("machine", "device", "said"),
    [
        (MachineFacts(), None, None),
        (MachineFacts(cpu_pct=3.0, load_1m=9.0, cores=2), None, None),
        (MachineFacts(cpu_pct=62.4), None, "machine was busy at the start: CPU 62 %"),
        (
            MachineFacts(load_1m=1.5, cores=2),
            None,
            "machine was busy at the start: load 1.5 on 2 cores",
        ),
        (
            MachineFacts(load_1m=1.5, cores=1),
            None,
            "machine was busy at the start: load 1.5 on 1 core",
        ),
        (MachineFacts(load_1m=0.5, cores=2), None, None),
        (MachineFacts(load_1m=40.0), None, None),
        (MachineFacts(load_1m=40.0, cores=0), None, None),
        (MachineFacts(foreign_gpu_processes=0), "gpu:0", None),
        (MachineFacts(foreign_gpu_processes=2), "cpu", None),
        (
            MachineFacts(foreign_gpu_processes=1),
            "gpu:0",
            "machine was busy at the start: 1 other GPU process",
        ),
        (
            MachineFacts(cpu_pct=90.0, foreign_gpu_processes=2),
            None,
            "machine was busy at the start: CPU 90 %, 2 other GPU processes",
        ),
    ],
)
def test_a_busy_machine_is_reported_in_words(machine, device, said):
    assert busy_at_start(machine, device) == said
