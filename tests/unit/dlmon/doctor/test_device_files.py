"""What is read of /dev and of containers, from a root of files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dlmon.doctor.device_files import DeviceFiles, read_device_files


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
