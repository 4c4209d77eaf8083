"""The table of processes of this machine, as the sensors' own process reports it."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys

import pytest

from dlmon.records import Facts, Machine, decode

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sensors run on Linux")

SPIN = "import sys\nprint('on', flush=True)\nwhile True: pass"


def test_a_busy_process_is_reported_with_user_and_command_and_whether_it_is_of_the_run():
    run = subprocess.Popen(
        [sys.executable, "-c", SPIN, "run"], stdout=subprocess.PIPE, start_new_session=True
    )
    other = subprocess.Popen([sys.executable, "-c", SPIN, "other"], stdout=subprocess.PIPE)
    sensors = subprocess.Popen(
        [sys.executable, "-P", "-m", "dlmon.sensors", "--interval", "0.2", "--no-gpus", "unread"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        for spinning in (run, other):
            assert spinning.stdout.readline() == b"on\n"
        sensors.stdin.write(f"watch {run.pid}\n".encode())
        sensors.stdin.flush()
        assert isinstance(decode(sensors.stdout.readline()), Facts)
        reported = {}
        while other.pid not in reported or run.pid not in reported:
            record = decode(sensors.stdout.readline())
            assert isinstance(record, Machine)
            reported = {row.pid: row for row in record.processes or ()}
    finally:
        for process in (sensors, run, other):
            process.kill()
            process.communicate()
    for pid, belongs in ((run.pid, True), (other.pid, False)):
        row = reported[pid]
        assert row.of_run is belongs
        assert row.user == pwd.getpwuid(os.geteuid()).pw_name
        assert row.command.startswith(sys.executable[:40])
        assert row.threads == 1
        assert row.rss_mib > 0
        assert row.gpus == ()
    assert reported[other.pid].cpu_pct >= 1
