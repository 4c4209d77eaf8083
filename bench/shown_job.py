"""The live screen of a job, as `dlmon run` shows it, for a workload of a bench.

JOB is a file with the job as a line of JSON. COUNTS is a file that gets the session's numbers of
batches and epochs when the screen closes.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from dlmon.cli.start import Sources, Start
from dlmon.launch.supervisor_process import launch
from dlmon.protocol.job import Job, Refused
from dlmon.session.follower import SessionFollower


class CountingFollower(SessionFollower):
    """A follower that writes the numbers of batches and epochs to a file when it closes."""

    counts_path: Path

    def close(self) -> None:
        """Write the counts, then close."""
        snapshot = self.snapshot()
        counts = {"batches": snapshot.batches, "epochs": len(snapshot.epochs)}
        self.counts_path.write_text(json.dumps(counts))
        super().close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("job", type=Path, metavar="JOB")
    parser.add_argument("--counts", type=Path, metavar="COUNTS")
    arguments = parser.parse_args()
    started = launch(Job.from_line(arguments.job.read_bytes()))
    from tui.app import DlmonApp
    from tui.start import collect_seldom

    # As the command does.
    collect_seldom()
    answer = started.answer()
    if isinstance(answer, Refused):
        print(answer.reason, file=sys.stderr)
        return answer.exit_code
    log, sources = Path(answer.log), Sources()
    if arguments.counts:
        CountingFollower.counts_path = arguments.counts
        sources = Sources(follow=CountingFollower)
    start = Start(log.parent.parent, log=log, started=started, sources=sources)
    return DlmonApp(start).run_to_exit_code()


if __name__ == "__main__":
    sys.exit(main())
