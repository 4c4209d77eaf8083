import json
from dataclasses import replace

import pytest
from fakes.recorded import recorded_session
from fakes.scripts import script_header

from dlmon.protocol.job import Job
from dlmon.records import (
    WITHOUT_EPOCHS,
    Batches,
    Epoch,
    Failure,
    FailureKind,
    MachineFacts,
    MachineUse,
    Model,
    Output,
    SessionHeader,
    Status,
    StopCause,
    decode,
    encode,
)
from dlmon.session.reasons import NOTHING_SEEN
from dlmon.session.session import Session
from dlmon.supervisor.verdict import (
    Ending,
    _status,
    epochs_ended,
    make_machine_result,
    make_result,
    why_nothing_trained,
)
from workloads.__main__ import REFUSED

JOB = Job("cifar10-cnn", ("true",), {"batch_size": 100}, "/tmp")


def result(
    exit_code,
    stopped_by=None,
    failure=None,
    out_of_memory=False,
    last_output=(),
    job=JOB,
    mode="train",
):
    records = [
        replace(record, mode=mode, precision="float32") if isinstance(record, Model) else record
        for record in recorded_session()
    ]
    header = records[0]
    assert isinstance(header, SessionHeader)
    session = Session(header)
    for record in records[1:]:
        session.add(record)
    snapshot, now_ns = session.snapshot(), header.t + 5_000_000_000
    reported = None if failure is None else Failure(0, failure, FailureKind.EXCEPTION)
    output = tuple(Output(0, "stderr", text) for text in last_output)
    ending = Ending(exit_code, stopped_by, reported, out_of_memory, output)
    return make_result(job, "log", snapshot, session.machine.energy, ending, now_ns, 1.0)


BY = "the workload ended by "
OOM = "memory ran out (batch size 100): " + BY


@pytest.mark.parametrize(
    ("ending", "status", "error", "kind"),
    [
        ({"exit_code": 0}, "completed", None, None),
        ({"exit_code": 0, "stopped_by": StopCause.CTRL_C}, "completed", None, None),
        ({"exit_code": 75, "stopped_by": StopCause.CTRL_C}, "stopped", None, None),
        ({"exit_code": -9, "stopped_by": StopCause.CTRL_C}, "stopped", None, None),
        ({"exit_code": 1, "failure": "ValueError: no"}, "failed", "ValueError: no", "exception"),
        ({"exit_code": 3}, "failed", "the workload ended with exit code 3", "unknown"),
        ({"exit_code": REFUSED}, "failed", "the workload ended with exit code 69", "refused"),
        ({"exit_code": -9}, "failed", BY + "SIGKILL", "killed"),
        ({"exit_code": -9, "out_of_memory": True}, "failed", OOM + "SIGKILL", "out_of_memory"),
        (
            {"exit_code": -6, "last_output": ["terminate called after 'std::bad_alloc'", " x"]},
            "failed",
            OOM + "SIGABRT",
            "out_of_memory",
        ),
        (
            {"exit_code": -11, "last_output": ["RESOURCE_EXHAUSTED: on device:CPU:0", "----"]},
            "failed",
            OOM + "SIGSEGV",
            "out_of_memory",
        ),
        (
            {"exit_code": -6, "last_output": ["failed to allocate memory on device:GPU:0"]},
            "failed",
            "GPU " + OOM + "SIGABRT",
            "out_of_memory",
        ),
        (
            {"exit_code": -15, "last_output": ["RESOURCE_EXHAUSTED: retried"]},
            "failed",
            BY + "SIGTERM",
            "signal",
        ),
        ({"exit_code": -6, "last_output": ["double free"]}, "failed", BY + "SIGABRT", "signal"),
        ({"exit_code": -999}, "failed", BY + "signal 999", "signal"),
        ({"exit_code": None, "failure": "x: no"}, "failed", "x: no", "exception"),
    ],
)
def test_every_way_to_end_has_its_words_and_its_code(ending, status, error, kind):
    made = result(**ending)
    assert (made.status, made.error, made.failure) == (status, error, kind)
    assert made.exit_code == ending["exit_code"]


def test_the_result_of_a_script_says_what_its_keras_ran_on():
    assert result(0, job=replace(JOB, script=True)).options["backend"] == "tensorflow"
    assert "backend" not in result(0).options


@pytest.mark.parametrize(("cpus", "counted"), [(2, 2), (None, 8)])
def test_the_result_reports_what_the_run_cost_and_how_fast_it_computed(cpus, counted):
    options = {"batch_size": 100, "price": "0.36/cpu", "cpus": cpus}
    reported = result(0, job=replace(JOB, options=options))
    assert reported.cost_usd == pytest.approx(counted * 0.36 * 5.0 / 3600)
    flop_s = 236_302_848 * reported.samples_per_second.mean
    assert reported.effective_flop_s == pytest.approx(flop_s)
    assert reported.peak_share is None
    assert "calibrate" in reported.why["peak_share"]
    assert (reported.wall_s, reported.samples_per_epoch) == (5.0, 50_000)
    assert reported.step_ms.mean > 0
    assert "--price" in result(0).why["cost_usd"]


@pytest.mark.parametrize("mode", ["inference", "gradients"])
def test_a_mode_that_learns_nothing_has_no_seconds_per_epoch_and_says_so(mode):
    reported = result(0, mode=mode)
    assert reported.seconds_per_epoch is None
    assert reported.run_seconds is None
    assert reported.why["seconds_per_epoch"] == reported.why["run_seconds"] == WITHOUT_EPOCHS[mode]
    assert reported.samples_per_second is not None
    assert reported.step_ms is not None


@pytest.mark.parametrize(
    ("dt_us", "about", "seconds"),
    [((900_000, 2_000, 4_000), "3 ms", 5), ((7_000_000, 4_980_000, 5_000_000), "4.99 s", 60)],
)
def test_a_run_that_was_too_short_reports_about_how_long_its_batches_took(dt_us, about, seconds):
    records = recorded_session("training")
    header, model = records[0], next(r for r in records if isinstance(r, Model))
    session = Session(header)
    session.add(model)
    session.add(Batches(epoch=0, first=0, samples=100, t=header.t, dt_us=dt_us))
    snapshot = session.snapshot(header.t)
    reported = make_result(
        JOB, "log", snapshot, session.machine.energy, Ending(0, None, None, False), header.t, 1.0
    )
    assert reported.step_ms is None
    assert reported.why["step_ms"].startswith(f"too short to measure, about {about} per batch: ")
    assert reported.why["step_ms"].endswith(f"; --seconds {seconds} trains that long")
    stopped = Ending(75, StopCause.CTRL_C, None, False)
    reported = make_result(JOB, "log", snapshot, session.machine.energy, stopped, header.t, 1.0)
    assert "--seconds" not in reported.why["step_ms"]


KEPT_OUT = "no training was seen: -I keeps dlmon out of the script's Python"
RAISED = ("Traceback (most recent call last):", '  File "a.py", line 1', "ValueError: no luck")


def script_that_never_trained(exit_code, written=()):
    """Return the ending and the result of a script in which no training was seen."""
    session = Session(script_header())
    job = replace(JOB, script=True)
    snapshot = session.snapshot(is_over=True)
    output = tuple(Output(0, "stderr", text) for text in written)
    ending = Ending(
        exit_code, None, None, False, output, is_script=True, why_nothing_trained=KEPT_OUT
    )
    return ending, make_result(job, "log", snapshot, session.machine.energy, ending, 1, 1.0)


@pytest.mark.parametrize("exit_code", [0, 7, -11, -15])
def test_where_no_training_was_seen_in_a_script_the_reason_stands_for_every_figure(exit_code):
    ending, reported = script_that_never_trained(exit_code)
    assert why_nothing_trained(ending) == KEPT_OUT
    own = {"energy_j_per_epoch", "cost_usd"}
    assert {reported.why[name] for name in reported.lacking} == {KEPT_OUT}
    assert {text for name, text in reported.why.items() if name not in own} == {KEPT_OUT}


def test_a_script_that_ends_with_a_workload_s_code_for_a_refusal_refused_nothing():
    assert script_that_never_trained(REFUSED)[1].failure == "unknown"


def test_of_a_script_that_an_exception_ended_no_other_reason_is_guessed():
    ending, reported = script_that_never_trained(1, RAISED)
    assert why_nothing_trained(ending) is None
    assert {reported.why[name] for name in reported.lacking} == {NOTHING_SEEN}


@pytest.mark.parametrize("is_script", [True, False])
def test_no_reason_of_a_run_that_is_over_speaks_of_what_may_come(is_script):
    _, reported = script_that_never_trained(1, RAISED)
    if not is_script:
        session = Session(recorded_session()[0])
        snapshot = session.snapshot(is_over=True)
        ending = Ending(1, None, None, False)
        reported = make_result(JOB, "log", snapshot, session.machine.energy, ending, 1, 1.0)
    assert not [text for text in reported.why.values() if "yet" in text]


def test_the_result_says_where_the_time_went_and_what_speaks_against_its_figures():
    made = result(0)
    assert made.valid is True
    assert made.against == {}
    assert list(made.account)[:4] == ["startup", "loading", "building", "compiling"]
    assert made.account["training"] > 20
    assert json.loads(encode(made))["account"] == made.account


def test_what_speaks_against_them_stands_there_by_its_code():
    records = recorded_session()
    session = Session(replace(records[0], machine=MachineFacts(cpu_pct=70.0)))
    session.add(next(each for each in records if isinstance(each, Model)))
    made = make_result(
        JOB,
        "log",
        session.snapshot(is_over=True),
        session.machine.energy,
        Ending(1, None, None, False),
        0,
        1.0,
    )
    assert made.valid is False
    assert made.against == {
        "too_short": "too short: it was never steady",
        "busy_at_start": "machine was busy at the start: CPU 70 %",
    }


@pytest.mark.parametrize(
    ("stopped_by", "status"), [(None, "completed"), (StopCause.TERMINAL_CLOSED, "stopped")]
)
def test_the_result_of_a_machine_says_how_it_was_used_and_why_nothing_else(stopped_by, status):
    header = replace(recorded_session()[0], workload="")
    use = MachineUse({"gpu:0": 41.5}, {"cpu": 1_200.0}, 12.0, {"energy_j.gpu:0": "not supported"})
    made = make_machine_result(
        header, "log", use, stopped_by=stopped_by, now_ns=header.t + 5_000_000_000, wall=1.0
    )
    assert made.stopped_by is stopped_by
    assert (made.status, made.wall_s, made.workload, made.machine) == (status, 5.0, "", use)
    for name in ("device", "seconds_per_epoch", "samples_per_second", "step_ms", "batches"):
        assert getattr(made, name) is None
        assert made.why[name] == "no workload was run: only the machine was recorded"
    assert decode(encode(made)) == made


@pytest.mark.parametrize(
    ("code", "line", "kind"),
    [
        (1, "ValueError: no", FailureKind.EXCEPTION),
        (1, "torch.OutOfMemoryError: CUDA out of memory.", FailureKind.OUT_OF_MEMORY),
        (1, "MemoryError", FailureKind.OUT_OF_MEMORY),
        (1, "RuntimeError: DefaultCPUAllocator: can't allocate memory", FailureKind.OUT_OF_MEMORY),
        (3, "ValueError: no", FailureKind.UNKNOWN),
    ],
)
def test_an_exception_that_ended_a_script_has_its_code(code, line, kind):
    lines = ("Traceback (most recent call last):", '  File "x.py", line 1, in <module>', line)
    output = tuple(Output(0, "stderr", text) for text in lines)
    ending = Ending(code, None, None, False, output, is_script=True)
    assert _status(ending, None)[2] == kind


@pytest.mark.parametrize(
    ("status", "epochs", "ended"),
    [
        ("completed", [(500, True), (250, False)], 2),
        ("stopped", [(500, True), (250, False)], 1),
        ("failed", [(250, False)], 0),
        ("stopped", [(500, True), (500, True)], 2),
        # With --steps none is whole.
        ("stopped", [(50, False), (50, False)], 2),
        ("stopped", [(50, False), (20, False)], 1),
        ("failed", [], 0),
    ],
)
def test_an_epoch_that_a_stop_or_an_error_cut_is_not_counted(status, epochs, ended):
    records = [
        Epoch(n, n, n + 1, n + 1, whole, None, {}, steps) for n, (steps, whole) in enumerate(epochs)
    ]
    assert epochs_ended(records, Status(status)) == ended
