"""The end of a sweep without the screen: its table and what it found, in a pipe or a terminal."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from fakes.sweeps import completed, ended, pairs_plan, plan_of, result_of, sweep_of

from dlmon.exit_codes import DONE
from dlmon.figures.sweeps import sweep_table
from dlmon.records import Closed, Outcome, RunStatus, Slot, Status
from dlmon.render.lines import lines_of
from dlmon.render.sweep_lines import print_results, show_sweep
from dlmon.sweep.log import SweepWriter, new_header
from dlmon.sweep.runner import SweepRun

REASON = "the batch size must be " + "from 1 to 60,000, " * 15 + "not 70,000"
PLAN = plan_of({"batch_size": [32, 64, 70000], "device": ["cpu"]})
SWEEP = sweep_of(PLAN, [completed(0.5)], [completed(0.2)], [Outcome(RunStatus.IMPOSSIBLE, REASON)])
BEST = "fastest: batch 64, cpu, 5,000 samples/s; 2.50× as fast as batch 32, cpu (1 run each)"


@pytest.fixture
def printed(capsys):
    """Return the lines of a sweep's end."""
    print_results(SimpleNamespace(sweep=SWEEP))
    return capsys.readouterr().out.splitlines()


def test_in_a_pipe_a_row_is_one_line_with_its_note(printed):
    gap, heading, *rows, gap_2, best = printed
    assert gap == gap_2 == ""
    assert heading.split()[:7] == [
        "batch",
        "device",
        "status",
        *["ms", "per", "sample", "samples/s"],
    ]
    assert heading.split()[7:] == ["of", "fastest"]
    assert [row.split()[0] for row in rows] == ["32", "▶", "70000"]
    assert rows[2].endswith(REASON)
    assert best == BEST


def test_in_a_terminal_a_note_without_room_stands_below_its_row_and_nothing_is_wider():
    sections = [sweep_table(SWEEP)]
    lines = ["".join(text for text, _ in line) for line in lines_of(sections, 60)]
    assert max(map(len, lines)) <= 60
    assert [line.split()[0] for line in lines[1:4]] == ["32", "▶", "70000"]
    assert " ".join(" ".join(lines[4:]).split()) == REASON


def test_where_nothing_ran_one_sentence_says_so_in_place_of_a_table_without_figures(capsys):
    not_run = [Outcome(RunStatus.NOT_RUN, "nosuch is not known")]
    plan = plan_of({"host": ["nosuch", "neither"]})
    print_results(SimpleNamespace(sweep=sweep_of(plan, not_run, not_run)))
    assert capsys.readouterr().out == "\nnone of the 2 runs was made\n"
    print_results(SimpleNamespace(sweep=sweep_of(plan_of({"host": ["nosuch"]}), not_run)))
    assert capsys.readouterr().out == "\nthe run was not made\n"
    print_results(SimpleNamespace(sweep=sweep_of(plan, not_run, [completed(0.5)])))
    assert "nosuch is not known" in capsys.readouterr().out


def test_a_note_is_printed_once_and_the_last_pair_with_its_verdict_alone(tmp_path, capsys):
    """Show an experiment of one pair whose runs a test makes, and whose time is over then."""
    header = new_header(pairs_plan(for_s=50.0), 1, 1.0)
    run = SweepRun(SweepWriter.create(tmp_path, header), make_job=None, refusal=None)

    async def make_runs():
        run.notes.append("the runs of a pair come one after the other: memory")
        for repeat in (0, 1):
            for number in (0, 1):
                run._write(ended(Slot(number, repeat), result_of(0.5), took_s=20.0))
        run._write(Closed(Status.COMPLETED, 2.0))
        run.writer.close()
        run.ended = True

    run.run = make_runs
    assert show_sweep(run) == DONE
    shown = capsys.readouterr()
    assert shown.err.count("one after the other") == 1
    (line,) = (line for line in shown.out.splitlines() if line[:2].isdigit() and "proves" in line)
    assert line.endswith("; 1 pair, which proves nothing")
