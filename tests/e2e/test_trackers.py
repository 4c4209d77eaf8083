"""A session is sent to a tracker while it runs, and goes on whatever the tracker does."""

from dlmon.metric_files.file_session import FileSource
from dlmon.metric_files.find import find_runs


def metrics_in(folder):
    [found] = find_runs(folder)
    source = FileSource(found)
    while source.read_share is not None:
        source.poll(1)
    return source.session.points.metrics


def test_a_run_is_sent_and_its_figures_with_it(start, tmp_path):
    folder = tmp_path / "events"
    session = start(epochs=2, to=f"tensorboard:{folder}")
    result = session.wait_for_end()
    assert result.status == "completed"
    metrics = metrics_in(folder)
    assert list(metrics["dlmon/final/batches"].values) == [result.batches]
    assert metrics["dlmon/samples_per_second"].steps[-1] == result.batches
    assert not [text for text in session.notices() if "tensorboard" in text]


def test_a_tracker_that_can_not_be_reached_is_a_notice_and_export_sends_it_later(
    start, dlmon, tmp_path
):
    session = start(epochs=2, to="tensorboard:/dev/null/folder")
    result = session.wait_for_end()
    assert result.status == "completed"
    notices = session.notices()
    assert any("nothing is sent" in text and "Not a directory" in text for text in notices)
    assert any(f" {session.header.id} --to tensorboard:" in text for text in notices)
    folder = tmp_path / "events"
    done = dlmon("export", str(session.path), "--to", f"tensorboard:{folder}")
    assert (done.returncode, done.stderr) == (0, "")
    assert list(metrics_in(folder)["dlmon/final/batches"].values) == [result.batches]


def test_what_can_not_be_sent_or_read_is_one_sentence(refused, tmp_path):
    (tmp_path / "empty").mkdir()
    for arguments, words in (
        (["export", "last", "--to", "nowhere"], 'there is no tracker "nowhere"'),
        (["export", "last"], "say where to"),
        (["exec", "--to", "mlflow:http://me:s3cret@lab", "--", "true"], "MLFLOW_TRACKING_URI"),
        (["metrics"], "say what to show"),
        (["metrics", str(tmp_path / "empty")], "has no metrics that dlmon reads"),
    ):
        ended = refused(*arguments)
        assert words in ended.stderr
        assert "s3cret" not in ended.stderr
        assert ended.stderr.count("\n") == 1
