"""What the pages on logs and reports give for pandas, run as it stands there."""

import re
from pathlib import Path

import pytest
from fakes.recorded import recorded_session, write_log

from dlmon.records import Epoch
from dlmon.render.tidy import csv_lines, rows_of

DOCS = Path(__file__).parents[2] / "docs"
RECORDS = recorded_session(epochs=3, gpus=1)
EPOCHS = [record for record in RECORDS if isinstance(record, Epoch)]
SECONDS = [(epoch.end - epoch.begin) / 1e9 for epoch in EPOCHS]


def example(page, language):
    """Return the only example of a page in a language."""
    (found,) = re.findall(rf"^```{language}\n(.*?)^```", (DOCS / page).read_text(), re.M | re.S)
    return found


@pytest.fixture(autouse=True)
def files(tmp_path, monkeypatch):
    """Lay a log and the tables of it where the examples look for them."""
    log = write_log(tmp_path, RECORDS)
    monkeypatch.chdir(log.parent)
    for table in ("batches", "machine"):
        Path(f"{table}.csv").write_text("".join(csv_lines(rows_of([log], table))))


def test_pandas_reads_a_log():
    names = {}
    exec(example("logs.md", "python"), names)
    assert list(names["seconds"]) == pytest.approx(SECONDS)


def test_pandas_reads_a_table_of_the_machine():
    names = {}
    exec(example("reports.md", "python"), names)
    assert 50 < names["gpu"]["utilization_pct"].mean() <= 100
