import pytest

from dlmon.doctor import slurm
from dlmon.doctor.slurm import slurm_finding
from dlmon.slurm.commands import SlurmError


@pytest.fixture
def answers(monkeypatch):
    """Return what Slurm's commands print here, or why they fail, by their names."""
    said = {"sbatch": b"slurm-wlm 22.05.8\n", "sacct": b""}

    def run(words, timeout_s):
        if isinstance(said[words[0]], Exception):
            raise said[words[0]]
        return said[words[0]]

    monkeypatch.setattr(slurm, "has_slurm", lambda: True)
    monkeypatch.setattr(slurm, "run_slurm", run)
    monkeypatch.setattr(slurm, "partitions", lambda: ["gpu", "cpu"])
    return said


def test_most_machines_have_none(monkeypatch):
    monkeypatch.setattr(slurm, "has_slurm", lambda: False)
    assert slurm_finding() is None


def test_what_there_is_of_it(answers):
    found = slurm_finding()
    assert (found.state, found.text) == (
        "ok",
        "Slurm 22.05.8, partitions gpu, cpu; it keeps accounts.",
    )


def test_without_accounts_that_is_said(answers):
    answers["sacct"] = SlurmError("Slurm accounting storage is disabled")
    assert "it keeps no accounts" in slurm_finding().text


def test_many_partitions_are_counted(answers, monkeypatch):
    monkeypatch.setattr(slurm, "partitions", lambda: [f"p{n}" for n in range(20)])
    assert "p5 and 14 more" in slurm_finding().text


def test_a_controller_that_does_not_answer_is_a_warning(answers, monkeypatch):
    def refuse():
        raise SlurmError("Slurm did not answer sinfo in 5 s")

    monkeypatch.setattr(slurm, "partitions", refuse)
    found = slurm_finding()
    assert (found.state, found.text) == (
        "warning",
        "Slurm 22.05.8: Slurm did not answer sinfo in 5 s.",
    )


@pytest.mark.parametrize("version", [b"slurm 19.05.1\n", b"", b"\x1b[31mslurm x\n"])
def test_a_version_that_is_too_old_or_none_is_a_warning(answers, version):
    answers["sbatch"] = version
    assert slurm_finding().state == "warning"
