"""Files of metrics on another machine: copied as they are there, whatever a host sends."""

import asyncio
import base64

import pytest

from dlmon.log.folder import LogError
from dlmon.remote import agent, host_requests
from dlmon.remote.ssh import HostRefusal

EVENTS = bytes(range(256)) * 40
FILES = {
    "one/events.out.tfevents.1.box": EVENTS,
    "two/metrics.csv": b"step,loss\n1,0.5\n",
    "mlruns/0/run/meta.yaml": b"run_name: base\n",
    "mlruns/0/run/metrics/val/loss": b"1 0.5 1\n",
}
OTHERS = ("one/model.pt", "two/train.log")


class HostLink:
    """A link to an agent in this process; `replies` stand in place of its answers."""

    host = "box"

    def __init__(self, replies=None):
        self._replies = replies

    async def ask(self, ask, **fields):
        for answer in self._replies or ():
            yield answer
        if self._replies is None:
            async for answer in agent._metric_files(**fields):
                yield answer


@pytest.fixture
def there(tmp_path):
    folder = tmp_path / "there" / "runs"
    for name, content in {**FILES, **dict.fromkeys(OTHERS, b"x")}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


@pytest.fixture
def copy(tmp_path):
    here = tmp_path / "here"
    here.mkdir()

    def run(link, path):
        return asyncio.run(host_requests.copy_metric_files(link, str(path), here))

    return run


def contents(folder):
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def test_of_a_folder_what_holds_metrics_is_copied_in_pieces_and_nothing_else(
    copy, there, monkeypatch
):
    monkeypatch.setattr(agent, "TRACE_CHUNK_BYTES", 4_000)
    copied = copy(HostLink(), there)
    assert copied.name == "runs"
    assert contents(copied) == FILES


def test_a_file_is_copied_whatever_its_name(copy, there):
    copied = copy(HostLink(), there / "two/train.log")
    assert contents(copied) == {"train.log": b"x"}


def test_a_path_that_is_not_there_or_holds_no_metrics_is_refused(copy, there):
    with pytest.raises(HostRefusal, match=r"there is no .*/nowhere"):
        copy(HostLink(), there / "nowhere")
    (there / "empty").mkdir()
    with pytest.raises(HostRefusal, match=r"box: .*/empty has no metrics that dlmon reads"):
        copy(HostLink(), there / "empty")


@pytest.mark.parametrize("file", ["/etc/cron.d/x", "../x", "a/../../x", "", None, "."])
def test_a_host_writes_nowhere_but_into_the_copy(copy, tmp_path, file):
    before = contents(tmp_path)
    with pytest.raises(HostRefusal, match="box sent no files that can be copied"):
        copy(HostLink([{"file": file, "text": base64.b64encode(b"x").decode()}]), "runs")
    assert contents(tmp_path) == before


@pytest.mark.parametrize("text", ["not base64!", "", None])
def test_what_is_no_content_is_refused(copy, text):
    with pytest.raises(HostRefusal, match="sent no files"):
        copy(HostLink([{"file": "metrics.csv", "text": text}]), "runs")


def test_more_than_is_copied_is_refused(copy, there, monkeypatch):
    monkeypatch.setattr(host_requests, "MOST_METRIC_BYTES", 10_000)
    with pytest.raises(LogError, match="of box has more metrics than"):
        copy(HostLink(), there)
