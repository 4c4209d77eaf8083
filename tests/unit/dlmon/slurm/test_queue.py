import subprocess

import pytest

from dlmon.exit_codes import FAILED
from dlmon.slurm import commands
from dlmon.slurm.commands import SlurmError, reason_in, run_slurm
from dlmon.slurm.queue import (
    _COLUMNS,
    JobState,
    QueuedJob,
    duration_s,
    host_names,
    parse_queue,
    partitions,
    read_accounts,
    read_job,
    read_queue,
    state_of,
)

RUNNING = {
    "ArrayJobID": "12",
    "ArrayTaskID": "N/A",
    "JobID": "12",
    "State": "RUNNING",
    "StartTime": "1795806468",
    "EndTime": "1795813668",
    "TimeLimit": "2:00:00",
    "NumNodes": "2",
    "RestartCnt": "1",
    "exit_code": "0",
    "PreemptTime": "N/A",
    "Partition": "gpu",
    "NodeList": "n[1-2]",
    "tres-alloc": "cpu=2,mem=200M,node=2,billing=2",
    "Reason": "None",
    "Name": "train.py",
}


def row(**changes):
    """Return a line as squeue prints it, in columns of so many bytes."""
    texts = {**RUNNING, **changes}
    return b"".join(
        texts[name].encode("utf-8", "surrogateescape").ljust(width)[:width]
        for name, width in _COLUMNS.items()
    )


def test_a_job_that_runs():
    assert parse_queue(row() + b"\n") == [
        QueuedJob(
            id="12",
            state=JobState.RUNNING,
            name="train.py",
            partition="gpu",
            start_wall=1795806468.0,
            end_wall=1795813668.0,
            time_limit_s=7200.0,
            node_list="n[1-2]",
            nodes=2,
            restarts=1,
            tres="cpu=2,mem=200M,node=2,billing=2",
        )
    ]


def test_what_is_not_known_is_none():
    unknown = dict.fromkeys(("StartTime", "EndTime", "NodeList", "RestartCnt"), "")
    [job] = parse_queue(row(**unknown, TimeLimit="UNLIMITED", State="PENDING", Reason="Priority"))
    assert (job.state, job.reason) == (JobState.PENDING, "Priority")
    assert (job.start_wall, job.end_wall, job.time_limit_s) == (None, None, None)
    assert (job.node_list, job.restarts, job.preempted_wall) == (None, None, None)


def test_a_task_of_an_array_knows_its_array():
    [job] = parse_queue(row(ArrayJobID="7", ArrayTaskID="3", JobID="11"))
    assert (job.id, job.array_job, job.array_task) == ("11", "7", 3)


def test_names_and_reasons_are_cleaned_and_pass_for_no_other_column():
    name = "\x1b[31mred\x1b[0m | JobState=FAILED é\u202e"
    [job] = parse_queue(row(Name=name, Reason="ReqNodeNotAvail, UnavailableNodes:n1"))
    assert job.name == "red | JobState=FAILED é"
    assert job.reason == "ReqNodeNotAvail, UnavailableNodes:n1"
    assert job.state == JobState.RUNNING


def test_bytes_that_are_no_text_shift_no_column():
    [job] = parse_queue(row(Name="\udcff\udcfe"))
    assert job.node_list == "n[1-2]"


def test_a_name_with_the_end_of_a_line_makes_no_second_job():
    assert len(parse_queue(row(Name="a\n99 RUNNING") + b"\n")) == 1


def test_a_state_of_another_version_is_unknown():
    [job] = parse_queue(row(State="LEVITATING"))
    assert job.state == JobState.UNKNOWN
    assert not job.state.is_over


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("CANCELLED by 1000", JobState.CANCELLED),
        ("CANCELLED+", JobState.CANCELLED),
        ("OUT_OF_MEMORY", JobState.OUT_OF_MEMORY),
        ("SPECIAL_EXIT", JobState.REQUEUE_HOLD),
        ("", JobState.UNKNOWN),
    ],
)
def test_a_state_in_the_words_of_each_version(text, state):
    assert state_of(text) == state


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30", 1800),
        ("30:00", 1800),
        ("2:00:00", 7200),
        ("1-00:00:00", 86400),
        ("1-12", 129600),
        ("1-12:30", 131400),
        ("UNLIMITED", None),
        ("NOT_SET", None),
        ("soon", None),
        ("1:2:3:4", None),
    ],
)
def test_a_length_of_time_as_slurm_writes_it(text, seconds):
    assert duration_s(text) == seconds


def test_only_an_exit_code_with_its_signal_is_one():
    # A plain 9 is a code in one version, and a signal in another.
    [plain] = parse_queue(row(State="FAILED", exit_code="9"))
    assert (plain.exit_code, plain.signal) == (None, None)
    [whole] = parse_queue(row(State="FAILED", exit_code="0:9"))
    assert (whole.exit_code, whole.signal) == (0, 9)


def test_a_thousand_jobs_are_read_in_one_go(printed):
    asked = printed(b"\n".join(row(JobID=str(n)) for n in range(1000)))
    assert len(read_queue(mine=True)) == 1000
    assert len(asked) == 1
    assert "--me" in asked[0]


@pytest.fixture
def printed(monkeypatch):
    """Return a function that has Slurm's commands print this, and returns what was asked."""

    def arrange(*answers, code=0, errors=b""):
        asked, left = [], list(answers)

        def run(words, **options):
            asked.append(list(words))
            out = left.pop(0) if len(left) > 1 else left[0]
            if isinstance(out, Exception):
                raise out
            return subprocess.CompletedProcess(words, code, out, errors)

        monkeypatch.setattr(commands.subprocess, "run", run)
        return asked

    return arrange


def test_a_job_that_the_queue_has_forgotten_may_be_in_the_accounts(printed):
    of_accounts = b"123|CANCELLED by 1000|0:15|1795806468|1795806469|02:00:00|n1|None\n"
    printed(b"", of_accounts)
    job = read_job("123")
    assert (job.state, job.cancelled_by, job.signal) == (JobState.CANCELLED, 1000, 15)


def test_who_cancelled_it_is_looked_up(printed):
    of_accounts = b"12|CANCELLED by 0|0:0|1795806468|1795806469|02:00:00|n1|None\n"
    printed(row(State="CANCELLED"), of_accounts)
    job = read_job("12")
    assert (job.name, job.cancelled_by) == ("train.py", 0)


def test_without_accounts_it_is_not_known(printed):
    printed(b"", code=1, errors=b"Slurm accounting storage is disabled\n")
    assert read_accounts("12") is None


def test_of_a_job_that_was_requeued_the_accounts_last_line_counts(printed):
    line = "12|{}|0:0|1795806468|1795806469|02:00:00|n1|None\n"
    printed((line.format("REQUEUED") + line.format("COMPLETED")).encode())
    assert read_accounts("12").state == JobState.COMPLETED


def test_an_unknown_job_is_none(printed):
    printed(b"", code=1, errors=b"slurm_load_jobs error: Invalid job id specified\n")
    assert read_queue(["99"]) == []
    assert read_job("99") is None


def test_no_slurm_is_a_sentence(printed):
    printed(FileNotFoundError())
    with pytest.raises(SlurmError, match=r"no Slurm here \(squeue is not installed\)"):
        read_queue()


def test_a_controller_that_does_not_answer_is_a_sentence(printed):
    printed(subprocess.TimeoutExpired("squeue", 30))
    with pytest.raises(SlurmError, match="Slurm did not answer squeue in 30 s") as refused:
        read_queue()
    assert refused.value.exit_code == FAILED


@pytest.mark.parametrize(
    ("errors", "reason"),
    [
        (
            "sbatch: error: invalid partition specified: nope\n"
            "sbatch: error: Batch job submission failed: Invalid partition name specified\n",
            "invalid partition specified: nope; Invalid partition name specified",
        ),
        ("sbatch: unrecognized option '--x'\nTry \"sbatch --help\"\n", "unrecognized option '--x'"),
        ("\x1b]0;title\x07sbatch: error: no\n", "no"),
        ("", "sbatch did not say why"),
    ],
)
def test_the_reason_of_a_refusal(errors, reason):
    assert reason_in(errors.encode(), "sbatch") == reason


def test_a_command_is_run_by_its_words_with_times_in_seconds(monkeypatch):
    seen = {}

    def run(words, **options):
        seen.update(options, words=words)
        return subprocess.CompletedProcess(words, 0, b"", b"")

    monkeypatch.setattr(commands.subprocess, "run", run)
    run_slurm(["squeue", "$(x)"])
    assert seen["words"] == ["squeue", "$(x)"]
    assert "shell" not in seen
    assert seen["env"]["SLURM_TIME_FORMAT"] == "%s"


def test_nodes_and_partitions_are_lists_of_names(printed):
    printed(b"n1\nn2\n")
    assert host_names("n[1-2]") == ["n1", "n2"]
    printed(b"cpu\ngpu*\ncpu\n")
    assert partitions() == ["gpu", "cpu"]


def test_a_slurm_without_a_configuration_says_where_to_find_one(tmp_path, monkeypatch):
    squeue = tmp_path / "squeue"
    squeue.write_text(
        "#!/bin/sh\n"
        "echo 'squeue: error: fetch_config: DNS SRV lookup failed' >&2\n"
        "echo 'squeue: fatal: Could not establish a configuration source' >&2\n"
        "exit 1\n"
    )
    squeue.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    with pytest.raises(SlurmError, match="type this on a login node, or set SLURM_CONF"):
        run_slurm(["squeue"])
