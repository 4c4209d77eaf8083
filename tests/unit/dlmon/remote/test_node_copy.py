"""Whether the node of a job sees the same folder as the machine that submitted it."""

import pytest
from fakes.submitted import Queue, submit

from dlmon.remote import node_copy
from dlmon.slurm.queue import JobState


@pytest.fixture
def asked(monkeypatch):
    queue = Queue(JobState.RUNNING, node_list="n[1-2]")
    monkeypatch.setattr(node_copy, "read_job", queue)
    monkeypatch.setattr(node_copy, "host_names", lambda listed: ["n1", "n2"])
    return []


@pytest.mark.parametrize(("printed", "node"), [(b"", None), (b"unseen\n", "n1")])
def test_only_what_its_node_does_not_see_is_copied(tmp_path, monkeypatch, asked, printed, node):
    monkeypatch.setattr(node_copy, "run_slurm", lambda words: asked.append(words) or printed)
    log = submit(tmp_path)
    assert node_copy.node_with_own_disk("12", log) == node
    again = tmp_path / f"{log.parent.name}-r1" / "session.jsonl"
    assert node_copy.node_with_own_disk("12", again) == node
    assert {words[-1] for words in asked} == {str(log.with_name("job.sh"))}
    assert "--nodelist=n1" in asked[0]


def test_of_what_is_no_job_of_dlmon_s_nothing_is_copied(tmp_path, asked):
    assert node_copy.node_with_own_disk("12", tmp_path / "id" / "session.jsonl") is None
