"""Compare dlmon's parts of a PyTorch step with a clock that waits for the GPU.

A small network trains in each way: without dlmon as it is, without dlmon with a wait for the GPU
(torch.cuda.synchronize) at the begin of each part of a step, and under `dlmon exec`, with a wait
only at the end of a step, as in a script that prints its loss. Printed: each part by both, in ms
per step, and the step alone and under dlmon. In the way `free` no step waits: then the GPU computes
while the script waits for data, and dlmon reports the waiting time of the GPU.
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
    alone, parts = _times(command), _times([*command, "parts"])
    with tempfile.TemporaryDirectory(prefix="dlmon-bench-") as logs:
        watch = [harness.dlmon_command(), "exec", "--plain", "--log-dir", logs, "--"]
        watched_ms = _times([*watch, *command])["step"]
        (log,) = Path(logs).glob("*/session.jsonl")
        records = [json.loads(line) for line in log.read_text().splitlines()]
    records = [record for record in records if record["type"] == "step_parts"]
    sums = {
        name: sum(record.get(f"{name}_us", 0) for record in records) / 1000
        for name in ("step", *PARTS)
    }
    measured = sum(record["steps"] for record in records)
    if not measured:
        return [f"{way}: dlmon measured no step; {[record.get('why') for record in records]}"]
    sums["rest"] = sums["step"] - sum(sums[part] for part in PARTS[:-1])
    rows = [
        f"{way}: a step takes {alone['step']:.2f} ms, {watched_ms:.2f} ms under dlmon; "
        f"{measured} of {steps} measured"
    ]
    for part in ("step", *PARTS):
        rows.append(f"  {part:<10} {parts[part]:8.2f} ms waited for {sums[part] / measured:8.2f}")
    return rows


def _times(command: list[str]) -> dict[str, float]:
    """Run the script, and return the milliseconds that it prints."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith('{"step"')]
    if not lines:
        raise harness.CannotRun((done.stderr or done.stdout).strip()[-300:])
    times_ms: dict[str, float] = json.loads(lines[-1])
    return times_ms


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
