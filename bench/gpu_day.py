"""Measure and record everything that needs a real GPU, in one command, within ten minutes.

It is for a host that is lent for minutes and reaches no package index. Missing packages come from
the wheels of `make gpu-wheels`, which are installed into a temporary environment; JAX and PyTorch
are the host's own. Each part has its own time limit; a part that fails or has no time left becomes
a row that says so, and the others go on. --parts A,B selects parts, for a second call.

OUT gets page.md with all tables, doctor.json, nvml.json (the driver's answers to every query, as
test data), screens.tar.xz (pictures) and logs.tar.xz (the session logs). --dry-run tries all of it
without a GPU: it uses the CPU, TensorFlow in place of JAX, and short runs.

This file needs only the standard library.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import sysconfig
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WHEELS = ROOT / ".wheels"
INSTALL_S = 120
# If these can be imported, so can all that a run of dlmon needs.
NEEDS = ("dlmon.cli.main", "tui.app", "dlmon.sensors.sampler", "pynvml")


def main() -> int:
    arguments, rest = _parser().parse_known_args()
    with tempfile.TemporaryDirectory(prefix="dlmon-gpu-day-") as folder:
        try:
            python = make_environment(Path(folder) / "python", arguments.wheels)
        except subprocess.CalledProcessError:
            version = f"{sys.version_info.major}.{sys.version_info.minor}"
            print(
                f"gpu_day.py: {arguments.wheels} can't be installed into Python {version}; bring "
                f"those of `make gpu-wheels GPU_PYTHON={version}`",
                file=sys.stderr,
            )
            return 2
        missing = _import_error(python)
        if missing is not None:
            print(
                f"gpu_day.py: {missing}; run `make gpu-wheels` where there is a package index, and "
                f"bring {arguments.wheels} along",
                file=sys.stderr,
            )
            return 2
        parts = Path(__file__).with_name("gpu_parts.py")
        try:
            return subprocess.run([python, parts, *rest], cwd=ROOT).returncode
        except KeyboardInterrupt:
            return 130


def make_environment(folder: Path, wheels: Path) -> Path:
    """Make an environment with the wheels, dlmon and our own packages; return its interpreter.

    Packages of the wheels come before those of the interpreter that runs this.
    """
    venv.create(folder, symlinks=True)
    python = folder / "bin" / "python"
    site = _purelib_of(python)
    files = sorted(wheels.glob("*.whl"))
    if files:
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps"]
        command += ["--no-compile", "--target", str(site), *map(str, files)]
        subprocess.run(command, check=True, timeout=INSTALL_S)
    paths = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), str(ROOT)]
    (site / "dlmon_gpu_day.pth").write_text("".join(f"{path}\n" for path in dict.fromkeys(paths)))
    script = folder / "bin" / "dlmon"
    script.write_text(f"#!{python}\nfrom tui.start import main\n\nmain()\n")
    script.chmod(0o755)
    return python


def _purelib_of(python: Path) -> Path:
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    done = subprocess.run([python, "-c", code], check=True, capture_output=True, text=True)
    return Path(done.stdout.strip())


def _import_error(python: Path) -> str | None:
    """Return the last line of the import error; None if everything can be imported."""
    # Keras is only looked for, because importing it would import a backend.
    code = (
        f"import importlib.util; [importlib.import_module(name) for name in {NEEDS}]\n"
        "if not importlib.util.find_spec('keras'): raise ModuleNotFoundError('no Keras')"
    )
    done = subprocess.run([python, "-c", code], cwd=ROOT, capture_output=True, text=True)
    return done.stderr.strip().splitlines()[-1] if done.returncode else None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="All other arguments are those of gpu_parts.py: OUT, --parts, --minutes, --dry-run.",
    )
    parser.add_argument("--wheels", type=Path, default=WHEELS, metavar="FOLDER")
    return parser


if __name__ == "__main__":
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.exit(main())
