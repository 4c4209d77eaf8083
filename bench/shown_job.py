"""dlmon's live screen on a job of any command: what `dlmon run` does, for a workload of a bench.

JOB is a file with the job as a line of JSON. COUNTS is a file that takes, when
the screen closes, what the viewer had received and what its session had folded.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from dlmon.launch.job import Job, Refused
from dlmon.launch.lifeline import launch
from dlmon.records import Batches, BatchSummary, Record
from dlmon.session.follower import SessionFollower


class CountingFollower(SessionFollower):
    """A viewer that counts what it reads, beside folding it."""

    counts_path: Path
    batches = samples = 0

    def poll(self, max_s: float | None = None) -> list[Record]:
        """Poll, and count batches and samples."""
        records = super().poll(max_s)
        for record in records:
            if isinstance(record, Batches):
                count = len(record.dt_us)
                self.batches += count
                each = record.samples
                self.samples += count * each if isinstance(each, int) else sum(each)
            elif isinstance(record, BatchSummary):
                self.batches += record.count
                self.samples += record.samples
        return records

    def close(self) -> None:
        """Write the counts down."""
        folded = self.snapshot()
        counts = {
            "batches": self.batches,
            "samples": self.samples,
            "folded_batches": folded.batches,
            "epochs": len(folded.epochs),
            "notices": [notice.text for notice in folded.notices],
        }
        self.counts_path.write_text(json.dumps(counts))
        super().close()


def main() -> int:
    arguments = _arguments()
    started = launch(Job.from_line(arguments.job.read_bytes()))
    if arguments.plain:
        from dlmon.render.follow import follow
    else:
        from dlmon.cli.start import Sources, Start
        from tui.app import DlmonApp
        from tui.start import collect_seldom

        # As the command does.
        collect_seldom()
    answer = started.answer()
    if isinstance(answer, Refused):
        print(answer.reason, file=sys.stderr)
        return answer.exit_code
    log = Path(answer.log)
    if arguments.plain:
        return follow(log, started)
    sources = Sources()
    if arguments.counts:
        CountingFollower.counts_path = arguments.counts
        sources = Sources(follow=CountingFollower)
    start = Start(log.parent.parent, log=log, started=started, sources=sources)
    return DlmonApp(start).run_to_exit_code()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("job", type=Path, metavar="JOB")
    parser.add_argument("--counts", type=Path, metavar="COUNTS")
    parser.add_argument("--plain", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
