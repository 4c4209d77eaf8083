"""Run the parts of gpu_day.py, in its temporary environment."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import harness
from harness import CannotRun
from terminal import Terminal

from dlmon.records import TITLES
from workloads.catalog import WORKLOADS

MAX_BYTES = 16 << 20
# Reserved for packing the logs and writing the page.
LAST_S = 20.0
PACKAGES = ("keras", "jax", "torch", "tensorflow", "textual", "psutil", "nvidia-ml-py")


@dataclass
class Day:
    """The output folder, the device and the deadline that the parts share."""

    out: Path
    logs: Path
    dry: bool
    end: float

    @property
    def device(self) -> str:
        """The device that trains."""
        return "cpu" if self.dry else "gpu:0"

    @property
    def backends(self) -> tuple[str, ...]:
        """Keras's backends; a part that needs only one uses the first."""
        return (next(filter(find_spec, TITLES)),) if self.dry else ("jax", "torch")

    def bench(self, name: str, *arguments: str, deadline_s: float) -> str:
        """Run a script of this folder, and return its stdout."""
        return self.call([sys.executable, harness.script(name), *arguments], deadline_s)

    def dlmon(self, *arguments: str, deadline_s: float) -> str:
        """Run dlmon, and return its stdout."""
        return self.call([harness.dlmon_command(), *arguments], deadline_s)

    def call(self, command: Sequence[str], deadline_s: float) -> str:
        """Run a command in a process group of its own, and return its stdout.

        Raises:
            CannotRun: it failed, or was ended at its time limit.
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
            output, errors = process.communicate(timeout=left_s)
        except subprocess.TimeoutExpired:
            raise CannotRun(f"ended after {left_s:.0f} s") from None
        finally:
            # SIGTERM first, so that a bench ends its processes, and a run its session.
            if process.poll() is None:
                process.terminate()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.communicate(timeout=15.0)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if process.returncode:
            words = [line for line in errors.strip().splitlines() if line.strip()]
            raise CannotRun(words[-1][:300] if words else f"exit code {process.returncode}")
        return output


Part = Callable[[Day], tuple[str, str]]
"""Returns its result in Markdown, and its state in a few words."""


def doctor(day: Day) -> tuple[str, str]:
    """Examine the host with dlmon doctor."""
    answer = day.dlmon("doctor", "--json", deadline_s=60)
    (day.out / "doctor.json").write_text(answer)
    findings = json.loads(answer)
    rows = [(finding["topic"], finding["state"], finding["text"]) for finding in findings]
    return table(("topic", "state", "what is said"), rows), "done"


def nvml(day: Day) -> tuple[str, str]:
    """The driver's answers to every query, in nvml.json."""
    file = day.out / "nvml.json"
    output = day.bench("nvml_answers.py", str(file), deadline_s=60)
    without = json.loads(file.read_text())["queries_without_an_answer"]
    return f"{output}\n{table(('field without a value', 'reason'), list(without.items()))}", "done"


def truth(trainings: int) -> Part:
    """Return the part that compares dlmon's readings with nvidia-smi's during trainings."""

    def part(day: Day) -> tuple[str, str]:
        arguments = ["--readings", "2" if day.dry else "10", "--every", "1"]
        arguments += ["--trainings", str(trainings)]
        arguments += ["--device", day.device, "--backend", day.backends[0]]
        arguments += ["--workload", "mnist-mlp-small"] if day.dry else []
        return day.bench("gpu_truth.py", *arguments, deadline_s=90), "done"

    part.__doc__ = f"dlmon's readings beside nvidia-smi's, with {trainings} trainings."
    return part


def calibrate(day: Day) -> tuple[str, str]:
    """The matmul peak of each device, which the runs below use for their shares."""
    return code(day.dlmon("doctor", "--quick", "--calibrate", deadline_s=90)), "done"


def runs(backend_number: int) -> Part:
    """Return the part that trains every workload for a few seconds on one backend."""

    def part(day: Day) -> tuple[str, str]:
        if backend_number >= len(day.backends):
            raise CannotRun("a dry run has one backend")
        names = ["mnist-mlp-small"] if day.dry else list(WORKLOADS)
        options = ["--device", day.device, "--backend", day.backends[backend_number]]
        options += ["--steps", "30", "--epochs", "1", "--seconds", "2", "--data", "synthetic"]
        commands = [["run", name, "--plain", *options] for name in names]
        return run_all(day, commands, 60)

    part.__doc__ = "Every workload for a few seconds."
    return part


def memory(day: Day) -> tuple[str, str]:
    """The report on a PyTorch script that leaks GPU memory, and runs out of it."""
    if day.dry:
        raise CannotRun("it takes a GPU to run out of its memory")
    watch = [harness.dlmon_command(), "exec", "--plain", "--log-dir", str(day.logs), "--"]
    script = [sys.executable, harness.script("scripts/leaking_loop.py")]
    # The script must fail; the report is on stderr.
    shell = ["/bin/sh", "-c", '"$@" 2>&1 || true', "sh"]
    return code(day.call([*shell, *watch, *script], 90)), "done"


def transformers(day: Day) -> tuple[str, str]:
    """Transformers in mixed_bfloat16: tokens per second, and the share of the peak."""
    batches = {"gpt2-124m": "12", "bert-base": "64", "vit-b16": "192"}
    if day.dry:
        raise CannotRun("a dry run has no time for them")
    options = ["--plain", "--data", "synthetic", "--device", day.device, "--seconds", "5"]
    options += ["--precision", "mixed_bfloat16", "--steps", "60", "--epochs", "1"]
    commands = [
        ["run", name, "--backend", backend, "--batch-size", size, *options]
        for name, size in batches.items()
        for backend in day.backends
    ]
    return run_all(day, commands, 100)


def crossing(day: Day) -> tuple[str, str]:
    """The batch size from which the GPU is faster: the article's two networks on CPU and GPU."""
    vary = ["--vary", "device=cpu" if day.dry else "device=cpu,gpu", "--epochs", "1"]
    names = ("mnist-mlp-small", "mnist-mlp-wide")[: 1 if day.dry else 2]
    return run_all(day, [_sweep(day, name, *vary) for name in names], 60)


def batch_sizes(day: Day) -> tuple[str, str]:
    """VGG-16 over the batch size, in float32 and in mixed_bfloat16."""
    if day.dry:
        commands = [_sweep(day, "mnist-mlp-small", "--vary", "batch_size=64", "--steps", "30")]
    else:
        vary = ["--vary", "batch_size=16,64,256", "--vary", "precision=float32,mixed_bfloat16"]
        commands = [_sweep(day, "vgg16", *vary, "--steps", "20", "--device", day.device)]
    return run_all(day, commands, 120)


def _sweep(day: Day, name: str, *options: str) -> list[str]:
    usual = ["--plain", "--backend", day.backends[0], "--data", "synthetic", "--seconds", "2"]
    return ["sweep", name, *usual, *options]


def run_all(day: Day, commands: Sequence[list[str]], deadline_s: float) -> tuple[str, str]:
    """Run dlmon commands one by one, and return the output of each, or why it failed."""
    outputs, done = [], 0
    for command in commands:
        try:
            text = day.dlmon(*command, "--log-dir", str(day.logs), deadline_s=deadline_s)
            done += 1
        except CannotRun as error:
            text = str(error)
        outputs.append(code(f"dlmon {' '.join(command)}\n{text}"))
    return "\n".join(outputs), f"{done} of {len(commands)} completed"


def cost(day: Day) -> tuple[str, str]:
    """The slow-down by dlmon with sensors at 1 s and 0.1 s, without and with --pcie."""
    outputs = []
    cases = [["--interval", "1.0"], ["--interval", "0.1"], ["--interval", "1.0", "--pcie"]]
    for case in cases[:1] if day.dry else cases:
        arguments = ["--workloads", "mnist-mlp-small" if day.dry else "cifar10-cnn"]
        arguments += ["--rounds", "1" if day.dry else "3"]
        arguments += ["--device", day.device, "--backend", day.backends[0]]
        text = day.bench("perturbation.py", *arguments, *case, deadline_s=90)
        outputs.append(code(f"{' '.join(case)}\n{text}"))
    return "\n".join(outputs), "done"


def screens(day: Day) -> tuple[str, str]:
    """The live screen, watch and every GPU in depth, in screens.tar.xz.

    Each is the real command in a pty of 120×40 and of 80×24. After some seconds, Textual itself
    takes the picture and ends the app (TEXTUAL_SCREENSHOT).
    """
    workload = "mnist-mlp-small" if day.dry else "cifar10-cnn"
    run = ["run", workload, "--device", day.device, "--backend", day.backends[0]]
    run += ["--data", "synthetic", "--epochs", "1000", "--log-dir", str(day.logs)]
    shots = {"watch-gpu": (["watch"], "g", 5)}
    if not day.dry:
        shots |= {"live": (run, "", 25), "watch-processes": (["watch"], "p", 12)}
    without = []
    with tempfile.TemporaryDirectory(prefix="dlmon-bench-") as path:
        for name, (command, keys, after_s) in shots.items():
            for size in ((120, 40), (80, 24)):
                picture = Path(path) / f"{name}-{size[0]}x{size[1]}.svg"
                environment = {
                    "TEXTUAL_SCREENSHOT": str(after_s),
                    "TEXTUAL_SCREENSHOT_LOCATION": path,
                    "TEXTUAL_SCREENSHOT_FILENAME": picture.name,
                }
                words = [harness.dlmon_command(), *command]
                with Terminal(words, environment=environment, size=size) as terminal:
                    time.sleep(after_s / 2)
                    terminal.press(keys)
                    # If it doesn't end by itself, leaving this block kills it.
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        terminal.process.wait(after_s + 30.0)
                    if not picture.exists():
                        without.append(f"no {picture.name}: {terminal.last_output}")
        pictures = sorted(Path(path).glob("*.svg"))
        pack(day.out / "screens.tar.xz", pictures, Path(path))
        lines = [", ".join(picture.name for picture in pictures), *without]
        return "\n\n".join(lines), f"{len(pictures)} pictures"


def step_parts(day: Day) -> tuple[str, str]:
    """The parts of a PyTorch step by dlmon, beside a clock that waits for the GPU."""
    arguments = ["--device", "cpu" if day.dry else "cuda", *["--ways", "item"] * day.dry]
    return code(day.bench("step_parts.py", *arguments, deadline_s=180)), "done"


PARTS: dict[str, Part] = {
    "doctor": doctor,
    "nvml": nvml,
    "idle": truth(0),
    "training": truth(1),
    "shared": truth(2),
    "calibrate": calibrate,
    "screens": screens,
    "step-parts": step_parts,
    "memory": memory,
    "transformers": transformers,
    "cost": cost,
    "crossing": crossing,
    "batch-sizes": batch_sizes,
    # Last, because they take minutes.
    "runs": runs(0),
    "runs-torch": runs(1),
}


def main() -> None:
    arguments = _arguments()
    unknown = set(arguments.parts) - PARTS.keys()
    if unknown:
        raise CannotRun(f"there is no part {', '.join(sorted(unknown))}: use {', '.join(PARTS)}")
    out: Path = arguments.out
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="dlmon-bench-") as logs:
        # A calibration must not outlive these runs.
        os.environ["XDG_STATE_HOME"] = str(Path(logs) / "state")
        end = time.monotonic() + arguments.minutes * 60 - LAST_S
        day = Day(out, Path(logs) / "sessions", arguments.dry_run, end)
        sections, rows = [], []
        for name in arguments.parts:
            began = time.monotonic()
            try:
                text, how = PARTS[name](day)
            except (CannotRun, OSError, ValueError, KeyError) as error:
                text = how = str(error)
            rows.append((name, how, f"{time.monotonic() - began:.0f} s"))
            print(f"{name}: {how}, {rows[-1][-1]}", flush=True)
            title = (PARTS[name].__doc__ or name).splitlines()[0]
            sections.append(f"## {name}\n\n{title}\n\n{text}\n")
        pack(out / "logs.tar.xz", sorted(day.logs.glob("**/*.jsonl")), day.logs)
        head = table(("part", "how it went", "took"), rows)
        page = [f"# dlmon on a machine with a GPU\n\n{_machine()}\n\n{head}\n", *sections]
        (out / "page.md").write_text("\n".join(page))
    print(f"the page is {out / 'page.md'}")


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
    """Return a table that describes the host, without its name."""
    rows = [("kernel", platform.release()), ("python", platform.python_version())]
    rows.append(("CPUs", str(os.cpu_count())))
    for package in PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            rows.append((package, metadata.version(package)))
    query = "--query-gpu=name,driver_version,memory.total,power.limit"
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        command = ["nvidia-smi", query, "--format=csv,noheader"]
        answer = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
        rows += [("GPU", line) for line in answer.stdout.strip().splitlines()]
    return table(("", ""), rows)


def pack(file: Path, paths: Sequence[Path], root: Path) -> None:
    """Pack files, the smallest first; if they don't fit, pack only the smaller half."""
    paths = sorted(paths, key=lambda path: path.stat().st_size)
    with tarfile.open(file, "w:xz") as archive:
        for path in paths:
            archive.add(path, arcname=str(path.relative_to(root)))
    if file.stat().st_size > MAX_BYTES:
        pack(file, paths[: len(paths) // 2], root)


def table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Return a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    cells = [[" ".join(str(cell).split()).replace("|", "\\|") for cell in line] for line in lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in cells)


def code(text: str) -> str:
    """Return a Markdown code block."""
    return f"```\n{text.rstrip()}\n```"


if __name__ == "__main__":
    harness.run(main)
