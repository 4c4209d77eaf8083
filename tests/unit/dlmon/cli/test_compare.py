import shutil
from dataclasses import replace

import pytest
from fakes.recorded import recorded_session, write_log

from dlmon.cli.command_line import run_command
from dlmon.cli.shared import UserError, user_errors
from dlmon.comparison.sides import NotComparable


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Return a directory of three runs, three slower ones, and one of another batch size."""
    folder = tmp_path_factory.mktemp("written")
    for number in range(3):
        for name, step_us in (("base", 18_000), ("slow", 20_000)):
            begun = recorded_session(
                session_id=f"{name}-{number}", step_us=step_us + 7 * number * number
            )
            write_log(folder, begun, f"{name}-{number}")
    write_log(folder, recorded_session(workload="mnist-mlp-small", step_us=2_000), "other")
    write_log(folder, recorded_session("compiling", session_id="early"), "early")
    return folder


@pytest.fixture
def log_dir(written, tmp_path):
    """Return a copy of that directory."""
    return shutil.copytree(written, tmp_path, dirs_exist_ok=True)


@pytest.fixture
def compare(log_dir, capsys):
    """Return what runs `dlmon compare` there, and returns its exit code and its output."""

    def run(*arguments):
        exit_code = run_command(["compare", *arguments, "--log-dir", str(log_dir)])
        return exit_code, capsys.readouterr().out

    return run


def test_two_sides_of_three_runs(compare):
    exit_code, out = compare("base*", "slow-0,slow-1,slow-2")
    assert exit_code == 0
    assert "base  base-0 and 2 more" in out
    assert "× as slow as base in samples/s (1.109× to 1.113×)" in out
    (rate,) = (line for line in out.splitlines() if line.startswith("samples/s"))
    assert rate.split()[-1] == "3+3"
    assert "0.900×" in rate
    assert "~" not in rate


def test_one_run_a_side_is_marked_and_the_next_step_is_named(compare, log_dir):
    for number in (1, 2):
        (log_dir / f"base-{number}" / "session.jsonl").unlink()
        (log_dir / f"slow-{number}" / "session.jsonl").unlink()
    exit_code, out = compare("base-0", "slow-0")
    assert exit_code == 0
    assert " 0.900× " in out
    assert "?" not in out
    assert "New is 1.111× as slow as base in samples/s (1.109× to 1.113×, 1 run each)" in out
    with pytest.raises(UserError, match="dlmon sweep cifar10-cnn --repeat 3"):
        compare("base-0", "slow-0", "--fail-if-slower", "5%")


@pytest.mark.parametrize(
    ("percentage", "exit_code"), [("5%", 1), ("9.5", 1), ("5 %", 1), ("0%", 1), ("15%", 0)]
)
def test_it_fails_where_the_new_side_is_slower_by_so_much(compare, percentage, exit_code):
    assert compare("base*", "slow*", "--fail-if-slower", percentage)[0] == exit_code
    assert compare("slow*", "base*", "--fail-if-slower", percentage)[0] == 0


@pytest.mark.parametrize("text", ["five", "-5%", "100%", "nan", "inf%", "", "%", "5%%", "0x5"])
def test_what_is_no_percentage_is_refused(compare, text):
    with pytest.raises(UserError, match="takes a percentage from 0 to 99, such as 5%"):
        compare("base*", "slow*", f"--fail-if-slower={text}")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["base-0"], "say which session to compare it with"),
        ([], "say which sessions"),
        (["base-0", "base-0"], "base-0 is on both sides"),
        (["base*", "base-1"], "base-1 is on both sides"),
        (["base-0", "nobody"], 'there is no session "nobody"'),
        (["base-0", "no*"], 'there is no session "no*"'),
        (["base-0", ""], "there is no session"),
        (["early", "base-0"], "early has no throughput to compare: not steady yet"),
        (
            ["base-0", "other"],
            "these runs do not compare: network cifar10-cnn, not mnist-mlp-small",
        ),
        (["base-0", "slow-0", "--fail-if-slower"], "--fail-if-slower"),
    ],
)
def test_what_can_t_be_compared_is_one_sentence(compare, arguments, says):
    with pytest.raises(user_errors()) as refused:
        compare(*arguments)
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


def test_behind_a_run_without_a_throughput_the_newest_one_that_has_it_is_named(compare, log_dir):
    for name, stage in (("fixed", "result"), ("bad", "compiling"), ("worked", "result")):
        header, *records = recorded_session(stage)
        wall = header.wall + 10 * ["worked", "bad", "fixed"].index(name)
        write_log(log_dir, [replace(header, id=name, wall=wall), *records], name)
    with pytest.raises(NotComparable, match=r"^bad has no throughput .*; the newest .* is worked$"):
        compare("last~1", "last")
    # None of the other side, and none for the side that is looked at.
    with pytest.raises(NotComparable, match=r"are needed$"):
        compare("worked", "bad")


def test_unlike_runs_are_compared_where_that_is_asked_for(compare):
    exit_code, out = compare("base*", "other", "--anyway")
    assert exit_code == 0
    assert "Not comparable: network cifar10-cnn, not mnist-mlp-small" in out
    assert "Not comparable: batch size 100, not 32" in out


def test_a_run_that_goes_on_is_compared_and_named(compare, log_dir):
    from fakes.screens import GrowingLog

    log = GrowingLog(log_dir, recorded_session("training", session_id="running"))
    try:
        exit_code, out = compare("base*", "running")
    finally:
        log.drop_lock()
    assert exit_code == 0
    assert "running is still running: its figures are those so far" in out


def test_what_a_log_says_reaches_no_terminal_as_it_is(compare, log_dir):
    header, *rest = recorded_session(foreign=True, session_id="foreign")
    header.options["\x1b[31moption"] = "[b]\x1b]0;title\x07 value\r\n"
    write_log(log_dir, [header, *rest], "foreign")
    _, out = compare("base*", "foreign")
    assert not {character for character in out if character < " "} - {"\n"}
    assert "[b] value" in out
