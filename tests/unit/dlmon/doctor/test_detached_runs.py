"""What would end a detached run, from a root of files and an environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from dlmon.doctor.detached_runs import what_ends_runs

SESSION = "/user.slice/user-1000.slice/session-3.scope"
MANAGER = "/user.slice/user-1000.slice/user@1000.service/app.slice/vte-spawn-1.scope"


@pytest.mark.parametrize(
    ("group", "files", "environment", "texts"),
    [
        (SESSION, (), {}, ["continues when you close the terminal"]),
        (SESSION, (), {"JOB_ID": "9"}, ["continues"]),
        ("/system.slice/jupyter.service", (), {}, ["continues"]),
        (MANAGER, (), {}, ["once you have logged out everywhere"]),
        (MANAGER, ("var/lib/systemd/linger/ada",), {}, ["continues"]),
        (MANAGER, (), {"SLURM_JOB_ID": "4711"}, ["with this Slurm job 4711"]),
        (SESSION, (), {"PBS_JOBID": "9.host"}, ["PBS job 9.host"]),
        (SESSION, (), {"JOB_ID": "9", "SGE_O_WORKDIR": "/home/ada"}, ["Grid Engine job 9"]),
        (SESSION, (".dockerenv",), {}, ["when this container does"]),
        (SESSION, (".dockerenv",), {"SLURM_JOB_ID": "1"}, ["Slurm job 1", "container"]),
        (SESSION, ("proc/sys/kernel/osrelease",), {}, ["WSL"]),
    ],
)
def test_what_ends_a_detached_run(tmp_path: Path, group, files, environment, texts):
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text(f"5:devices:/\n0::{group}\n")
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("5.15-microsoft-standard-WSL2")
    findings = list(what_ends_runs(tmp_path, environment, "ada"))
    assert len(findings) == len(texts)
    for finding, text in zip(findings, texts, strict=True):
        assert text in finding.text
        assert finding.state == ("ok" if finding.next_step is None else "warning")
        assert (finding.state == "ok") == ("continues" in text)
