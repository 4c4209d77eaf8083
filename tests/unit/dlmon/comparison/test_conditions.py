from dataclasses import replace

import pytest
from fakes.recorded import folded, recorded_session
from fakes.scripts import script_header, script_session

from dlmon.comparison.conditions import busy_at_start, compiles, first_batch_compiled
from dlmon.figures.session.compared_figure import basis_of_epoch, compile_text
from dlmon.records import MachineFacts, SecondsPerEpoch, Trainer


@pytest.mark.parametrize(
    ("machine", "device", "said"),
    [
        (MachineFacts(), None, None),
        (MachineFacts(cpu_pct=3.0, load_1m=9.0, cores=2), None, None),
        (MachineFacts(cpu_pct=62.4), None, "CPU 62 %"),
        (MachineFacts(load_1m=1.5, cores=2), None, "load 1.5 on 2 cores"),
        (MachineFacts(load_1m=1.5, cores=1), None, "load 1.5 on 1 core"),
        (MachineFacts(load_1m=0.5, cores=2), None, None),
        (MachineFacts(load_1m=40.0), None, None),
        (MachineFacts(load_1m=40.0, cores=0), None, None),
        (MachineFacts(foreign_gpu_processes=0), "gpu:0", None),
        (MachineFacts(foreign_gpu_processes=2), "cpu", None),
        (MachineFacts(foreign_gpu_processes=1), "gpu:0", "1 other GPU process"),
        (
            MachineFacts(cpu_pct=90.0, foreign_gpu_processes=2),
            None,
            "CPU 90 %, 2 other GPU processes",
        ),
    ],
)
def test_a_busy_machine_is_reported_in_words(machine, device, said):
    assert busy_at_start(machine, device) == (said and f"machine was busy at the start: {said}")


@pytest.mark.parametrize(
    ("frameworks", "backend", "jit", "expected"),
    [
        ((), "tensorflow", None, True),
        ((), "tensorflow", False, True),
        ((), "jax", True, True),
        ((), "torch", None, False),
        ((), "torch", "auto", False),
        ((), "torch", True, True),
        ((), "torch", "on", True),
        (("keras",), "tensorflow", None, True),
        (("keras",), "torch", False, False),
        (("torch",), None, None, False),
        (("dlmon",), None, None, False),
    ],
)
def test_what_compiles_with_its_first_batch(frameworks, backend, jit, expected):
    assert compiles(frameworks, backend, jit) is expected


def test_a_session_knows_it_by_what_counts_its_batches():
    assert not first_batch_compiled(script_header())
    assert first_batch_compiled(recorded_session()[0])
    assert folded(recorded_session()).snapshot().compiles
    assert not folded(script_session()).snapshot().compiles
    of_keras = [
        replace(record, framework="keras") if isinstance(record, Trainer) else record
        for record in script_session()
    ]
    assert folded(of_keras).snapshot().compiles


def test_no_word_of_compilation_stands_where_nothing_compiles():
    later = SecondsPerEpoch(5.18, 4.8, 5.6, 5, False, True)
    first = SecondsPerEpoch(5.18, 4.8, 5.6, 1, False, False)
    assert basis_of_epoch(later, 1.4) == "6 epochs, excludes the first epoch: it compiles"
    assert basis_of_epoch(later, 1.4, compiles=False) == "6 epochs, excludes the first epoch"
    assert basis_of_epoch(first, 1.4) == "1 epoch, compile included"
    assert basis_of_epoch(first, 1.4, compiles=False) == "1 epoch, first batch included"
    assert compile_text(1.4, True) == "compile 1.40 s"
    assert compile_text(1.4, False) == "first batch +1.40 s"
