"""`dlmon report` as a person runs it: what it writes, where, and what it leaves alone."""

from dataclasses import replace

import pytest
from fakes.hostile_log import hostile_log
from fakes.recorded import recorded_session, write_log

FIRST, SECOND = "20261120-145600-cifar10-cnn-7f3a", "20261121-145600-cifar10-cnn-7f3b"


@pytest.fixture
def recorded(log_dir):
    """Return the directory of two sessions."""
    write_log(log_dir, recorded_session())
    write_log(log_dir, recorded_session(session_id=SECOND, begin_wall=1_795_272_960.0))
    return log_dir


@pytest.fixture
def report(refused, recorded):
    """Return a function that runs `dlmon report`, and returns its exit code and what it printed."""

    def run(*arguments, **environment):
        done = refused("report", *arguments, "--log-dir", str(recorded), **environment)
        return done.returncode, done.stdout, done.stderr

    return run


def test_a_report_goes_to_stdout_as_markdown(report):
    code, printed, errors = report("last")
    assert (code, errors) == (0, "")
    assert printed.startswith(f"## {SECOND}\n")
    assert "| seconds per epoch | 9.16 s" in printed


def test_the_name_of_the_file_says_what_is_written(report, tmp_path):
    for name, begins in (
        ("run.html", "<!doctype html>"),
        ("run.md", f"## {FIRST}"),
        ("run.csv", "session,"),
        ("run.json", "{"),
        ("run", "## "),
    ):
        path = tmp_path / name
        assert report(FIRST, "-o", str(path)) == (0, f"saved {path}\n", "")
        assert path.read_text().startswith(begins)


def test_charts_are_written_beside_the_report(report, tmp_path):
    folder = tmp_path / "charts"
    code, printed, _ = report("last", "--charts", str(folder))
    assert code == 0
    assert printed.startswith("## ")
    names = {path.name for path in folder.iterdir()}
    expected = (
        "throughput",
        "loss",
        "metric-2",
        "cpu",
        "gpu-utilisation",
        "power",
        "memory-in-use",
    )
    assert names == {f"{name}.svg" for name in expected}


def test_a_hostile_log_names_no_file(report, recorded, tmp_path):
    hostile_log(recorded, "../../escaped", every=True)
    folder = tmp_path / "out" / "charts"
    code, _, _ = report("hostile", "--charts", str(folder), "-o", str(tmp_path / "out.html"))
    assert code == 0
    assert not list(tmp_path.rglob("*escaped*"))
    assert {path.parent for path in tmp_path.rglob("*.svg")} == {folder}


def test_a_sweep_is_reported(dlmon):
    sweep = "tests/data/0.1.0/sessions/20261122-094011-sweep-mnist-mlp-small-fcd4/sweep.jsonl"
    done = dlmon("report", sweep)
    assert (done.returncode, done.stderr) == (0, "")
    assert "| 512 | out of memory |" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("2026112",), "could be any of 2 sessions"),
        (("last", "--format", "xml"), "invalid value for '--format'"),
        (("last", "-o", "run.pdf"), 'no report is known as ".pdf": end -o in .md, .html'),
        (
            ("last", "--table", "epochs", "--format", "md"),
            "--table is for --format csv, json or parquet, not md",
        ),
        (("last", "--charts", "/proc/charts"), "/proc/charts can't be made"),
    ],
)
def test_what_a_person_can_do_wrong_is_one_sentence(report, arguments, says):
    code, printed, errors = report(*arguments)
    assert (code, printed) == (2, "")
    assert errors.startswith("dlmon: ")
    assert errors.count("\n") == 1
    assert says in errors


def test_a_report_is_written_over_no_log_and_through_no_link(report, recorded, tmp_path):
    log = recorded / FIRST / "session.jsonl"
    before = log.read_bytes()
    link = tmp_path / "run.html"
    link.symlink_to(log)
    for path, says in ((log, "is the log itself"), (link, "is a link")):
        code, _, errors = report(FIRST, "-o", str(path))
        assert code == 2
        assert says in errors
    assert log.read_bytes() == before
    assert link.is_symlink()


def test_a_session_becomes_a_reference_figure_of_ones_own(dlmon, recorded, tmp_path):
    header, *records, result = recorded_session(session_id="own")
    options = {**result.options, "batch_size": 100, "backend": "tensorflow"}
    write_log(recorded, [header, *records, replace(result, options=options)])
    figures = tmp_path / "published.csv"
    environment = {"DLMON_PUBLISHED": str(figures)}
    arguments = ("report", "own", "--log-dir", str(recorded))
    done = dlmon(*arguments, "--as-published", "My box", environment=environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert str(figures) in done.stdout
    assert "My box,gpu,TensorFlow 2.21.0,2026" in figures.read_text()
    assert "My box" in dlmon(*arguments, environment=environment).stdout
