"""The plan of a sweep of a person's script, and the jobs of its runs."""

from __future__ import annotations

import subprocess
from dataclasses import replace

import pytest

from dlmon.options.run_options import RunOptions
from dlmon.options.script_sweep import ScriptJobs, check_script_plan, make_script_plan
from dlmon.records import PairRule, Variation
from dlmon.sweep.log import SweepWriter, new_header, read_sweep
from dlmon.sweep.plan import SweepError

COMMAND = ("python3", "train.py", "--workers", "{workers}")
PAIRS = PairRule(0.02, 600.0, 30.0)


def plan(vary=("workers=0,2,4",), command=COMMAND, repeats=1, **more):
    return make_script_plan(command, None, RunOptions(), vary, repeats, 1, **more)


def test_a_script_is_swept_as_a_workload_is():
    swept = plan(repeats=2)
    assert swept.workloads == ("train.py",)
    assert [dict(c.varied) for c in swept.combinations] == [{"workers": n} for n in (0, 2, 4)]
    assert len(swept.order) == 6
    assert check_script_plan(swept)


@pytest.mark.parametrize(
    ("text", "value"),
    [("4", 4), ("0.5", 0.5), ("1e-3", "1e-3"), ("08", "08"), ("adam", "adam"), ("1.50", "1.50")],
)
def test_a_value_is_handed_over_as_it_was_typed(text, value):
    first = plan([f"workers={text},x"]).combinations[0].varied["workers"]
    assert (first, type(first)) == (value, type(value))


def test_two_values_make_pairs_with_room_for_many():
    swept = plan(["workers=4,8"], pairs=PAIRS)
    assert swept.pairs == PAIRS
    assert len(swept.combinations) == 2
    assert swept.repeats > 50
    # Base and new lead in turn: a drift of the machine has the same effect on both.
    rounds = [swept.order[n : n + 2] for n in range(0, 8, 2)]
    assert [slot.combination for slot in rounds[0]] == [s.combination for s in rounds[1]][::-1]


@pytest.mark.parametrize(
    ("vary", "more", "why"),
    [
        ([], {}, "there is nothing to sweep"),
        (["workers"], {}, "--vary takes KEY=A,B"),
        (["a b=1,2"], {}, "--vary takes KEY=A,B"),
        (["workers=1,,2"], {}, "has an empty value"),
        (["workers=1,1"], {}, "names 1 twice"),
        (["workers=1,2", "workers=3"], {}, "names workers twice"),
        (["workers=1,2,3"], {"pairs": PAIRS}, "two sides are compared in pairs"),
        (["workers=1,2", "env:A=1,2"], {"pairs": PAIRS}, "two sides are compared in pairs"),
        (["workers=1,2"], {"links": ["data"]}, "no commits are compared"),
        (["workers=1,2"], {"pairs": PairRule(0.02, 11.0, 3.0)}, "take more than 12s"),
        (["workers=1,2"], {"command": ("no-such-command", "{workers}")}, "there is no command"),
        (["set:nonsense=1,2"], {"command": COMMAND[:2]}, "nonsense"),
    ],
)
def test_wrong_arguments_are_refused_in_a_sentence(vary, more, why):
    with pytest.raises(SweepError) as refused:
        plan(vary, **more)
    assert why in str(refused.value)


def test_commits_are_compared_only_in_a_repository(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SweepError, match="is in no git repository"):
        plan(["commit=main,HEAD"], command=COMMAND[:2], pairs=PAIRS)


def test_the_log_of_a_sweep_holds_all_that_its_runs_need(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    swept = plan(["workers=4,8"], pairs=PAIRS)
    writer = SweepWriter.create(tmp_path / "logs", new_header(swept, 1, 1.0))
    writer.close()
    again = read_sweep(writer.path)[1].plan
    assert (again.script, again.pairs, again.order) == (swept.script, PAIRS, swept.order)
    job = ScriptJobs(again, writer.path, None)(again.combinations[1])
    assert job.command == ("python3", "train.py", "--workers", "8")
    assert (job.directory, job.script) == (str(tmp_path), True)


def test_copies_are_removed_of_sweeps_that_ended_here_not_of_those_that_may_run(
    tmp_path, monkeypatch
):
    repository, logs = tmp_path / "repo", tmp_path / "logs"
    repository.mkdir()
    for words in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "one"]):
        identity = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
        subprocess.run(["git", *identity, *words], cwd=repository, check=True)
    monkeypatch.chdir(repository)
    swept = plan(["commit=HEAD,."], command=COMMAND[:2], pairs=PAIRS)
    copies = {}
    for host in ("here", "elsewhere"):
        header = new_header(swept, 1, 1.0)
        if host == "elsewhere":
            header = replace(header, host="another-host", boot_id="c0ffee")
        writer = SweepWriter.create(logs, header)
        writer.close()
        copies[host] = writer.path.parent / "commit-0123456789ab"
        copies[host].mkdir()
    writer = SweepWriter.create(logs, new_header(swept, 2, 2.0))
    make, remove = ScriptJobs(swept, writer.path, None).copies
    make()
    assert [copies[host].exists() for host in ("here", "elsewhere")] == [False, True]
    remove()
    writer.close()


def test_a_search_for_a_batch_size_begins_small_and_is_alone():
    searched = plan(["set:batch_size=auto"], command=("python", "train.py"), search_window_s=3.0)
    assert searched.variations == (Variation("set:batch_size", (8,)),)
    assert searched.search_window_s == 3.0
    assert plan(["batch_size=auto"], ("python", "x", "{batch_size}")).search_window_s == 0.0
    assert plan(["set:batch_size=8,16"], ("python", "x")).search_window_s is None
    with pytest.raises(SweepError, match="searches alone"):
        plan(["set:batch_size=auto", "env:X=1,2"], command=("python", "train.py"))
