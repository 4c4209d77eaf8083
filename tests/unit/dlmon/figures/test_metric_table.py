"""Each run has its metrics, or says that it has none."""

from dlmon.figures.metric_table import metric_rows, table_lines
from dlmon.metric_files.find import find_runs


def test_a_file_without_a_number_says_so(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "metrics.csv").write_text("step,loss\n")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "metrics.csv").write_text("step,loss\n1,2\n2,nan\n")
    rows = metric_rows([], sorted(find_runs(tmp_path), key=lambda run: run.name))
    assert list(table_lines(rows)) == [
        "empty",
        "  no metrics",
        "run",
        "  loss  last 2.0000 at step 2, 2.0000 to 2.0000, 2 values, 1 × NaN or infinite",
    ]
    assert rows[0] == {"run": "empty", "problem": "no metrics"}
