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


def test_nothing_is_written_where_it_is_given_back_in_time(run):
    lines = """
for second in range(3):
    held.set_again(second * 10**10)
    time.sleep(0.1)
held.close()
time.sleep(0.5)
"""
    assert run(lines) == ("", None)


def test_what_was_written_is_gone_once_it_goes_on(run):
    assert run(
        f"{HOLDS}held.set_again(10**10)\nprint(held.lines_of(threading.get_ident()))\nheld.close()"
    ) == (
        "[]\n",
        None,
    )


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


def test_a_script_that_names_it_keeps_it_and_is_not_watched(run):
    assert run(f"import faulthandler\n{HOLDS}") == ("", None)


def test_one_that_sets_it_later_keeps_it(run):
    lines = f"""
held.set_again(1)
module = __import__("fault" + "handler")
with open(sys.argv[1] + " own", "w") as own:
    module.dump_traceback_later(0.2, file=own)
    held.set_again(10**10)
    {HOLDS.splitlines()[1]}
    print(open(own.name).read().count("compute_in_c"))
"""
    assert run(lines) == ("1\n", None)


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
