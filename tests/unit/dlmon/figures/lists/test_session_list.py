from dataclasses import replace
from pathlib import Path

import pytest
from fakes.recorded import BEGIN_WALL, folded, recorded_machine, recorded_session, write_log
from fakes.scripts import script_header, script_session
from fakes.sweeps import SMALL, completed, ended, pairs_plan, plan_of, result_of, sweep_of

from dlmon.figures.lists.session_list import (
    bad_loss_text,
    call_text,
    describe_recorded,
    describe_workloads,
    done_in_words,
    outcome,
    recording_headline,
    result_text,
    runs_of_sweeps,
    session_json,
    settings_text,
    status_text,
    stop_delay_text,
    stopped_unasked_text,
    sweep_outcome,
    use_text,
    workload_of,
)
from dlmon.log.directory import SessionEntry, list_sessions, read_entry
from dlmon.log.label import Label, write_label
from dlmon.protocol.stop import CAUSE_TEXT
from dlmon.records import (
    Began,
    Closed,
    Ended,
    FailureKind,
    MachineUse,
    Metrics,
    Outcome,
    Requirement,
    RunStatus,
    Slot,
    Status,
    StopCause,
    SweptScript,
)
from dlmon.render.console import table_console
from dlmon.render.lines import lines_of, print_sections
from dlmon.session.reasons import NOTHING_SEEN
from dlmon.sweep.log import SweepEntry, SweepWriter, list_sweeps, new_header
from dlmon.sweep.variants import AS_IT_IS
from workloads.catalog import WORKLOADS


@pytest.fixture
def entry(tmp_path):
    return lambda records: read_entry(write_log(tmp_path, records))


def test_a_recorded_machine_is_listed_as_one_with_how_it_was_used(tmp_path):
    ended, running = (
        read_entry(write_log(tmp_path, records, name))
        for name, records in (
            ("ended", recorded_machine(energy=True)),
            ("running", recorded_machine(status=None)),
        )
    )
    assert workload_of(ended) == "machine"
    assert outcome(ended) == "00:29  CPU 36 %, GPU 0 81 %, CPU 1.16 kJ, GPU 0 2.61 kJ"
    assert outcome(running) in ("left no result", "recorded on another machine")
    # Only a workload has a batch to wait for.
    assert stop_delay_text(ended.header) == ""
    assert stop_delay_text(recorded_session()[0]) == " after the current batch"


@pytest.mark.parametrize(
    ("use", "text"),
    [
        (None, ""),
        (MachineUse({}, {}), ""),
        (MachineUse({}, {}, 0.0), "CPU 0 %"),
        (MachineUse({"gpu:1": 99.6}, {"gpu:1": 1.2e6}), "GPU 1 100 %, GPU 1 1.2 MJ"),
    ],
)
def test_what_is_not_known_of_a_machines_use_is_left_out(use, text):
    assert use_text(use) == text


def test_of_a_script_that_ended_before_it_trained_no_training_was_seen(entry):
    lacking = {"seconds_per_epoch": Requirement.MODEL}

    def brief(records):
        ended = entry(records)
        why = dict.fromkeys(lacking, "a reason")
        none = dict.fromkeys(("seconds_per_epoch", "samples_per_second"))
        result = replace(ended.result, **none, why=why, lacking=lacking)
        return outcome(replace(ended, result=result))

    of_script = replace(recorded_session()[-1], session=script_header().id)
    assert brief(script_session(seconds=0, result=of_script)) == NOTHING_SEEN
    assert brief(recorded_session()) == "ended before training"


def test_a_run_that_was_stopped_says_how_many_of_its_epochs_it_trained(tmp_path):
    def settings(name, **options):
        return settings_text(read_entry(write_log(tmp_path, recorded_session(**options), name)))

    assert "  1 of 3 epochs  " in settings("stopped", status="stopped")
    assert "  3 epochs  " in settings("whole")


def test_a_time_that_is_in_doubt_says_so(entry):
    recorded = entry(recorded_session())
    short, busy = "too short: it was never steady", "machine was busy at the start: CPU 71 %"

    def text(whole=False, **against):
        return outcome(
            replace(recorded, result=replace(recorded.result, against=against)), whole=whole
        )

    figure = text()
    assert figure.endswith("per epoch")
    doubts = {"too_short": short, "busy_at_start": busy}
    assert text(**doubts) == f"{figure}, in doubt: too short, busy at the start"
    assert text(whole=True, **doubts) == f"{figure}, in doubt: {short}; {busy}"


def stopped_by(cause):
    return replace(recorded_session(status="stopped")[-1], stopped_by=cause)


def test_a_list_says_first_that_the_loss_was_nan(entry):
    recorded = entry(recorded_session())
    assert bad_loss_text(recorded) == ""
    figure = result_text(recorded)
    warnings = {**(recorded.result.against or {}), "nan_loss": "the loss was NaN from epoch 2 on"}
    diverged = replace(recorded, result=replace(recorded.result, against=warnings))
    assert result_text(diverged) == f"loss NaN from epoch 2 on; {figure}"
    assert outcome(diverged, whole=True).startswith("loss NaN from epoch 2 on; ")
    assert "loss" not in outcome(diverged, whole=True).partition("; ")[2]


@pytest.mark.parametrize(("why", "text"), [("NaN", "NaN"), ("infinite", "infinite"), ("[red]", "")])
def test_a_run_without_a_result_has_a_bad_loss_if_its_newest_record_says_so(entry, why, text):
    header, *records = recorded_session("training")
    loss = Metrics(records[-1].t + 1, {"loss": None}, why={"loss": why})
    running = entry([header, *records, loss])
    assert (running.loss, running.why_no_loss) == (None, text)
    assert bad_loss_text(running) == (f"loss {text}" if text else "")


def test_a_list_says_out_of_memory_in_three_words(entry):
    recorded = entry(recorded_session(status="failed"))
    result = replace(recorded.result, failure=FailureKind.OUT_OF_MEMORY)
    assert result_text(replace(recorded, result=result)) == "failed: out of memory"
    raised = replace(recorded.result, failure=FailureKind.EXCEPTION)
    assert result_text(replace(recorded, result=raised)) == f"failed: {outcome(recorded)}"


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("python train.py --lr 0.1 --amp", "train.py --lr 0.1 --amp"),
        ("python -u train.py --api-key abc base lr=3", "train.py --api-key … lr=3 base"),
        ("train.py", "train.py"),
    ],
)
def test_a_script_is_listed_with_its_arguments_without_secret_values(command, text):
    header = replace(script_header(), command=tuple(command.split()), workload="train.py")
    assert call_text(header) == text


def test_who_stopped_a_session_stands_behind_how_it_stands():
    said = {
        StopCause.TERMINAL_CLOSED: "stopped: its terminal was closed (--detach, or d before that, "
        "keeps a run going)",
        StopCause.CTRL_C: "stopped: asked by Ctrl-C",
        StopCause.UNKNOWN: "stopped",
        None: "stopped",
    }
    assert {one: status_text(Status.STOPPED, stopped_by(one)) for one in said} == said
    assert set(CAUSE_TEXT) == set(StopCause) - {StopCause.UNKNOWN}
    # Of a stop that somebody asked for nothing is said.
    unasked = {cause for cause in StopCause if stopped_unasked_text(stopped_by(cause))}
    assert unasked == {
        *("terminal_closed", "viewer_terminated", "viewer_gone", "signal"),
        *("time_limit", "preempted", "requeued", "cancelled"),
    }


def test_a_list_says_of_a_run_that_its_terminal_was_closed(entry):
    recorded = entry(recorded_session())

    def text(cause, whole=False):
        result = replace(recorded.result, status=Status.STOPPED, stopped_by=cause)
        return outcome(replace(recorded, result=result), whole=whole)

    assert text(StopCause.TERMINAL_CLOSED) == f"{text(None)}; its terminal was closed"
    assert text(StopCause.VIEWER_GONE).endswith("; its viewer is gone")
    # Who asked for it knows; and in full it stands before.
    assert text(StopCause.CTRL_C) == text(None)
    assert text(StopCause.TERMINAL_CLOSED, whole=True) == text(None, whole=True)


pytestmark = pytest.mark.usefixtures("utc")


@pytest.fixture
def log_dir(tmp_path):
    return tmp_path / "sessions"


@pytest.fixture
def table(log_dir, capsys):
    """Return a function that writes sessions and returns the table of them, cell by cell."""

    def read(*sessions):
        for records in sessions:
            write_log(log_dir, records)
        print_sessions(list_sessions(log_dir), log_dir)
        return cells(capsys.readouterr().out)

    return read


def print_sessions(entries, log_dir, sweeps=(), width=None, **options):
    """Print a list as it is in a pipe, or on a terminal of some width."""
    sections = describe_recorded(entries, sweeps, log_dir, **options)
    if width is None:
        print_sections(table_console(), sections)
    else:
        print(shown(sections, width))


def shown(sections, width):
    lines = lines_of(sections, width)
    return "\n".join("".join(text for text, _ in line) for line in lines)


def cells(text):
    """Return the rows of a table: cells are two blanks apart."""
    return [
        [cell.strip() for cell in line.split("  ") if cell.strip()] for line in text.splitlines()
    ]


def test_every_workload_has_a_row_with_its_figures():
    text = shown(describe_workloads(tuple(WORKLOADS.values())), None)
    for workload in WORKLOADS.values():
        (row,) = (line for line in text.splitlines() if line.startswith(f"{workload.name} "))
        assert f" {workload.parameters:,} " in row
        assert row.endswith(workload.title)
        assert workload.source in text
    rows = {row[0]: row for row in cells(text) if row}
    assert rows["cifar10-cnn"][4:6] == ["10 epochs", "[1]"]
    assert rows["resnet50"][4] == "100 steps"


def test_without_sessions_it_says_where_none_are(log_dir, capsys):
    print_sessions([], log_dir)
    said = capsys.readouterr().out.replace("\n", "")
    assert said == f"no sessions in {log_dir} yet; dlmon run starts one"
    print_sessions([], log_dir, by_path=True)
    said = capsys.readouterr().out.replace("\n", "")
    assert said.endswith(f"yet; dlmon run --log-dir {log_dir} starts one")


def test_sessions_are_listed_oldest_first_with_what_they_took(table):
    day_s, gpu = 86_400, "NVIDIA GeForce GTX 1060 6GB"
    header, *rest = recorded_session("training", begin_wall=BEGIN_WALL + 3 * day_s)
    rows = table(
        recorded_session(session_id="second", begin_wall=BEGIN_WALL + day_s, status="stopped"),
        recorded_session(session_id="first"),
        recorded_session(session_id="third", begin_wall=BEGIN_WALL + 2 * day_s, status="failed"),
        [replace(header, id="fourth", options={"device": "gpu:1"}), *rest],
    )
    heading = ["session", "started", "workload", "status", "device", "result"]
    oom = "memory ran out with batch size 100 (ResourceExhaustedError: OOM when allocating)"
    elsewhere = "recorded on another machine"
    assert [row[:2] + row[3:] for row in rows] == [
        heading[:2] + heading[3:],
        ["first", "2026-11-20 14:56", "completed", gpu, "9.16 s ± 0.01 per epoch"],
        ["second", "2026-11-21 14:56", "stopped", gpu, "10.7 s per epoch"],
        ["third", "2026-11-22 14:56", "failed", gpu, oom],
        ["fourth", "2026-11-23 14:56", "unknown", "gpu:1", elsewhere],
    ]
    assert {row[2] for row in rows} == {"workload", "cifar10-cnn"}


def test_a_list_says_the_error_and_not_that_it_came_with_an_exit_code(table):
    code = "the script ended with exit code 1"
    errors = {"a": f"{code}: torch.OutOfMemoryError: CUDA out of memory.", "b": code}
    logs = []
    for number, (session, error) in enumerate(errors.items()):
        wall = BEGIN_WALL + 60 * number
        *records, result = recorded_session(session_id=session, begin_wall=wall, status="failed")
        logs.append([*records, replace(result, error=error)])
    said = [row[-1] for row in table(*logs)]
    assert said == ["result", "torch.OutOfMemoryError: CUDA out of memory.", code]


BUSY = {"busy_at_start": "machine was busy at the start: CPU 90 %", "too_short": "1 s"}


def test_that_the_machine_was_busy_at_each_start_is_said_once(log_dir, capsys):
    for id in ("one", "two"):
        records = recorded_session(session_id=id)
        write_log(log_dir, [*records[:-1], replace(records[-1], against=BUSY)])
    print_sessions(list_sessions(log_dir), log_dir)
    *rows, _, said = capsys.readouterr().out.splitlines()
    assert said == f"each run shown: {BUSY['busy_at_start']}; {BUSY['too_short']}"
    assert "in doubt" not in "".join(rows)


def test_a_name_has_a_column_where_there_is_one_and_stands_in_json(log_dir, table):
    heading, row = table(recorded_session())
    assert "name" not in heading
    write_label(list_sessions(log_dir)[0].path, Label("batch 256", "after the fix"))
    heading, row = table()
    assert (heading[2], row[2]) == ("name", "batch 256")
    (entry,) = list_sessions(log_dir)
    entry_json = session_json(entry)
    assert (entry_json["name"], entry_json["note"]) == ("batch 256", "after the fix")
    assert entry_json["result"]["name"] == "batch 256"
    assert (entry_json["session"], entry_json["pid"]) == (entry.header.id, None)
    assert Path(entry_json["log"]) == entry.path


# ---- sweeps ----


@pytest.fixture
def swept(log_dir):
    """Return a sweep of two batch sizes of which one was run, as a session."""
    header = new_header(plan_of({"batch_size": [32, 64]}), 1, BEGIN_WALL - 60)
    writer = SweepWriter.create(log_dir, header)
    write_log(log_dir, recorded_session(session_id="run-1", workload=SMALL, step_us=700))
    write_log(log_dir, recorded_session(session_id="alone"))
    writer.write(Began(Slot(0, 0), "run-1", BEGIN_WALL))
    writer.write(Ended(Slot(0, 0), completed(0.5), BEGIN_WALL))
    writer.write(Closed("stopped", BEGIN_WALL))
    writer.close()
    return writer


def listed(log_dir, capsys, **options):
    print_sessions(list_sessions(log_dir), log_dir, list_sweeps(log_dir), **options)
    return cells(capsys.readouterr().out)


def test_sweeps_stand_below_the_sessions_with_how_to_go_on(swept, log_dir, capsys):
    heading, *sessions, gap, sweep_heading, sweep, gap_2, resume = listed(log_dir, capsys)
    assert heading[5:] == ["in a sweep", "result"]
    assert sorted(row[0] for row in sessions) == ["alone", "run-1"]
    assert next(row for row in sessions if row[0] == "run-1")[5] == "batch 32"
    assert gap == gap_2 == []
    assert sweep_heading == ["sweep", "started", "workload", "status", "kind", "done", "result"]
    name = swept.header.id
    started = "2026-11-20 14:55"
    assert sweep == [name, started, SMALL, "stopped", "sweep", "1 of 2", "batch 32, 64"]
    assert resume == [f"1 run left: dlmon sweep --resume {name}"]
    # One that runs is not to be resumed.
    writer = SweepWriter.create(log_dir, new_header(plan_of({"threads": [1, 2]}), 1, BEGIN_WALL))
    of_both = listed(log_dir, capsys)
    writer.close()
    assert ["running", "sweep", "0 of 2", "threads 1, 2"] in [row[3:] for row in of_both]
    assert of_both[-1] == resume


def test_pairs_are_listed_with_their_kind_their_pairs_and_their_verdict(log_dir, capsys):
    writer = SweepWriter.create(log_dir, new_header(pairs_plan(), 1, BEGIN_WALL))
    assert listed(log_dir, capsys)[1][3:] == ["running", "ab", "0 pairs", "workers 4 → workers 8"]
    for slot in writer.sweep.plan.order[:4]:
        writer.write(ended(slot, result_of(0.5 - 0.1 * slot.combination)))
    *_, kind, pairs, verdict = listed(log_dir, capsys)[1]
    writer.close()
    assert (kind, pairs) == ("ab", "1 pair")
    assert verdict.startswith("NOT PROVEN: workers 8 is 1.250×")


def test_pairs_that_a_failed_run_ended_say_so_once(log_dir, capsys):
    writer = SweepWriter.create(log_dir, new_header(pairs_plan(), 1, BEGIN_WALL))
    writer.write(Ended(Slot(0, 0), Outcome(RunStatus.FAILED, "exit code 1", "session"), 1.0))
    writer.write(Closed(Status.FAILED, 2.0))
    writer.close()
    row = listed(log_dir, capsys)[1]
    assert row[3] == "failed"
    assert row[-1].startswith("workers 4 failed: exit code 1")


def test_an_injection_against_the_script_as_it_is_is_a_try(log_dir, capsys):
    plan = pairs_plan({"set:num_workers": [AS_IT_IS, 4]}, command=("python", "train.py"))
    SweepWriter.create(log_dir, new_header(plan, 1, BEGIN_WALL)).close()
    assert "try" in listed(log_dir, capsys)[1]


def test_a_session_as_json_holds_the_sweep_that_it_is_a_run_of(swept, log_dir):
    runs = runs_of_sweeps(list_sweeps(log_dir))
    by_id = {
        entry.header.id: session_json(entry, runs.get(entry.header.id))
        for entry in list_sessions(log_dir)
    }
    assert by_id["alone"]["sweep"] is None
    sweep = by_id["run-1"]["sweep"]
    assert (sweep["id"], sweep["status"], sweep["pid"]) == (swept.header.id, "stopped", None)
    assert (sweep["workloads"], sweep["vary"]) == ([SMALL], {"batch_size": [32, 64]})
    assert (sweep["combinations"], sweep["combinations_done"], sweep["runs_left"]) == (2, 1, 1)
    assert sweep["resume"] == f"dlmon sweep --resume {log_dir / swept.header.id}"


@pytest.mark.parametrize(
    ("status", "for_s", "word", "when"),
    [
        ("running", None, "RECORDING", "since 14:56:00"),
        ("running", 7_200.0, "RECORDING", "since 14:56:00, until 16:56:00 (2:00:00)"),
        # Nobody promises that a recording that stops goes on until then.
        ("stopping", 7_200.0, "STOPPING", "since 14:56:00"),
        ("stopped", 7_200.0, "RECORDED", "14:56:00 to 14:56:29, stopped"),
    ],
)
def test_a_recording_leads_with_its_time_what_was_busiest_and_where_it_is(
    utc, status, for_s, word, when
):
    session = folded(recorded_machine(status=None, for_s=for_s))
    use, snapshot = session.machine.use(), session.snapshot()
    found, (said, busy, where) = recording_headline(snapshot, status, use, "sessions/a")
    assert (found, said, where) == (f"{word} 0:29", when, "→ written to sessions/a")
    assert busy == "busiest on average: GPU 0 81 %, CPU 36 %"
    # Of a machine that was never read nothing is said.
    _, sentences = recording_headline(snapshot, status, MachineUse({}, {}), "sessions/a")
    assert sentences == (when, where)


def test_repeats_of_a_script_tell_their_rate_or_why_they_ended_early(tmp_path):
    script = SweptScript(("python", "train.py"))
    plan = replace(plan_of(repeats=3, workloads=("train.py",)), script=script)

    def told(third):
        sweep = sweep_of(plan, [completed(2.0), completed(2.0), third])
        entry = SweepEntry(new_header(plan, 1, 0.0), tmp_path, sweep, Status.COMPLETED, None)
        return sweep_outcome(entry), done_in_words(entry)

    rate = "500 samples/s, the median of runs that differ by up to 25 %"
    assert told(completed(2.5)) == (rate, "3 of 3 runs")
    failed = Outcome(RunStatus.FAILED, "no such file", None, None, 1.0)
    assert told(failed) == ("3 of 3, no such file", "3 of 3 runs")


@pytest.mark.parametrize(
    ("options", "epoch", "said"),
    [
        ({"epochs": 3}, 2, "running, epoch 2/3"),
        ({"epochs": 3}, 5, "running, epoch 5"),
        ({"epochs": 3}, None, "running"),
        # A script without epochs counts one.
        ({}, 1, "running"),
        ({}, 2, "running, epoch 2"),
    ],
)
def test_a_running_session_says_its_epoch(options, epoch, said):
    header = replace(recorded_session()[0], options=options)
    entry = SessionEntry(header, Path("x"), Status.RUNNING, None, 1, epoch=epoch)
    assert result_text(entry) == said
