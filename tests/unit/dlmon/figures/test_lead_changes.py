import pytest
from fakes.sweeps import completed, plan_of, sweep_of

from dlmon.figures.sweeps import lead_changes
from dlmon.sweep.results import rows_of

UNSURE = "(1 run each; --repeat 3 would show how sure that is)"


def devices(times, sizes=(32, 64, 128), **plan):
    """Return rows of two devices by batch size; `times` are cpu, gpu:0 of each size."""
    reported = [[completed(t)] for pair in zip(*times, strict=True) for t in pair]
    vary = {"device": ["cpu", "gpu:0"], "batch_size": sizes}
    return rows_of(sweep_of(plan_of(vary, **plan), *reported))


def test_where_one_device_overtakes_the_other_is_reported():
    rows = devices([(0.1, 0.3), (0.1, 0.2), (0.1, 0.05)])
    reported = lead_changes(rows, "device", "batch_size")
    assert reported == [f"less time: cpu at batch 32, 64; gpu:0 at batch 128 {UNSURE}"]


def test_a_place_where_none_leads_is_not_said_to_have_a_leader():
    rows = devices([(0.3, 0.1), (0.3, None), (0.3, 0.1)])
    reported = lead_changes(rows, "device", "batch_size")
    assert reported == [f"less time: gpu:0 at batch 32, 128 {UNSURE}"]
    assert lead_changes(devices([(0.3, 0.1), (0.3, None)], (32, 64)), "device", "batch_size") == []


def test_one_leads_only_where_it_is_clear_of_all_others():
    """The third takes so different times that it may be the first."""
    times = ([0.10, 0.11, 0.12], [0.20, 0.21, 0.22], [0.05, 0.40, 1.00])
    plan = plan_of({"backend": ["tensorflow", "torch", "jax"], "batch_size": [32, 64]}, repeats=3)
    reported = [[completed(t) for t in of_one] for of_one in times for _ in range(2)]
    assert lead_changes(rows_of(sweep_of(plan, *reported)), "backend", "batch_size") == []


def of_two_devices(cpu, gpu, repeats):
    """Return what is said of two devices whose runs take the same times at both batch sizes."""
    plan = plan_of({"device": ["cpu", "gpu:0"], "batch_size": [32, 64]}, repeats=repeats)
    reported = [[completed(t) for t in times] for times in (cpu, cpu, gpu, gpu)]
    return lead_changes(rows_of(sweep_of(plan, *reported)), "device", "batch_size")


@pytest.mark.parametrize("repeats", [2, 3])
def test_a_lead_that_several_runs_show_is_reported_without_a_doubt(repeats):
    cpu, gpu = [0.200, 0.201, 0.202][:repeats], [0.400, 0.401, 0.402][:repeats]
    assert of_two_devices(cpu, gpu, repeats) == ["less time: cpu at batch 32, 64"]


def test_workloads_take_the_place_of_the_axis_where_none_is_varied():
    names = ("mnist-mlp-small", "mnist-mlp-wide")
    plan = plan_of({"device": ["cpu", "gpu:0"]}, workloads=names, metric="run_seconds")
    seconds = (52.0, 123.0, 390.0, 224.0)
    rows = rows_of(sweep_of(plan, *[[completed(0.1, seconds=s)] for s in seconds]))
    reported = lead_changes(rows, "device", None)
    assert reported == [f"less time: cpu on mnist-mlp-small; gpu:0 on mnist-mlp-wide {UNSURE}"]


def test_what_else_is_varied_is_kept_apart():
    vary = {"device": ["cpu", "gpu:0"], "batch_size": [32, 64], "jit": ["on", "off"]}
    times = [0.1, 0.4, 0.1, 0.4, 0.3, 0.2, 0.05, 0.5]
    rows = rows_of(sweep_of(plan_of(vary), *[[completed(t)] for t in times]))
    assert lead_changes(rows, "device", "batch_size") == [
        f"JIT on: less time: cpu at batch 32; gpu:0 at batch 64 {UNSURE}",
        f"JIT off: less time: gpu:0 at batch 32; cpu at batch 64 {UNSURE}",
    ]
