"""What is printed of a session that is over: its figures and its comparison."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from fakes.recorded import (
    folded,
    recorded_machine,
    recorded_session,
    write_log,
)
from fakes.screens import of_this_boot
from fakes.scripts import script_session
from fakes.sweeps import plan_of

from dlmon.figures.report.summary import SessionOutcome, summary_rows
from dlmon.figures.sweeps import in_short
from dlmon.log.label import Label, write_label
from dlmon.records import Ended, Machine, NamedPause, Notice, Outcome, RunStatus, Status, TimePart
from dlmon.render.follow import follow
from dlmon.render.summary import (
    Ending,
    print_exit_message,
    print_experiment_exit_message,
    print_outcome,
)
from dlmon.session.follower import SessionFollower
from dlmon.session.reasons import NOT_IN_PROJECTION
from dlmon.sweep.log import SweepWriter, new_header
from dlmon.sweep.runner import SweepRun

WITHOUT_A_FIGURE = dict.fromkeys(("seconds_per_epoch", "samples_per_second", "step_ms"))


VERBOSE = Ending(verbose=True)


def followed(tmp_path, capsys, records):
    """Return what is printed of a session, with all figures."""
    log = write_log(tmp_path, records, "shown")
    assert follow(log, None, ending=VERBOSE) == 0
    return capsys.readouterr().out


def test_the_summary_shows_what_a_run_cost_and_how_it_computed(tmp_path, capsys):
    header, *records, result = recorded_session()
    options = {**header.options, "precision": "mixed_float16", "price": "0.5"}
    result = replace(
        result,
        options=options,
        cost_usd=0.0123,
        energy_j_per_epoch={"gpu": 1234.0, "cpu": 85.0},
        effective_flop_s=1.25e12,
        peak_share=0.344,
    )
    printed = followed(tmp_path, capsys, [replace(header, options=options), *records, result])
    assert re.search(r"^settings +mixed_float16 *$", printed, re.MULTILINE)
    assert re.search(r"^cost +0\.012 USD *$", printed, re.MULTILINE)
    assert re.search(r"^energy +GPU 1\.23 kJ, CPU 85 J per epoch *$", printed, re.MULTILINE)
    assert re.search(r"^effective +1\.25 TFLOP/s, 34 % of peak *$", printed, re.MULTILINE)
    row = r"^▶ +this run +9\.16 s  TensorFlow 2\.21\.0, 0\.00\d+ USD$"
    assert re.search(row, printed, re.MULTILINE)


def test_a_session_is_shown_with_its_name_and_note(tmp_path, capsys):
    log = write_log(tmp_path, recorded_session(), "shown")
    write_label(log, Label("base", "a <b>note</b> [/x]"))
    assert follow(log, None, ending=VERBOSE) == 0
    printed = capsys.readouterr().out
    assert re.search(r"^name +base *$", printed, re.MULTILINE)
    assert re.search(r"^note +a <b>note</b> \[/x\] *$", printed, re.MULTILINE)
    assert f"session {recorded_session()[0].id} (base)" in printed
    assert follow(log, None, as_json=True) == 0
    assert json.loads(capsys.readouterr().out)["name"] == "base"


def test_the_summary_says_which_part_a_projection_leaves_out(tmp_path, capsys):
    header, *records, result = recorded_session(ended=0, cut_after=400, status="stopped")
    write_log(tmp_path, [header, *records, result], "shown")
    follow(tmp_path / "shown" / "session.jsonl", None, ending=VERBOSE)
    printed = capsys.readouterr().out
    assert re.search(r"\(projected mean epoch, without validation\) *$", printed, re.MULTILINE)
    assert re.search(r"^▶ +this run +~ 9\.\d+ s .*without validation", printed, re.MULTILINE)
    assert "validation" in result.why
    follow(tmp_path / "shown" / "session.jsonl", None, as_json=True)
    assert json.loads(capsys.readouterr().out)["why"]["validation"] == NOT_IN_PROJECTION


def test_a_run_without_a_figure_gets_no_table_of_others(tmp_path, capsys):
    whole = recorded_session()
    untrained = [*recorded_session("compiling"), replace(whole[-1], **WITHOUT_A_FIGURE)]
    assert "GTX 1080 Ti" not in followed(tmp_path / "untrained", capsys, untrained)
    assert "GTX 1080 Ti" in followed(tmp_path / "whole", capsys, whole)


def lines_at_the_end(log, capsys, monkeypatch):
    """Return the lines that a terminal of 80 columns shows of a session that is over."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    print_exit_message(SessionFollower(log), stops=False)
    said = capsys.readouterr()
    lines = re.sub(r"\x1b\[[0-9;]*m", "", said.out + said.err).splitlines()
    return [part for line in lines for part in re.findall(".{80}|.+$", line) or [""]]


RECORDED = sorted((Path(__file__).parents[3] / "golden" / "sessions").glob("*/session.jsonl"))


@pytest.mark.parametrize("log", RECORDED, ids=lambda log: log.parent.name)
def test_a_recorded_session_ends_with_at_most_ten_lines(tmp_path, capsys, monkeypatch, log):
    shutil.copytree(log.parent, tmp_path / log.parent.name)
    lines = lines_at_the_end(tmp_path / log.parent.name / log.name, capsys, monkeypatch)
    assert len(lines) <= 10
    # What another machine records may go on.
    assert any("; recorded in" in line or "is still running" in line for line in lines)


@pytest.mark.parametrize(
    ("records", "said"),
    [
        ({"status": "failed"}, "what went wrong    OUT OF MEMORY: memory ran out"),
        ({"nan_loss": True}, "what went wrong    NAN LOSS"),
        ({"status": "stopped", "gpus": 2}, "seconds per epoch  10.7 s"),
        ({}, "time               ▓██████████·  ▓ start 8 %"),
    ],
)
def test_a_session_ends_with_what_a_person_reads_first(
    tmp_path, capsys, monkeypatch, records, said
):
    write_log(tmp_path, recorded_session(session_id="before", begin_wall=1.7e9), "before")
    log = write_log(tmp_path, recorded_session(**records), "shown")
    lines = lines_at_the_end(log, capsys, monkeypatch)
    assert len(lines) <= 10
    assert any(line.startswith(said) for line in lines), lines


CUDA_ERROR = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total "
    "capacity of 79.11 GiB of which 3.07 GiB is free. Including non-PyTorch memory, this process "
    "has 76.03 GiB memory in use. Of the allocated memory 50.00 GiB is allocated by PyTorch, and "
    "25.32 GiB is reserved by PyTorch but unallocated. If reserved but unallocated memory is large "
    "try setting PYTORCH_ALLOC_CONF=expandable_segments:True to avoid fragmentation."
)


def test_a_run_out_of_memory_ends_with_its_message_once_and_in_full_and_what_to_try(
    tmp_path, capsys, monkeypatch
):
    *records, result = recorded_session(status="failed")
    records.append(replace(result, error=CUDA_ERROR))
    lines = lines_at_the_end(write_log(tmp_path, records, "shown"), capsys, monkeypatch)
    assert len(lines) <= 10
    text = " ".join(" ".join(lines).split())
    assert text.count("20.0 GiB asked for, 3.1 GiB of 79.1 GiB free") == 1
    assert "CUDA out of memory" not in text
    assert "try set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True: 25.3 GiB was there" in text
    assert "or use a smaller batch than 100" in text
    wrong = lines[: next(i for i, line in enumerate(lines) if "; recorded in" in line)]
    assert not any("…" in line for line in wrong if line[:1] in "w t")


def test_a_recording_of_eight_gpus_ends_with_at_most_ten_lines(tmp_path, capsys, monkeypatch):
    log = write_log(tmp_path, recorded_machine(gpus=8, energy=True))
    lines = lines_at_the_end(log, capsys, monkeypatch)
    assert len(lines) <= 10
    assert any(line.startswith("energy") for line in lines)


def summed_up(session, status=Status.COMPLETED):
    return dict(summary_rows(SessionOutcome(session, session.snapshot(), status, Label())))


def doing(records, **did):
    """Return the records of a session with what its GPU did in each sample."""
    return [
        replace(one, gpus=tuple(replace(gpu, **did) for gpu in one.gpus))
        if isinstance(one, Machine) and one.gpus
        else one
        for one in records
    ]


@pytest.mark.parametrize(
    ("did", "text"),
    [
        (
            {"sm_active_pct": 61.2, "tensor_pct": 22.4, "dram_pct": 48.0, "memory_busy_pct": 70},
            "SM active 61 %, tensor cores 22 %, memory bandwidth 48 %",
        ),
        ({"memory_busy_pct": 48}, "memory busy 48 %"),
        ({}, None),
        ({"why": {"tensor_pct": "denied"}}, None),
    ],
)
def test_the_summary_says_what_a_gpu_did_while_it_trained(did, text):
    row = summed_up(folded(doing(recorded_session(), **did))).get("GPU 0")
    assert row is None if text is None else re.fullmatch(rf"busy \d+ %, {text}", row)


def test_the_summary_of_a_recorded_machine_says_what_its_gpus_did():
    records = doing(recorded_machine(), sm_active_pct=61.2, memory_busy_pct=70)
    row = summed_up(folded(records))["mean GPU 0"]
    assert re.fullmatch(r"\d+ %, SM active 61 %, memory busy 70 %", row)


def test_what_compiled_is_as_long_as_where_the_time_went_says():
    session = folded(script_session())
    snapshot, account = session.snapshot(), {TimePart.COMPILING: 23.1}
    compiled = replace(snapshot, pauses=(NamedPause(0, 1, "compile"),), time_breakdown=account)
    rows = dict(summary_rows(SessionOutcome(session, compiled, Status.COMPLETED, Label())))
    assert (summed_up(session).get("compile"), rows["compile"]) == (None, "23.1 s")


@pytest.mark.parametrize(("validated", "text"), [(False, None), (True, "+0.10 s in validation")])
def test_a_first_batch_is_told_from_that_of_a_validation(validated, text):
    # That of the training took no longer than another.
    rows = summed_up(folded(script_session(validated=validated)))
    assert rows.get("first batch") == text


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (Status.COMPLETED, "completed"),
        (Status.INTERRUPTED, "interrupted: left no result"),
        (
            Status.UNKNOWN,
            "unknown: recorded on another machine; whether it still runs can't be seen from here",
        ),
    ],
)
def test_a_session_of_which_no_more_is_known_says_why(status, text):
    for records in (recorded_session(), recorded_machine()):
        assert summed_up(folded(records), status)["status"] == text


@pytest.mark.parametrize(("status", "code"), [("completed", 0), (None, 1)])
def test_a_log_that_was_lost_under_the_viewer_is_said(tmp_path, capsys, monkeypatch, status, code):
    records = recorded_machine(status=status)
    path = write_log(tmp_path, of_this_boot(records))
    poll = SessionFollower.poll

    def removed_meanwhile(follower, *arguments):
        path.unlink(missing_ok=True)
        return poll(follower, *arguments)

    monkeypatch.setattr(SessionFollower, "poll", removed_meanwhile)
    assert follow(path, None) == code
    *_, said = capsys.readouterr().err.splitlines()
    assert "the log was removed by another program" in said
    assert "holds what was recorded" not in said
    assert ("interrupted" in said) == (status is None)


def test_what_is_wrong_with_reference_figures_is_said_beside_the_summary(
    tmp_path, capsys, monkeypatch
):
    own = tmp_path / "published.csv"
    monkeypatch.setenv("DLMON_PUBLISHED", str(own))
    own.write_text("nonsense\n")
    log = write_log(tmp_path, recorded_session(), "shown")
    assert follow(log, None, ending=VERBOSE) == 0
    said = capsys.readouterr()
    assert "GTX 1080 Ti" in said.out
    assert said.err == (
        f"dlmon: {own}, line 1: the column workload is missing in its first line; "
        "no own figure is shown\n"
    )


@pytest.mark.parametrize(
    ("host", "where"), [(None, "recorded in"), ("gpu1", "recorded on gpu1, copied to")]
)
def test_a_session_that_is_over_says_where_its_log_is(tmp_path, capsys, host, where):
    log = write_log(tmp_path, recorded_session(), "first")
    follower = SessionFollower(log)
    follower.host = host
    print_exit_message(follower, stops=False)
    name = follower.session.header.id
    meant = " last" if host is None else f" --host {host} {name}"
    assert capsys.readouterr().out.splitlines()[-2:] == [
        f"{name} completed; {where} {log}",
        f"dlmon report{meant} has all figures, dlmon attach{meant} shows it again",
    ]


@pytest.mark.parametrize(
    ("host", "log_dir", "where"),
    [
        (None, None, ""),
        ("gpu1", None, " --host gpu1"),
        ("gpu1", "/there", " --host gpu1 --log-dir /there"),
    ],
)
def test_a_session_that_goes_on_says_how_to_come_back(tmp_path, capsys, host, log_dir, where):
    follower = SessionFollower(write_log(tmp_path, recorded_session("training"), "first"))
    follower.host, follower.log_dir_there = host, log_dir
    follower.status_without_result = lambda: Status.RUNNING
    print_exit_message(follower, stops=False)
    name = follower.session.header.id
    said = f"{name} is still running; dlmon attach{where} {name} shows it\n"
    assert capsys.readouterr().out == said


def test_a_sweep_says_which_machines_were_away_and_where_to_go_on(tmp_path, capsys):
    plan = plan_of({"host": ["gpu1", "gpu2"]})
    run = SweepRun(SweepWriter.create(tmp_path, new_header(plan, 1, 1.0)), None, None)
    run.unreached["gpu1"] = "gpu1 is not known: no such host name"
    run._hosts["gpu2"] = SimpleNamespace(name="gpu2", left_running="a-session")
    for slot in plan.order:
        run.writer.write(Ended(slot, Outcome(RunStatus.NOT_RUN, "why"), 1.0))
    resume = f"ended; 2 runs left: dlmon sweep --resume {run.writer.header.id}"
    for usual, where in ((tmp_path, ""), (tmp_path / "elsewhere", f" --log-dir {tmp_path}")):
        print_experiment_exit_message(run, usual)
        said = capsys.readouterr()
        assert said.err.splitlines() == [
            "dlmon: gpu1 is not known: no such host name",
            "dlmon: a-session may still run: dlmon stop --host gpu2 a-session ends it",
        ]
        assert said.out.endswith(f"{resume}{where}\n")
    run.writer.close()


def test_of_many_findings_of_a_sweep_the_last_ones_are_counted():
    sentences = [f"finding {number}" for number in range(9)]
    assert in_short(sentences, 9) == sentences
    assert in_short(sentences, 3) == [*sentences[:2], "7 more findings in dlmon report"]


@pytest.mark.parametrize(
    ("notices", "shown"),
    [(("a", "b"), ["a", "b"]), (("a", "b", "c"), ["a", "1 more notice", "c"])],
)
def test_of_many_notices_of_a_script_the_first_and_the_last_are_shown(
    tmp_path, capsys, notices, shown
):
    header, *records, result = recorded_session()
    added = [Notice(result.t, text) for text in notices]
    log = write_log(tmp_path, [header, *records, *added, result])
    print_outcome(_read(log), is_script=True)
    said = capsys.readouterr().err.splitlines()
    assert [line for line in said if line.startswith("dlmon: ")] == [f"dlmon: {s}" for s in shown]


def _read(log):
    follower = SessionFollower(log)
    while follower.poll():
        pass
    return follower
