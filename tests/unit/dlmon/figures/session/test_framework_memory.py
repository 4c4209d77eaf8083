"""What is said of GPU memory, and of a run that failed for want of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fakes.recorded import folded, write_log
from fakes.scripts import SECOND, script_session
from fakes.sections import said

from dlmon.alerts.alert_settings import AlertSettings
from dlmon.alerts.rules import RuleInputs
from dlmon.alerts.rules import evaluate as alerts_at
from dlmon.figures.report.curves import curves_of
from dlmon.figures.report.report import make_report
from dlmon.figures.report.summary import SessionOutcome, summary_rows
from dlmon.figures.session.framework_memory import memory_holders, memory_numbers
from dlmon.log.label import Label
from dlmon.records import (
    Epoch,
    FailureKind,
    FrameworkMemory,
    Gpu,
    Machine,
    Model,
    OutOfMemory,
    Output,
    Process,
    Record,
    Result,
    Status,
)
from dlmon.session.session import Session

TEXT = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total "
    "capacity of 79.10 GiB of which 1.20 GiB is free. Including non-PyTorch memory, this process "
    "has 77.88 GiB memory in use. Of the allocated memory 60.50 GiB is allocated by PyTorch, and "
    "16.25 GiB is reserved by PyTorch but unallocated."
)
NEWEST = FrameworkMemory(0, "torch", 0, 31_949, 37_274, 38_912, 81_510, retries=3, failures=1)


def records(*others: Record, batch_size: int | None = 64) -> list[Record]:
    """Return a script's log with what is said of its memory, on GPU 0."""
    script = [
        replace(one, device="gpu:0", batch_size=batch_size) if isinstance(one, Model) else one
        for one in script_session(seconds=4)
    ]
    return [*script, *others]


def result(error: str, **changes: Any) -> Result:
    header = script_session()[0]
    made = Result(
        status=Status.FAILED,
        stopped_by=None,
        session="s",
        log="log",
        workload="train.py",
        device="gpu:0",
        options={},
        wall_s=9.0,
        error=error,
        failure=FailureKind.OUT_OF_MEMORY,
        exit_code=1,
        t=header.t + 9 * SECOND,  # type: ignore[union-attr]
    )
    return replace(made, **changes)


def rows(session: Session) -> dict[str, str]:
    snapshot = session.snapshot()
    return dict(summary_rows(SessionOutcome(session, snapshot, Status.FAILED, Label())))


def failed_by(text: str, *before: Record, **changes: Any) -> dict[str, str]:
    """Return what is said of a script that ended by an error, of which the reason holds a part."""
    t = script_session()[0].t  # type: ignore[union-attr]
    cut = f"the script ended with exit code 1: {text}"[:240]
    output = Output(t + 8 * SECOND, "stderr", text)
    return rows(folded(records(*before, output, result(cut), **changes)))


def test_what_the_allocator_holds_is_a_row_and_a_number_and_a_curve() -> None:
    t = script_session()[0].t  # type: ignore[union-attr]
    later = [replace(NEWEST, t=t + second * SECOND) for second in (1, 3)]
    session = folded(records(*later))
    expected = "allocated 31.2 GiB, reserved 38.0 GiB, peak 36.4 GiB of 79.6 GiB, 3 retries"
    assert rows(session)["GPU memory"] == expected
    assert memory_numbers(session.snapshot()) == {
        "gpu_memory_allocated_mib": 31_949,
        "gpu_memory_reserved_mib": 38_912,
        "gpu_memory_peak_mib": 37_274,
        "gpu_memory_limit_mib": 81_510,
        "gpu_memory_retries": 3,
        "out_of_memory": 0,
    }
    curve = curves_of(session, t)["memory of tensors"]
    assert curve.series.mean == 31_949


def test_what_a_framework_does_not_say_is_left_out() -> None:
    said = rows(folded(records(FrameworkMemory(1, "tensorflow", 0, 40, 2048))))
    assert said["GPU memory"] == "allocated 40 MiB, peak 2.0 GiB"


def test_on_a_cpu_nothing_is_said() -> None:
    session = folded(records())
    assert "GPU memory" not in rows(session)
    assert memory_numbers(session.snapshot()) == {}
    assert "memory of tensors" not in curves_of(session, 0)


def test_an_error_is_explained_by_its_whole_text_and_what_is_in_pieces_is_advised() -> None:
    said = failed_by(TEXT)
    assert said["GPU memory ran out"] == (
        "2.0 GiB asked for, 1.2 GiB of 79.1 GiB free on GPU 0; "
        "this run held 60.5 GiB and 16.2 GiB unused"
    )
    assert said["to avoid it"] == (
        "set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True: 16.2 GiB was there in pieces; "
        "or use a smaller batch than 64"
    )


def test_a_report_begins_with_the_explanation_and_what_avoids_it(tmp_path: Path) -> None:
    log = write_log(tmp_path, records(result(f"the script ended with exit code 1: {TEXT}"[:240])))
    (session,) = make_report([log], []).sessions
    first, *others = said(session.sections, "verdict")
    assert first.startswith("OUT OF MEMORY: 2.0 GiB asked for, ")
    assert others[-1:] == ["Try: use a smaller batch than 64."]


def test_pieces_that_would_not_do_are_not_advised_nor_a_smaller_batch_than_one() -> None:
    said = failed_by(TEXT.replace("16.25 GiB", "1.00 GiB"), batch_size=1)
    assert "to avoid it" not in said


def test_another_program_is_named_where_its_memory_would_do() -> None:
    t = script_session()[0].t + 5 * SECOND  # type: ignore[union-attr]
    other = Process(4711, "ada", "python serve.py", gpus=(0,), gpu_memory_mib=10_240, of_run=False)
    machine = Machine(t, 0.0, processes=(other,))
    said = failed_by(TEXT.replace("16.25 GiB", "1.00 GiB"), machine, batch_size=1)
    assert said["GPU memory ran out"].endswith("; serve.py (pid 4711) held 10.0 GiB")
    advice = "train without serve.py (pid 4711) on the GPU: it held 10.0 GiB"
    assert said["to avoid it"] == advice
    small = replace(machine, processes=(replace(other, gpu_memory_mib=100),))
    assert "to avoid it" not in failed_by(
        TEXT.replace("16.25 GiB", "1.00 GiB"), small, batch_size=1
    )


@pytest.mark.parametrize(("held", "is_enough"), [("12.00", True), ("0.50", False)])
def test_processes_that_only_the_error_knows_are_named_where_their_memory_would_do(
    held: str, is_enough: bool
) -> None:
    text = TEXT.replace("16.25 GiB", "1.00 GiB")
    said = failed_by(f"{text} Process 4242 has {held} GiB memory in use.", batch_size=1)
    held_text = "12.0 GiB" if is_enough else "512 MiB"
    assert said["GPU memory ran out"].endswith(f"; other processes held {held_text}")
    assert ("to avoid it" in said) == is_enough


def test_jax_says_what_was_asked_and_the_readings_what_was_held() -> None:
    text = (
        "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to "
        "allocate 8589934592 bytes."
    )
    said = failed_by(text, FrameworkMemory(1, "jax", 0, 100, 50 * 1024, None, 60 * 1024))
    assert said["GPU memory ran out"] == ("8.0 GiB asked for; this run had held 50.0 GiB at most")


def test_the_machines_own_memory_is_not_taken_for_a_gpus() -> None:
    text = "RuntimeError: [enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate"
    earlier = OutOfMemory(1, 2048.0, 0, 80_000.0, 1000.0)
    assert "GPU memory ran out" not in failed_by(text, earlier)


def test_a_script_that_goes_on_has_not_failed_and_it_is_a_notice() -> None:
    t = script_session()[0].t  # type: ignore[union-attr]
    error = OutOfMemory(t + 2 * SECOND, 2048.0, 0, 80_000.0, 1228.8)
    session = folded(records(error, replace(error, t=error.t + 1)))
    assert "GPU memory ran out" not in rows(session)
    assert [notice.text for notice in session.snapshot().notices] == [
        "memory of GPU 0 ran out: 2.0 GiB asked for, 1.2 GiB free"
    ]
    assert memory_numbers(session.snapshot())["out_of_memory"] == 2
    assert rows(session)["GPU memory"] == "ran out 2 times"


def test_what_jax_says_of_a_cpu_is_no_gpus_memory() -> None:
    text = "XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory allocating 8589934592 bytes."
    on_cpu = [replace(one, device="cpu") if isinstance(one, Model) else one for one in records()]
    assert "GPU memory ran out" not in rows(folded([*on_cpu, result(text)]))
    assert "GPU memory ran out" in failed_by(text)


def leaking(epochs: int, asked: int | None) -> tuple[Session, int]:
    """Return a script that keeps 500 MiB more in each epoch, and when it had come so far."""
    header, *before = records()
    t = header.t + 10 * SECOND  # type: ignore[union-attr]
    found: list[Record] = [header]
    found += [replace(one, epochs=asked) if isinstance(one, Model) else one for one in before]
    for epoch in range(10, 10 + epochs):
        held = 1000 + 500 * (epoch - 10)
        found.append(FrameworkMemory(t, "torch", 0, held, held + 900, held + 900, 10_000))
        t += 2 * SECOND
        found.append(Epoch(epoch, t - 2 * SECOND, t, t, True, 64, {}))
    return folded(found), t


@pytest.mark.parametrize(
    ("epochs", "asked", "is_told"),
    [(8, None, True), (8, 30, True), (8, 22, False), (5, 30, False)],
)
def test_a_leak_is_told_that_would_fill_the_gpu_before_the_end(
    epochs: int, asked: int | None, is_told: bool
) -> None:
    session, t = leaking(epochs, asked)
    _, alerts = alerts_at(RuleInputs(session, t, AlertSettings(events=("memory",))))
    assert [alert.text for alert in alerts] == [
        "The peak of GPU memory grows 500 MiB per epoch: full in about 9 epochs"
    ] * is_told


def test_what_nvml_says_is_free_of_the_gpu_counts_too() -> None:
    session, t = leaking(8, 30)
    session.add(Machine(t, 0.0, gpus=(Gpu(0, memory_used_mib=5_000),)))
    total_mib = session.facts.gpus[0].memory_mib  # type: ignore[index]
    assert total_mib == 6144
    assert rows(session)["GPU memory"].endswith(": full in about 2 epochs")


def test_a_leak_stands_beside_what_is_held_and_in_what_to_do_about_the_error() -> None:
    session, t = leaking(8, 30)
    held = rows(session)["GPU memory"]
    assert held.endswith(", the peak grows 500 MiB per epoch: full in about 9 epochs")
    session.add(result(f"the script ended with exit code 1: {TEXT}"[:240], t=t))
    said = rows(session)
    grew = "the peak grew from 1.9 GiB in epoch 11 to 5.3 GiB in epoch 18"
    assert grew in said["GPU memory ran out"]
    leak = "find what is kept from epoch to epoch: 500 MiB more after each"
    assert said["to avoid it"].startswith(leak)
    assert said["GPU memory"].endswith(", the peak grew 500 MiB per epoch")


def test_of_a_run_that_is_over_it_says_how_long_it_would_have_gone_on() -> None:
    session, t = leaking(8, 18)
    session.add(result("", t=t, status=Status.COMPLETED, failure=None, exit_code=0))
    expected = ", the peak grew 500 MiB per epoch: full after about 9 epochs more"
    assert rows(session)["GPU memory"].endswith(expected)


def holders(parameters: int | None, optimizer: str | None = "AdamW") -> dict[str, float]:
    t = script_session()[0].t  # type: ignore[union-attr]
    script = [
        replace(one, parameters=parameters, optimizer=optimizer) if isinstance(one, Model) else one
        for one in records(Output(t + 8 * SECOND, "stderr", TEXT), result(TEXT[:240]))
    ]
    return {name: round(mib / 1024, 1) for name, mib in memory_holders(folded(script).snapshot())}


def test_what_held_the_memory_is_split_by_the_parameters_and_the_optimizer() -> None:
    assert holders(1 << 30) == {
        "about the weights": 4.0,
        "gradients": 4.0,
        "AdamW": 8.0,
        "activations and other tensors": 44.5,
        "unused by its allocator": 16.2,
        "free": 1.2,
    }
    assert "AdamW" not in holders(1 << 30, "SGD")


@pytest.mark.parametrize("parameters", [None, 1 << 40])
def test_without_a_size_that_fits_all_tensors_of_the_run_are_one_part(
    parameters: int | None,
) -> None:
    assert holders(parameters) == {
        "tensors of this run": 60.5,
        "unused by its allocator": 16.2,
        "free": 1.2,
    }
