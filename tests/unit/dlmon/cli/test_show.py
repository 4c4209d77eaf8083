"""A session that is started, and left to itself."""

from dlmon.cli.show import View, start_in_slurm
from dlmon.options.settings import Settings
from dlmon.protocol.job import Job
from dlmon.slurm import submit_session as start


def test_what_config_toml_asks_of_slurm_comes_before_what_is_typed(tmp_path, monkeypatch, capsys):
    asked = []

    def submit(job, options, text):
        asked.append((options.words, options.value_of("--partition"), text))
        return tmp_path / "id" / "session.jsonl"

    monkeypatch.setattr(start, "submit_session", submit)
    job = Job("train.py", ("python",), {}, str(tmp_path), script=True, outlives_viewer=True)
    start_in_slurm(job, View(Settings(slurm="-p gpu -A lab")), "-p cpu")
    start_in_slurm(job, View(Settings(slurm="-p gpu")), "")
    assert asked == [
        (("-p", "gpu", "-A", "lab", "-p", "cpu"), "cpu", "-p gpu -A lab -p cpu"),
        (("-p", "gpu"), "gpu", "-p gpu"),
    ]
    assert "id is in Slurm's queue" in capsys.readouterr().out
