"""Run one workload: `python -P -m workloads`.

The options are one line of JSON on stdin; records go to the socket DLMON_RECORDS_FD.
Exit codes: 0 done; 1 failed; 69 these options can't be run here; 75 stopped on request.
"""

from __future__ import annotations

import json
import math
import os
import signal
import socket
import sys
import time
import traceback
from typing import Any

from dlmon.instrument.emitter import Emitter
from dlmon.instrument.reporter import Reporter
from dlmon.records import Failure
from workloads.backends import prepare
from workloads.catalog import find
from workloads.failure import RunRefused, in_words, kind_of
from workloads.run import Stopped, WorkloadRun

REFUSED = 69
STOPPED = 75


def main() -> int:
    """Run the workload that stdin describes; return the exit code."""
    records_fd = int(os.environ.pop("DLMON_RECORDS_FD"))
    options: dict[str, Any] = json.loads(sys.stdin.readline())
    refused: RunRefused | None = None
    try:
        # Before the emitter's thread starts, so that it gets the same CPUs.
        prepare(options)
    except RunRefused as error:
        refused = error
    emitter = Emitter(socket.socket(fileno=records_fd))
    reporter = Reporter(None)
    reporter.attach(emitter)
    run = WorkloadRun(find(options["workload"]), options, reporter)
    signal.signal(signal.SIGUSR1, run.stop)
    emitter.take_requests()
    try:
        if refused is not None:
            raise refused
        run.run()
    except Stopped:
        return STOPPED
    except Exception as error:  # noqa: BLE001 - every failure goes into the log
        if not isinstance(error, RunRefused):
            traceback.print_exc()
        words = in_words(error, run.batch_size, run.device)
        reporter.send(Failure(time.monotonic_ns(), words, kind_of(error)))
        return REFUSED if isinstance(error, RunRefused) else 1
    finally:
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        reporter.close(math.inf)
    return STOPPED if reporter.reads.stop_requested else 0


if __name__ == "__main__":
    sys.exit(main())
