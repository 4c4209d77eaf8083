"""What faulthandler writes where nothing of ours can run, in Pythons of their own."""

import subprocess
import sys

import pytest

from dlmon.instrument.stacks import lines_in
from dlmon.supervisor.control import held_threads

BEGIN = """
import ctypes, faulthandler, os, sys, threading, time
from dlmon.instrument import stacks
stacks.HELD_S = 0.2
held = stacks.HeldLock(sys.argv[1])

def compute_in_c():
    # Of a PyDLL, the lock is held meanwhile.
    ctypes.PyDLL(None).usleep(700_000)

"""
HOLDS = "held.set_again(1)\ncompute_in_c()\n"


@pytest.fixture
def run(tmp_path):
    """Return a function that runs lines, and returns what they print and the stacks written."""

    def run(lines):
        script = tmp_path / "script.py"
        # So that it does not name what it must not use itself.
        script.write_text(f"{BEGIN.replace('faulthandler, ', '')}{lines}")
        words = [sys.executable, str(script), str(tmp_path / "held 7")]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout, held_threads(tmp_path / "held 7")

    return run


def test_the_line_is_known_of_a_thread_that_does_not_give_the_lock_back(run):
    printed, stacks = run(f"{HOLDS}print(held.lines_of(threading.get_ident())[0][2])")
    assert printed == "compute_in_c\n"
    assert stacks[0].script.function == "compute_in_c"
    assert stacks[0].script.file.endswith("script.py")


IN_TIME = """
for second in range(3):
    held.set_again(second * 10**10)
    time.sleep(0.1)
held.close()
time.sleep(0.5)
"""
GOES_ON = f"""
{HOLDS}
held.set_again(10**10)
print(held.lines_of(threading.get_ident()))
held.close()
"""
SETS_IT_LATER = f"""
held.set_again(1)
module = __import__("fault" + "handler")
with open(sys.argv[1] + " own", "w") as own:
    module.dump_traceback_later(0.2, file=own)
    held.set_again(10**10)
    {HOLDS.splitlines()[1]}
    print(open(own.name).read().count("compute_in_c"))
"""


@pytest.mark.parametrize(
    ("lines", "printed"),
    [
        (IN_TIME, ""),
        (GOES_ON, "[]\n"),
        # A script that has a faulthandler of its own keeps that, and is not watched.
        (f"import faulthandler\n{HOLDS}", ""),
        (SETS_IT_LATER, "1\n"),
    ],
    ids=["given back in time", "goes on", "names its own", "sets its own later"],
)
def test_nothing_is_left_written_of_what_does_not_hold_it_or_goes_on(run, lines, printed):
    assert run(lines) == (printed, None)


def test_a_forked_child_ends_as_ever_and_the_parent_is_watched_on(run):
    lines = f"""
held.set_again(1)
if os.fork() == 0:
    held.set_again(10**11)
    sys.exit()
os.wait()
{HOLDS.replace("(1)", "(2 * 10**11)")}
"""
    _, stacks = run(lines)
    assert stacks[0].script.function == "compute_in_c"


REUSED = f"""
held.set_again(1)
own = open(sys.argv[1] + " own", "w+")
own.write("mine")
own.flush()
os.dup2(own.fileno(), held._fd)
held.set_again(10**10)
{HOLDS.splitlines()[1]}
print(open(own.name).read(), os.path.getsize(sys.argv[1]) > 0)
"""


def test_a_file_of_the_scripts_in_place_of_ours_is_left_alone(run):
    printed, stacks = run(REUSED)
    assert printed == "mine True\n"
    assert stacks[0].script.function == "compute_in_c"


def test_what_is_no_such_text_has_no_threads(tmp_path):
    hostile = 'File "x", line 1 in f\nThread 0x12 (most\n  File "\x1b[31ma", line 9 in g\n  File "'
    assert lines_in(hostile) == [(0x12, [("\x1b[31ma", 9, "g")])]
    path = tmp_path / "held 1"
    path.write_text(hostile)
    [thread] = held_threads(path)
    assert thread.frames[0].file == "a"
    assert held_threads(tmp_path / "none") is None
    (tmp_path / "link").symlink_to(path)
    assert held_threads(tmp_path / "link") is None
