"""What dlmon says a step of PyTorch's is made of, beside a clock that waits for the GPU.

A small network trains in each way without dlmon, once as it is and once with a wait for the GPU
wherever a part of its step begins (torch.cuda.synchronize), and once under `dlmon exec`, where it
waits nowhere but at the end of a step, as a script does that prints its loss. Printed: each part by
both, in ms of a step, and what a step takes as it is and under dlmon. In the way `free` no step
waits: then the GPU works on while the script waits for data, and dlmon says what the GPU waited.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import harness

WAYS = ("item", "autocast", "free")
PARTS = ("wait", "copy", "forward", "backward", "optimizer", "rest")
SCRIPT = Path(__file__).with_name("scripts") / "parted_loop.py"


def compare(way: str, device: str, steps: int, python: str) -> list[str]:
    """Return the rows of a table of one way to train."""
    command = [python, str(SCRIPT), way, device, str(steps)]
    alone, parts = (_said([*command, *more]) for more in ([], ["parts"]))
    with tempfile.TemporaryDirectory(prefix="dlmon-bench-") as logs:
        watch = [harness.dlmon_command(), "exec", "--plain", "--log-dir", logs, "--"]
        watched_ms = _said([*watch, *command])["step"]
        (log,) = Path(logs).glob("*/session.jsonl")
        records = [json.loads(line) for line in log.read_text().splitlines()]
    found = [one for one in records if one["type"] == "step_parts"]
    sums = {
        name: sum(one.get(f"{name}_us", 0) for one in found) / 1000 for name in ("step", *PARTS)
    }
    measured = sum(one["steps"] for one in found)
    if not measured:
        return [f"{way}: dlmon measured no step; {[one.get('why') for one in found]}"]
    sums["rest"] = sums["step"] - sum(sums[part] for part in PARTS[:-1])
    rows = [
        f"{way}: a step takes {alone['step']:.2f} ms, {watched_ms:.2f} ms under dlmon; "
        f"{measured} of {steps} measured"
    ]
    for part in ("step", *PARTS):
        rows.append(f"  {part:<10} {parts[part]:8.2f} ms waited for {sums[part] / measured:8.2f}")
    return rows


def _said(command: list[str]) -> dict[str, float]:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith('{"step"')]
    if not lines:
        raise harness.CannotRun((done.stderr or done.stdout).strip()[-300:])
    said: dict[str, float] = json.loads(lines[-1])
    return said


def main() -> None:
    parser = harness.parser(__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--ways", type=lambda text: text.split(","), default=WAYS)
    parser.add_argument("--python", default=sys.executable, help="the one that has PyTorch")
    arguments = parser.parse_args()
    for way in arguments.ways:
        rows = compare(way, arguments.device, arguments.steps, arguments.python)
        print("\n".join(rows), flush=True)


if __name__ == "__main__":
    harness.run(main)
