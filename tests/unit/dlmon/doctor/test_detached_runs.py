"""What would end a detached run, from a root of files and an environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from dlmon.doctor.detached_runs import what_ends_runs
from dlmon.doctor.finding import Finding

SESSION = "/user.slice/user-1000.slice/session-3.scope"
MANAGER = "/user.slice/user-1000.slice/user@1000.service/app.slice/vte-spawn-1.scope"
KILL = "[Login]\nKillUserProcesses=yes\n"


def write(root: Path, name: str, text: str = "") -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)


def systemd(root: Path, group: str = SESSION, conf: str = "") -> None:
    """Let systemd run there, and this process be in a control group."""
    (root / "run/systemd/system").mkdir(parents=True)
    write(root, "proc/self/cgroup", f"5:devices:/\n1:name=systemd:{group}\n0::/\n")
    write(root, "etc/systemd/logind.conf", conf)


def reported(
    root: Path, environment: dict[str, str] | None = None, user: str = "ada"
) -> list[Finding]:
    return list(what_ends_runs(root, environment or {}, user))


def test_where_nothing_ends_it_one_line_says_so(tmp_path: Path):
    (finding,) = reported(tmp_path)
    assert (finding.state, finding.next_step) == ("ok", None)
    assert "continues" in finding.text


@pytest.mark.parametrize(
    ("group", "conf", "user", "text"),
    [
        (SESSION, KILL, "ada", "KillUserProcesses"),
        (SESSION, KILL, "root", None),
        (SESSION, "[Login]\nKillUserProcesses=no\n", "ada", None),
        (SESSION, "[Login]\n#KillUserProcesses=yes\n", "ada", None),
        (MANAGER, "", "ada", "user manager"),
        (MANAGER, "", "bo", None),  # lingers
        ("/system.slice/jupyter.service", KILL, "ada", None),
    ],
)
def test_what_the_login_manager_ends(tmp_path: Path, group, conf, user, text):
    systemd(tmp_path, group, conf)
    write(tmp_path, "var/lib/systemd/linger/bo")
    (finding,) = reported(tmp_path, user=user)
    assert finding.state == ("ok" if text is None else "warning")
    assert (text or "continues") in finding.text
    assert text is None or "loginctl enable-linger" in finding.next_step


def test_the_last_drop_in_decides(tmp_path: Path):
    systemd(tmp_path, conf=KILL)
    write(tmp_path, "etc/systemd/logind.conf.d/50-a.conf", "[Login]\nKillUserProcesses=no\n")
    assert reported(tmp_path)[0].state == "ok"


@pytest.mark.parametrize(
    ("environment", "name"),
    [
        ({"SLURM_JOB_ID": "4711"}, "Slurm job 4711"),
        ({"PBS_JOBID": "9.host"}, "PBS job 9.host"),
        ({"LSB_JOBID": "9"}, "LSF job 9"),
        ({"JOB_ID": "9", "SGE_O_WORKDIR": "/home/ada"}, "Grid Engine job 9"),
    ],
)
def test_a_batch_job_ends_it_and_the_login_manager_has_no_say(tmp_path: Path, environment, name):
    systemd(tmp_path, conf=KILL)
    (finding,) = reported(tmp_path, environment)
    assert finding.text == f"This is {name}: a detached run ends with the job."
    assert "without --detach" in finding.next_step


def test_a_job_id_of_something_else_is_no_batch_job(tmp_path: Path):
    assert reported(tmp_path, {"JOB_ID": "9"})[0].state == "ok"


def test_a_container_ends_it_and_in_a_job_both_do(tmp_path: Path):
    write(tmp_path, ".dockerenv")
    (finding,) = reported(tmp_path)
    assert "ends when the container does" in finding.text
    assert "--log-dir" in finding.next_step
    assert len(reported(tmp_path, {"SLURM_JOB_ID": "4711"})) == 2


def test_windows_ends_it_once_and_not_as_a_container(tmp_path: Path):
    write(tmp_path, "proc/sys/kernel/osrelease", "5.15-microsoft-standard-WSL2")
    (tmp_path / "proc/self/ns").mkdir(parents=True)
    (tmp_path / "proc/self/ns/pid").symlink_to("pid:[4026532201]")
    (finding,) = reported(tmp_path)
    assert "WSL" in finding.text
