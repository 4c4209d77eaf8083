from pathlib import Path

import pytest

from dlmon.system.this_host import is_container, is_wsl


def make(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()


def test_a_container_is_known_by_its_namespace(tmp_path: Path):
    (tmp_path / "proc/self/ns").mkdir(parents=True)
    link = tmp_path / "proc/self/ns/pid"
    link.symlink_to("pid:[4026531836]")
    assert not is_container(tmp_path, {})
    link.unlink()
    link.symlink_to("pid:[4026532201]")
    assert is_container(tmp_path, {})


def wsl(root: Path) -> None:
    make(root, release := "proc/sys/kernel/osrelease")
    (root / release).write_text("5.15.90.1-microsoft-standard-WSL2\n")


@pytest.mark.parametrize("systemd", [False, True])
def test_wsl_is_no_container_though_it_has_a_namespace_of_its_own(tmp_path: Path, systemd):
    assert not is_wsl(tmp_path)
    wsl(tmp_path)
    assert is_wsl(tmp_path)
    (tmp_path / "proc/self/ns").mkdir(parents=True)
    (tmp_path / "proc/self/ns/pid").symlink_to("pid:[4026532201]")
    make(tmp_path, *(["run/systemd/container"] if systemd else []))
    assert not is_container(tmp_path, {})
    make(tmp_path, ".dockerenv")
    assert is_container(tmp_path, {})


@pytest.mark.parametrize("sign", [".dockerenv", "run/.containerenv", "run/systemd/container"])
def test_a_container_is_known_by_its_files_or_its_environment(tmp_path: Path, sign):
    assert not is_container(tmp_path, {})
    assert is_container(tmp_path, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"})
    make(tmp_path, sign)
    assert is_container(tmp_path, {})
