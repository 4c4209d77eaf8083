"""What tests of several packages need of other processes."""

import subprocess
import sys

import pytest

# Takes the lock of a log as its writer does, until its stdin is closed.
HOLDER = """
import fcntl, os, sys
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND)
fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def hold():
    """Return a function that has another process hold the lock of a log; it returns the process."""
    holders = []

    def held(path):
        command = [sys.executable, "-c", HOLDER, path]
        holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        holders.append(holder)
        assert holder.stdout.readline() == b"held\n"
        return holder

    yield held
    for holder in holders:
        holder.kill()
        holder.communicate()
