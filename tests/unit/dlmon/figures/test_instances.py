"""The parts of a divided GPU in words: their memory, and who computes on them."""

from dlmon.figures.machine.processes import instance_rows
from dlmon.records import Gpu, Machine, MigInstance, Process

NAME = "NVIDIA H100 80GB HBM3 MIG 1g.10gb"
ADA = Process(4242, "ada", "python train.py", gpus=(0,), gpu_memory_mib=512)


def rows(*parts, processes=(ADA,)):
    gpu = Gpu(0, mig=True, instances=parts)
    machine = Machine(1, 0.0, gpus=(gpu,), processes=processes)
    return list(instance_rows(gpu, machine))


def test_a_part_is_a_row_with_its_profile_memory_and_users():
    parts = (
        MigInstance(1, NAME, 7, 0, 9856, 5120, (4242,)),
        MigInstance(2, NAME, 8, 0, 9856, 0, ()),
    )
    assert rows(*parts) == [
        ("MIG 1", "1g.10gb, 5.0 of 9.6 GiB, ada (pid 4242)"),
        ("MIG 2", "1g.10gb, 0.0 of 9.6 GiB, nobody"),
    ]


def test_what_is_not_known_of_a_part_is_left_out_or_has_its_reason():
    why = {"memory_used_mib": "denied", "pids": "not supported"}
    assert rows(MigInstance(0, why=why)) == [("MIG 0", "denied, not supported")]
    assert rows(MigInstance(0, "MIG 1g", memory_used_mib=512)) == [("MIG 0", "1g, 0.5 GiB")]


def test_a_process_that_is_not_seen_here_or_is_on_another_gpu_is_named_by_its_number():
    elsewhere = Process(4242, "eve", "python", gpus=(1,))
    part = MigInstance(0, "MIG 1g", memory_used_mib=512, pids=(4242, 5))
    for processes in ((elsewhere,), None):
        assert rows(part, processes=processes) == [("MIG 0", "1g, 0.5 GiB, pid 4242, pid 5")]
    ((name, _),) = instance_rows(Gpu(0, instances=(part,)), None)
    assert name == "MIG 0"
    assert list(instance_rows(Gpu(0), None)) == []
