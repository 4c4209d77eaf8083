"""What is read of /dev and of containers, from a root of files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dlmon.doctor.device_files import DeviceFiles, is_container, is_wsl, read_device_files


def make(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()


def test_cards_and_the_memory_file_are_found(tmp_path: Path):
    make(tmp_path, *(f"dev/nvidia{end}" for end in ("0", "1", "ctl", "-uvm", "-uvm-tools")))
    make(tmp_path, "dev/null")
    assert read_device_files(tmp_path, {}) == DeviceFiles(cards=2, uvm=True)
    assert read_device_files(tmp_path / "nowhere", {}) == DeviceFiles()


def test_files_that_may_not_be_opened_are_named(tmp_path: Path, monkeypatch):
    make(tmp_path, "dev/nvidia0", "dev/nvidia-uvm", "dev/nvidia-caps-of-mig")
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path).name == "nvidia0")
    assert read_device_files(tmp_path, {}).denied == ("/dev/nvidia-uvm",)


@pytest.mark.parametrize("other_way", ["dev/dxg", "dev/nvmap"])
def test_other_ways_to_a_gpu_need_no_such_files(tmp_path: Path, other_way):
    make(tmp_path, other_way)
    assert not read_device_files(tmp_path, {}).needed


def test_parts_of_mig_are_counted(tmp_path: Path):
    parts = tmp_path / "proc/driver/nvidia/capabilities/gpu0/mig"
    make(parts, "config", "gi1/access", "gi1/ci0/access", "gi2/ci0/access")
    assert read_device_files(tmp_path, {}).mig_parts == 2


@pytest.mark.parametrize("sign", [".dockerenv", "run/.containerenv", "run/systemd/container"])
def test_a_container_is_known_by_its_files(tmp_path: Path, sign):
    assert not is_container(tmp_path, {})
    make(tmp_path, sign)
    assert is_container(tmp_path, {})


def test_a_container_is_known_by_its_namespace(tmp_path: Path):
    (tmp_path / "proc/self/ns").mkdir(parents=True)
    link = tmp_path / "proc/self/ns/pid"
    link.symlink_to("pid:[4026531836]")
    assert not is_container(tmp_path, {})
    link.unlink()
    link.symlink_to("pid:[4026532201]")
    assert is_container(tmp_path, {})


def test_a_pod_is_a_container(tmp_path: Path):
    assert is_container(tmp_path, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"})


def test_wsl_is_known_by_its_kernel(tmp_path: Path):
    assert not is_wsl(tmp_path)
    make(tmp_path, release := "proc/sys/kernel/osrelease")
    (tmp_path / release).write_text("5.15.90.1-microsoft-standard-WSL2\n")
    assert is_wsl(tmp_path)


def wsl(root: Path) -> None:
    make(root, release := "proc/sys/kernel/osrelease")
    (root / release).write_text("5.15.90.1-microsoft-standard-WSL2\n")


@pytest.mark.parametrize("systemd", [False, True])
def test_wsl_is_no_container_though_it_has_a_namespace_of_its_own(tmp_path: Path, systemd):
    wsl(tmp_path)
    (tmp_path / "proc/self/ns").mkdir(parents=True)
    (tmp_path / "proc/self/ns/pid").symlink_to("pid:[4026532201]")
    make(tmp_path, *(["run/systemd/container"] if systemd else []))
    assert not is_container(tmp_path, {})
    assert read_device_files(tmp_path, {}).in_wsl
    make(tmp_path, ".dockerenv")
    assert is_container(tmp_path, {})
