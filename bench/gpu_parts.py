"""The parts of gpu_day.py, in its scratch environment."""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import harness
from harness import CannotRun

from dlmon.log.folder import LogError
from dlmon.records import TITLES
from dlmon.session.follower import SessionFollower
from workloads.catalog import WORKLOADS

MAX_BYTES = 16 << 20
# Kept back for packing the logs and writing the page.
LAST_S = 20.0
PACKAGES = ("keras", "jax", "torch", "tensorflow", "textual", "psutil", "nvidia-ml-py")


@dataclass
class Day:
    """What the parts share: where to, what on, and until when."""

    out: Path
    logs: Path
    dry: bool
    end: float
    files: list[str] = field(default_factory=list)

    @property
    def device(self) -> str:
        """What is trained on."""
        return "cpu" if self.dry else "gpu:0"

    @property
    def backends(self) -> tuple[str, ...]:
        """The backends of Keras that are tried, the first for what needs only one."""
        return (next(filter(find_spec, TITLES)),) if self.dry else ("jax", "torch")

    def bench(self, name: str, *arguments: str, deadline_s: float) -> str:
        """Run a script beside this one, and return what it printed."""
        return self.call([sys.executable, harness.script(name), *arguments], deadline_s)

    def dlmon(self, *arguments: str, deadline_s: float) -> str:
        """Run dlmon, and return what it printed."""
        return self.call([harness.dlmon_command(), *arguments], deadline_s)

    def call(self, command: Sequence[str], deadline_s: float) -> str:
        """Run a command in a process group of its own, and return its stdout.

        Raises:
            CannotRun: it failed, or took too long and was ended.
        """
        left_s = min(deadline_s, self.end - time.monotonic())
        if left_s <= 0:
            raise CannotRun("not run: the time was over")
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        try:
            said, errors = process.communicate(timeout=left_s)
        except subprocess.TimeoutExpired:
            raise CannotRun(f"ended after {left_s:.0f} s") from None
        finally:
            # SIGTERM first: a bench ends what it started, a run its session.
            if process.poll() is None:
                process.terminate()
                with suppress(subprocess.TimeoutExpired):
                    process.communicate(timeout=15.0)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if process.returncode:
            words = [line for line in errors.strip().splitlines() if line.strip()]
            raise CannotRun(words[-1][:300] if words else f"exit code {process.returncode}")
        return said


@dataclass(frozen=True)
class Found:
    """What a part brought, in Markdown, and how it went in a few words."""

    text: str
    how: str = "done"


Part = Callable[[Day], Found]


def doctor(day: Day) -> Found:
    """What dlmon says is here and what is missing."""
    answer = day.dlmon("doctor", "--json", deadline_s=60)
    (day.out / "doctor.json").write_text(answer)
    rows = [(one["topic"], one["state"], one["text"]) for one in json.loads(answer)]
    return Found(table(("topic", "state", "what is said"), rows))


def nvml(day: Day) -> Found:
    """The driver's answers to every query, in nvml.json."""
    file = day.out / "nvml.json"
    said = day.bench("nvml_answers.py", str(file), deadline_s=60)
    answers = json.loads(file.read_text())
    refused = [call for call in answers["calls"] if "error" in call]
    slowest = sorted(answers["calls"], key=lambda call: -call["us"])[:8]
    without = answers["queries_without_an_answer"].items()
    calls = sorted({(c["call"], json.dumps(c["arguments"]), c["error"]) for c in refused})
    tables = (
        table(("field without a value", "reason"), list(without)),
        table(("refused call", "arguments", "error"), calls),
        table(("slowest calls", "µs"), [(c["call"], f"{c['us']:,}") for c in slowest]),
    )
    return Found("\n\n".join((said.splitlines()[0], *tables)))


def truth(case: str, deadline_s: float) -> Part:
    """Return the part that sets dlmon's readings beside nvidia-smi's in one case."""

    def part(day: Day) -> Found:
        readings = "2" if day.dry else "10"
        arguments = ["--while", case, "--readings", readings, "--every", "1"]
        if day.dry:
            arguments += ["--load-device", "cpu", "--device", "cpu"]
        arguments += ["--backend", day.backends[0]]
        if day.dry:
            arguments += ["--workload", "mnist-mlp-small"]
        return Found(day.bench("gpu_truth.py", *arguments, deadline_s=deadline_s))

    part.__doc__ = f"dlmon's readings beside nvidia-smi's: {case}."
    return part


def calibrate(day: Day) -> Found:
    """The matmul peak of each device, kept for the shares of the runs below."""
    return Found(code(day.dlmon("doctor", "--quick", "--calibrate", deadline_s=90)))


def runs(backend_number: int, deadline_s: float) -> Part:
    """Return the part that trains every workload for a few seconds on one backend."""

    def part(day: Day) -> Found:
        if backend_number >= len(day.backends):
            raise CannotRun("a dry run has one backend")
        backend, end = day.backends[backend_number], time.monotonic() + deadline_s
        names = ["mnist-mlp-small"] if day.dry else list(WORKLOADS)
        rows: list[tuple[str, ...]] = []
        for name in names:
            if time.monotonic() > end:
                rows.append((name, "not run: the time was over"))
                continue
            seconds = "1" if day.dry else "2"
            options = ["--device", day.device, "--backend", backend, "--steps", "30"]
            options += ["--epochs", "1", "--seconds", seconds, "--data", "synthetic"]
            rows.append((name, *_run(day, name, options, end - time.monotonic())))
        completed = sum(row[1] == "completed" for row in rows)
        return Found(table(RUN_HEAD, rows), f"{completed} of {len(rows)} completed")

    part.__doc__ = "Every workload for a few seconds."
    return part


RUN_HEAD = (
    *("run", "status", "batch", "ms a batch", "samples/s", "share of peak", "J an epoch"),
    "what limits it",
)


def _run(day: Day, name: str, options: Sequence[str], deadline_s: float) -> tuple[str, ...]:
    """Make a run, and return its row: without its name."""
    try:
        command = ["run", name, *options, "--json", "--log-dir", str(day.logs)]
        result = json.loads(day.dlmon(*command, deadline_s=max(1.0, deadline_s)))
    except CannotRun as error:
        return (str(error),)
    rate, step = result.get("samples_per_second") or {}, result.get("step_ms") or {}
    energy = result.get("energy_j_per_epoch") or {}
    return (
        result["status"],
        str(result["options"].get("batch_size")),
        number(step.get("median")),
        number(rate.get("mean")),
        number(result.get("peak_share"), 100, " %"),
        ", ".join(f"{device} {joules:.3g}" for device, joules in energy.items()) or "–",
        _limit(Path(result["log"])),
    )


def _limit(log: Path) -> str:
    """Return what the live screen would say limits a run."""
    try:
        viewer = SessionFollower(log)
    except LogError as error:
        return str(error)
    try:
        while viewer.poll():
            pass
        limit = viewer.snapshot().limit
        return "–" if limit is None else limit.text
    finally:
        viewer.close()


def crossing(day: Day) -> Found:
    """Where the GPU starts to win: the article's two networks on CPU and GPU."""
    devices = "cpu" if day.dry else "cpu,gpu"
    said = []
    for name in ("mnist-mlp-small", "mnist-mlp-wide")[: 1 if day.dry else 2]:
        said.append(_sweep(day, name, [f"device={devices}"], ["--epochs", "1"], 60))
    return Found("\n".join(said))


def batch_sizes(day: Day) -> Found:
    """VGG-16 over the batch size, in float32 and in mixed_bfloat16."""
    if day.dry:
        return Found(_sweep(day, "mnist-mlp-small", ["batch_size=64"], ["--steps", "30"], 90))
    vary = ["batch_size=16,64,256", "precision=float32,mixed_bfloat16"]
    return Found(_sweep(day, "vgg16", vary, ["--steps", "20", "--device", day.device], 120))


def _sweep(
    day: Day, name: str, vary: Sequence[str], options: Sequence[str], deadline_s: float
) -> str:
    command = ["sweep", name, "--plain", "--backend", day.backends[0], "--data", "synthetic"]
    command += [*options, "--seconds", "2", "--log-dir", str(day.logs)]
    for one in vary:
        command += ["--vary", one]
    return code(day.dlmon(*command, deadline_s=deadline_s))


def cost(day: Day) -> Found:
    """What watching costs: the slow-down with sensors at 1 s and 0.1 s, without and with --pcie."""
    said, measured, asked = [], 0, 0
    cases = [["--interval", "1.0"], ["--interval", "0.1"], ["--interval", "1.0", "--pcie"]]
    for case in cases[:1] if day.dry else cases:
        arguments = ["--workloads", "mnist-mlp-small" if day.dry else "cifar10-cnn"]
        arguments += ["--rounds", "1" if day.dry else "3"]
        arguments += ["--device", day.device, "--backend", day.backends[0]]
        asked += 1
        try:
            text = day.bench("perturbation.py", *arguments, *case, deadline_s=90)
            measured += 1
        except CannotRun as error:
            text = str(error)
        said.append(f"{' '.join(case)}\n{text}")
    return Found(code("\n".join(said)), f"{measured} of {asked} measured")


def screens(day: Day) -> Found:
    """The live screen, watch and every GPU in depth, in screens.tar.xz."""
    with tempfile.TemporaryDirectory(prefix="dlmon-bench-") as path:
        folder = Path(path)
        arguments = ["--device", day.device, "--backend", day.backends[0]]
        arguments += ["--workload", "mnist-mlp-small"] if day.dry else []
        arguments += ["--after", "5" if day.dry else "25"]
        arguments += ["--only", "watch-gpu"] if day.dry else []
        said = day.bench("gpu_screens.py", str(folder), *arguments, deadline_s=150)
        pictures = sorted([*folder.glob("*.svg"), *folder.glob("*.txt")])
        pack(day.out / "screens.tar.xz", pictures, folder)
        shown = [path for path in pictures if path.suffix == ".txt" and "120x40" in path.name]
        texts = [code(said), *(code(path.read_text()) for path in shown)]
        return Found("\n".join(texts), f"{len(pictures) // 2} pictures")


PARTS: dict[str, Part] = {
    "doctor": doctor,
    "nvml": nvml,
    "idle": truth("idle", 45),
    "load": truth("load", 60),
    "shared": truth("shared", 60),
    "training": truth("training", 90),
    "calibrate": calibrate,
    "screens": screens,
    "runs": runs(0, 300),
    "crossing": crossing,
    "batch-sizes": batch_sizes,
    "cost": cost,
    "runs-torch": runs(1, 300),
}


def main() -> None:
    arguments = _arguments()
    unknown = set(arguments.parts) - PARTS.keys()
    if unknown:
        raise CannotRun(f"there is no part {', '.join(sorted(unknown))}: use {', '.join(PARTS)}")
    out: Path = arguments.out
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="dlmon-bench-") as logs:
        # A calibration of this day is for this day's runs.
        os.environ["XDG_STATE_HOME"] = str(Path(logs) / "state")
        end = time.monotonic() + arguments.minutes * 60 - LAST_S
        day = Day(out, Path(logs) / "sessions", arguments.dry_run, end)
        sections, rows = [], []
        for name in arguments.parts:
            began = time.monotonic()
            try:
                found = PARTS[name](day)
            except (CannotRun, OSError, ValueError, KeyError) as error:
                found = Found("", str(error))
            rows.append((name, found.how, f"{time.monotonic() - began:.0f} s"))
            print(f"{name}: {found.how}, {rows[-1][-1]}", flush=True)
            title = (PARTS[name].__doc__ or name).splitlines()[0]
            sections.append(f"## {name}\n\n{title}\n\n{found.text or found.how}\n")
        pack(out / "logs.tar.xz", sorted(day.logs.glob("**/*.jsonl")), day.logs)
        head = f"# dlmon on {_gpu_names()}\n\n{_machine()}\n\n{table(PART_HEAD, rows)}\n"
        (out / "page.md").write_text("\n".join([head, *sections]))
    print(f"the page is {out / 'page.md'}")


PART_HEAD = ("part", "how it went", "took")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="gpu_day.py", description=__doc__)
    parser.add_argument("out", type=Path, metavar="OUT")
    parser.add_argument(
        "--parts", type=lambda text: text.split(","), default=list(PARTS), metavar="A,B,..."
    )
    parser.add_argument("--minutes", type=float, default=10.0, help="for all of it")
    parser.add_argument("--dry-run", action="store_true", help="without a GPU")
    return parser.parse_args()


def _machine() -> str:
    """Describe the machine in rows; no name of its own is among them."""
    rows: list[tuple[str, str]] = [
        ("kernel", platform.release()),
        ("python", platform.python_version()),
        ("CPUs", str(os.cpu_count())),
    ]
    for package in PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            rows.append((package, metadata.version(package)))
    rows += [("GPU", line) for line in _smi("name,driver_version,memory.total,power.limit")]
    return table(("", ""), rows)


def _gpu_names() -> str:
    return ", ".join(_smi("name")) or "a machine without nvidia-smi"


def _smi(fields: str) -> list[str]:
    command = ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return done.stdout.strip().splitlines() if done.returncode == 0 else []


def pack(file: Path, paths: Sequence[Path], root: Path) -> None:
    """Pack files, the smallest first, as far as they fit."""
    for count in _counts(len(paths)):
        with tarfile.open(file, "w:xz") as archive:
            for path in sorted(paths, key=lambda one: one.stat().st_size)[:count]:
                archive.add(path, arcname=str(path.relative_to(root)))
        if file.stat().st_size <= MAX_BYTES:
            return


def _counts(count: int) -> Iterator[int]:
    while count:
        yield count
        count //= 2
    yield 0


def table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Return a Markdown table; a row may have too few cells."""
    lines = [head, ["---"] * len(head), *rows]
    width = len(head)
    cells = [[_cell(one) for one in (*line, *[""] * (width - len(line)))] for line in lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in cells)


def _cell(value: Any) -> str:
    return " ".join(str(value).split()).replace("|", "\\|")


def code(text: str) -> str:
    """Return text as it stands."""
    return f"```\n{text.rstrip()}\n```"


def number(value: float | None, scale: float = 1.0, unit: str = "") -> str:
    """Return three significant digits, or a dash."""
    return "–" if value is None else f"{value * scale:,.3g}{unit}"


if __name__ == "__main__":
    harness.run(main)
