"""Each way to install dlmon gives a program that watches a machine and a script."""

from __future__ import annotations

import shutil
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SID = ROOT / "build" / "sid"
SCRIPT = """
import sys, time
print("run by", sys.executable)
for _ in range(10):
    time.sleep(0.05)
"""


def check(run, *dlmon, python=sys.executable):
    """Check a program: its version, a second of watching, a script, and the recorded session."""
    assert run(*dlmon, "--version").startswith("dlmon ")
    assert "CPU" in run(*dlmon, "watch", "--record", "--for", "1s", "--plain")
    printed = run(*dlmon, "exec", "--plain", "--", python, "-c", SCRIPT)
    assert f"run by {python}" in printed
    assert "completed" in run(*dlmon, "sessions")


@pytest.fixture
def venv(run):
    """A new environment without any package."""
    run(sys.executable, "-m", "venv", run.home / "venv")
    return run.home / "venv" / "bin"


def test_pip_installs_the_wheel(run, built, venv):
    run(venv / "pip", "install", "--quiet", built(".whl"))
    check(run, venv / "dlmon")


def test_pip_builds_and_installs_the_sdist(run, built, venv):
    run(venv / "pip", "install", "--quiet", built(".tar.gz"))
    check(run, venv / "dlmon")


def test_uv_installs_it_as_a_tool(run, built):
    run("uv", "tool", "install", "--quiet", "--python", sys.executable, built(".whl"))
    check(run, run.home / ".local" / "bin" / "dlmon")


def test_pipx_installs_it(run, built):
    run("pipx", "install", "--quiet", "--python", sys.executable, built(".whl"))
    check(run, run.home / ".local" / "bin" / "dlmon")


def test_python_is_that_of_the_caller_under_uvx(run, built, venv):
    """`uvx` puts its own environment first in PATH."""
    path = f"{venv}:{Path(shutil.which('uvx')).parent}:/usr/bin:/bin"
    uvx = ("uvx", "--quiet", "--python", sys.executable, "--from", built(".whl"), "dlmon")
    printed = run(*uvx, "exec", "--plain", "--", "python", "-c", SCRIPT, PATH=path)
    assert f"run by {venv / 'python'}" in printed


def test_one_file_runs_without_pip(run, built):
    check(run, sys.executable, built(".pyz"))


@pytest.mark.skipif(not SID.is_dir(), reason="make python3.14 makes a folder with Python 3.14")
def test_one_file_runs_on_python_3_14(run, built):
    shutil.copy(built(".pyz"), SID / "tmp" / "dlmon.pyz")
    mount = f"mount -t proc proc {SID}/proc && mount --bind /dev {SID}/dev"
    inside = f'{mount} && exec chroot {SID} env HOME=/root PATH=/usr/bin:/bin "$@"'
    in_sid = ("unshare", "--mount", "sh", "-c", inside, "sh")
    python = "/usr/bin/python3.14"
    check(run, *in_sid, python, "/tmp/dlmon.pyz", python=python)


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
@pytest.mark.parametrize("version", ["311", "312", "313", "314"])
def test_one_file_has_the_compiled_parts_for_each_machine(built, machine, version):
    wheels = {name.split("/")[1] for name in zipfile.ZipFile(built(".pyz")).namelist() if "/" in name}
    of_machine = [wheel for wheel in wheels if wheel.endswith(f"{machine}.whl")]
    assert [wheel for wheel in of_machine if wheel.startswith("markupsafe") and f"cp{version}" in wheel]
    assert [wheel for wheel in of_machine if wheel.startswith("psutil") and "abi3" in wheel]
