"""`dlmon sweep --plain`, or --json, of the scripted workload: described by a line of JSON on stdin.

Its keys: `log_dir`, `vary`, `repeats`, `options` of every run, `scripts` by batch size,
`refused` batch sizes, and `resume`, the path of a sweep that is taken up again.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from fakes.sessions import FAKE_WORKLOAD
from fakes.sweeps import plan_of

from dlmon.protocol.job import Job
from dlmon.render.sweep_lines import show_sweep
from dlmon.sweep.log import SweepWriter, new_header
from dlmon.sweep.runner import SweepRun


def main() -> int:
    asked = json.loads(sys.stdin.readline())
    log_dir = Path(asked["log_dir"])
    scripts, refused = asked.get("scripts", {}), asked.get("refused", [])
    if asked.get("resume"):
        writer = SweepWriter.resume(Path(asked["resume"]), time.time())
    else:
        plan = plan_of(asked["vary"], asked.get("repeats", 1), metric="step_ms")
        writer = SweepWriter.create(log_dir, new_header(plan, 1, time.time()))

    def make_job(combination):
        varied = dict(combination.varied)
        options = {**asked.get("options", {}), **varied}
        options["script"] = scripts.get(str(varied.get("batch_size")), {})
        return Job(
            workload="fake",
            command=FAKE_WORKLOAD,
            options={"interval": 0.25, **options},
            log_dir=str(log_dir),
            device=str(varied.get("device", "cpu")),
            interval_s=0.25,
        )

    def refusal(combination):
        size = combination.varied.get("batch_size")
        return f"a batch of {size} can't be" if size in refused else None

    run = SweepRun(writer, make_job, refusal, poll_s=0.05)
    return show_sweep(run, as_json="--json" in sys.argv)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))
    sys.exit(main())
