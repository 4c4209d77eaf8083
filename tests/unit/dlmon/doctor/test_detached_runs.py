"""What would end a detached run, from a root of files and an environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from dlmon.doctor.detached_runs import what_ends_runs
from dlmon.doctor.finding import Finding

SESSION = "/user.slice/user-1000.slice/session-3.scope"
MANAGER = "/user.slice/user-1000.slice/user@1000.service/app.slice/vte-spawn-1.scope"


def write(root: Path, name: str, text: str = "") -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)


def systemd(root: Path, group: str = SESSION) -> None:
    """Let systemd run there, and this process be in a control group."""
    (root / "run/systemd/system").mkdir(parents=True)
    write(root, "proc/self/cgroup", f"0::{group}\n")


def logind(root: Path, name: str, *lines: str) -> None:
    write(root, name, "\n".join(["[Login]", *lines, ""]))


def reported(
    root: Path, environment: dict[str, str] | None = None, user: str = "ada"
) -> list[Finding]:
    return list(what_ends_runs(root, environment or {}, user))


def ends(root: Path, user: str = "ada") -> str:
    (finding,) = reported(root, user=user)
    return "" if finding.state == "ok" else finding.text


def test_where_nothing_ends_it_one_line_says_so(tmp_path: Path):
    (finding,) = reported(tmp_path)
    assert (finding.state, finding.next_step) == ("ok", None)
    assert "continues" in finding.text


# ---- the login manager ----


def test_kill_user_processes_ends_it_at_logout(tmp_path: Path):
    systemd(tmp_path)
    logind(tmp_path, "etc/systemd/logind.conf", "KillUserProcesses=yes")
    (finding,) = reported(tmp_path)
    assert finding.state == "warning"
    assert finding.text == (
        "Logging out ends a detached run: KillUserProcesses of logind.conf is yes."
    )
    assert "loginctl enable-linger" in finding.next_step
    assert "systemd-run --user --scope" in finding.next_step


def test_lingering_does_not_keep_what_is_in_a_session(tmp_path: Path):
    systemd(tmp_path)
    logind(tmp_path, "etc/systemd/logind.conf", "KillUserProcesses=yes")
    write(tmp_path, "var/lib/systemd/linger/ada")
    assert ends(tmp_path)


@pytest.mark.parametrize("value", ["no", "false", "0", "off"])
def test_without_it_nothing_ends_at_logout(tmp_path: Path, value):
    systemd(tmp_path)
    logind(tmp_path, "etc/systemd/logind.conf", f"KillUserProcesses={value}")
    assert not ends(tmp_path)


@pytest.mark.parametrize(("default", "it_ends"), [("no", False), ("yes", True)])
def test_the_distributions_default_stands_in_a_comment(tmp_path: Path, default, it_ends):
    systemd(tmp_path)
    logind(tmp_path, "usr/lib/systemd/logind.conf", f"#KillUserProcesses={default}")
    assert bool(ends(tmp_path)) is it_ends


def test_an_unknown_default_is_reported(tmp_path: Path):
    systemd(tmp_path)
    assert "may end" in ends(tmp_path)


def test_the_first_file_found_and_the_last_drop_in_decide(tmp_path: Path):
    systemd(tmp_path)
    logind(tmp_path, "usr/lib/systemd/logind.conf", "KillUserProcesses=no")
    logind(tmp_path, "etc/systemd/logind.conf", "KillUserProcesses=yes")
    assert ends(tmp_path)
    logind(tmp_path, "usr/lib/systemd/logind.conf.d/50-a.conf", "KillUserProcesses=no")
    assert not ends(tmp_path)
    logind(tmp_path, "run/systemd/logind.conf.d/60-b.conf", "KillUserProcesses=yes")
    assert ends(tmp_path)
    write(tmp_path, "etc/systemd/logind.conf.d/60-b.conf")  # masks the other of its name
    assert not ends(tmp_path)


def test_root_is_left_alone(tmp_path: Path):
    systemd(tmp_path)
    logind(tmp_path, "etc/systemd/logind.conf", "KillUserProcesses=yes")
    assert not ends(tmp_path, user="root")


def test_a_desktops_terminal_ends_with_the_last_logout_unless_the_user_lingers(tmp_path: Path):
    systemd(tmp_path, MANAGER)
    logind(tmp_path, "etc/systemd/logind.conf", "KillUserProcesses=no")
    (finding,) = reported(tmp_path)
    assert "user manager" in finding.text
    assert finding.next_step == "loginctl enable-linger"
    write(tmp_path, "var/lib/systemd/linger/ada")
    assert not ends(tmp_path)


def test_the_old_control_groups_are_read_too(tmp_path: Path):
    systemd(tmp_path)
    write(tmp_path, "proc/self/cgroup", f"5:devices:/\n1:name=systemd:{MANAGER}\n0::/\n")
    assert "user manager" in ends(tmp_path)


def test_a_services_process_does_not_end_at_logout(tmp_path: Path):
    systemd(tmp_path, "/system.slice/jupyter.service")
    logind(tmp_path, "etc/systemd/logind.conf", "KillUserProcesses=yes")
    assert not ends(tmp_path)


def test_without_systemd_its_files_mean_nothing(tmp_path: Path):
    logind(tmp_path, "etc/systemd/logind.conf", "KillUserProcesses=yes")
    assert not ends(tmp_path)


# ---- batch systems, containers, Windows ----


def test_a_slurm_job_ends_it(tmp_path: Path):
    (finding,) = reported(tmp_path, {"SLURM_JOB_ID": "4711"})
    assert finding.text == "This is Slurm job 4711: a detached run ends with the job."
    assert "without --detach" in finding.next_step


@pytest.mark.parametrize(
    ("environment", "name"),
    [
        ({"PBS_JOBID": "9.host"}, "PBS job 9.host"),
        ({"LSB_JOBID": "9"}, "LSF job 9"),
        ({"JOB_ID": "9", "SGE_O_WORKDIR": "/home/ada"}, "Grid Engine job 9"),
    ],
)
def test_other_batch_systems_end_it_too(tmp_path: Path, environment, name):
    (finding,) = reported(tmp_path, environment)
    assert name in finding.text


def test_a_job_id_of_something_else_is_no_batch_job(tmp_path: Path):
    assert reported(tmp_path, {"JOB_ID": "9"})[0].state == "ok"


@pytest.mark.parametrize(
    "group",
    ["/system.slice/slurmstepd.scope/job_4711/step_extern/user", "/slurm/uid_7/job_4711/step_0"],
)
def test_by_ssh_in_a_job_the_control_group_decides(tmp_path: Path, group):
    systemd(tmp_path, group)
    (finding,) = reported(tmp_path)
    assert "Slurm job 4711" in finding.text


def test_in_a_job_the_login_manager_has_no_say(tmp_path: Path):
    systemd(tmp_path)
    logind(tmp_path, "etc/systemd/logind.conf", "KillUserProcesses=yes")
    (finding,) = reported(tmp_path, {"SLURM_JOB_ID": "4711"})
    assert "Slurm" in finding.text


def test_a_container_ends_it(tmp_path: Path):
    write(tmp_path, ".dockerenv")
    (finding,) = reported(tmp_path)
    assert finding.state == "warning"
    assert "ends when the container does" in finding.text
    assert "--log-dir" in finding.next_step


def test_a_container_in_a_job_is_ended_by_both(tmp_path: Path):
    write(tmp_path, ".dockerenv")
    assert len(reported(tmp_path, {"SLURM_JOB_ID": "4711"})) == 2


def test_windows_ends_it_once_and_not_as_a_container(tmp_path: Path):
    write(tmp_path, "proc/sys/kernel/osrelease", "5.15-microsoft-standard-WSL2")
    (tmp_path / "proc/self/ns").mkdir(parents=True)
    (tmp_path / "proc/self/ns/pid").symlink_to("pid:[4026532201]")
    (finding,) = reported(tmp_path)
    assert "WSL" in finding.text


def test_a_user_without_a_name_is_judged_too(tmp_path: Path, no_home):
    systemd(tmp_path, MANAGER)
    assert [finding.state for finding in what_ends_runs(tmp_path, {})] == ["warning"]
