import contextlib
import subprocess
import sys
from pathlib import Path

import pytest
from fakes.strategies import header

from dlmon.log.follower import LogFollower, writer_pid
from dlmon.log.writer import LogWriter
from dlmon.records import encode


@pytest.fixture
def writer(tmp_path):
    made = LogWriter(tmp_path, header())
    yield made
    made.close()


def follow(path):
    return contextlib.closing(LogFollower(path))


on_linux = pytest.mark.skipif(sys.platform != "linux", reason="locks are probed on Linux")

# Holds a log until it is asked to leave.
HOLDER = """
import sys
from pathlib import Path
from dlmon.log.writer import LogWriter
from dlmon.records import SessionHeader, decode
writer = LogWriter(Path(sys.argv[1]), decode(sys.stdin.readline()))
print(writer.path, flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def holder(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, tmp_path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    process.stdin.write(encode(header()).decode())
    process.stdin.flush()
    process.path = Path(process.stdout.readline().strip())
    yield process
    process.kill()
    process.wait()
    process.stdin.close()
    process.stdout.close()


@on_linux
def test_another_process_is_seen_to_write_until_it_ends(holder):
    assert writer_pid(holder.path) == holder.pid
    with follow(holder.path) as follower:
        assert follower.writer_pid() == holder.pid
        holder.stdin.write("leave\n")
        holder.stdin.flush()
        assert holder.wait() == 0
        assert follower.writer_pid() is None
    assert writer_pid(holder.path) is None


@on_linux
def test_a_killed_writer_lets_go_of_the_log(holder):
    holder.kill()
    holder.wait()
    assert writer_pid(holder.path) is None


@on_linux
def test_followers_come_and_go_without_taking_the_lock(holder):
    followers = [LogFollower(holder.path) for _ in range(3)]
    for follower in followers:
        assert follower.writer_pid() == holder.pid
        follower.poll()
        follower.close()
    assert writer_pid(holder.path) == holder.pid
