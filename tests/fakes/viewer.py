"""`dlmon run --plain`, or --json, for a job of any command: it comes as a line on stdin."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from dlmon.launch.job import Job, Refused
from dlmon.launch.lifeline import launch
from dlmon.render.follow import follow


def main() -> int:
    # Tests that run under nohup would hand on that it is ignored.
    ignored = "--nohup" in sys.argv
    signal.signal(signal.SIGHUP, signal.SIG_IGN if ignored else signal.SIG_DFL)
    started = launch(Job.from_line(sys.stdin.buffer.readline()))
    answer = started.answer()
    if isinstance(answer, Refused):
        print(f"dlmon: {answer.reason}", file=sys.stderr)
        return answer.exit_code
    return follow(Path(answer.log), started, as_json="--json" in sys.argv)


if __name__ == "__main__":
    sys.exit(main())
