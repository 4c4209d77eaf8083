"""The lines of the stacks of all processes of a run."""

from fakes.recorded import folded
from fakes.states import STATES

from dlmon.figures.session.process_stacks import stack_lines, standing_text
from dlmon.records import Frame, ProcessStack, SourceLines, ThreadStack

SCRIPT = "/home/ada/run/train.py"
HANGS = Frame(SCRIPT, 5, "wait_for_lock")
STEP, TOP = Frame(SCRIPT, 30, "step"), Frame(SCRIPT, 41, "<module>")
TORCH = "/venv/lib/python3.11/site-packages/torch"
REDUCES = Frame(f"{TORCH}/distributed/distributed_c10d.py", 2810, "all_reduce")
WRAPPER = Frame(f"{TORCH}/distributed/c10d_logger.py", 81, "wrapper")
SOURCE = SourceLines(1, SCRIPT, 5, 4, ("    with held:", "        lock.acquire()", "    go()"))


def rank(number, *frames, others=(), **fields):
    script = next((frame for frame in frames if frame.file == SCRIPT), None)
    threads = (ThreadStack("MainThread", frames, script, trains=True), *others)
    return ProcessStack(1, 1, 4312 + number, threads, rank=number, **fields)


WAITS = rank(0, REDUCES, WRAPPER, STEP, TOP, others=(ThreadStack("Feeder", (WRAPPER,)),))
PLACE = "train.py:30 in step → torch/distributed/distributed_c10d.py in all_reduce"


def test_the_rank_for_which_the_others_wait_comes_first_with_the_source_at_its_line():
    lines = list(stack_lines([WAITS, rank(1, HANGS, TOP), SOURCE], is_folded=True))
    assert lines == [
        ("rank 1: train.py:5 in wait_for_lock, waits for a lock (pid 4313)", "strong"),
        ("  thread MainThread, which trains, innermost frame first", "dim"),
        (f"  ▶ {SCRIPT}:5 in wait_for_lock", "strong"),
        ("          4  with held:", ""),
        ("        ▶ 5      lock.acquire()", "strong"),
        ("          6  go()", ""),
        (f"    {SCRIPT}:41", "strong"),
        ("", ""),
        (f"rank 0: {PLACE}, waits for the other ranks (pid 4312)", "strong"),
        ("  thread MainThread, which trains, innermost frame first", "dim"),
        ("    … 2 frames in torch", "dim"),
        (f"  ▶ {SCRIPT}:30 in step", "strong"),
        (f"    {SCRIPT}:41", "strong"),
        ("  thread Feeder: torch/distributed/c10d_logger.py:81 in wrapper", "dim"),
    ]


def test_the_frames_of_libraries_are_lines_of_their_own_unless_they_are_folded():
    texts = [text for text, _ in stack_lines([WAITS])]
    assert texts[2:4] == [
        f"    {REDUCES.file}:2810 in all_reduce",
        f"    {WRAPPER.file}:81 in wrapper",
    ]


def test_a_rank_that_does_not_answer_comes_before_those_that_wait_alike():
    silent = ProcessStack(1, 1, 4320, None, rank=8, why={"threads": "it did not answer in 2 s"})
    alike = rank(2, REDUCES, WRAPPER, STEP, TOP, others=WAITS.threads[1:])
    texts = [text for text, _ in stack_lines([WAITS, alike, silent])]
    assert texts[0] == "rank 8: it did not answer in 2 s (pid 4320)"
    assert texts[-2].startswith("rank 2: ")
    assert texts[-1] == "  the same lines as above"


def test_a_stalled_run_says_in_how_many_samples_it_was_at_its_line_and_another_says_nothing():
    stalled = folded(STATES["stalled"].records).snapshot()
    title, where = standing_text(stalled, True)
    assert title == "STALLED 1:15"
    assert where[1] == "→ is the file system full or away (df)?"
    assert where[0].startswith("99 % of 1,480 samples at train_resnet.py:88 in save")
    over = folded(STATES["stalled-and-over"].records).snapshot(is_over=True)
    assert standing_text(over, False) == ("LAST STALL 1:15", where)
    assert standing_text(folded(STATES["training"].records).snapshot(), True) == ("", ())


def test_a_caller_in_the_script_has_its_line_below_it():
    top = SourceLines(1, SCRIPT, 41, 40, ("for batch in loader:", "    train(batch)"))
    lines = [text for text, _ in stack_lines([rank(1, HANGS, TOP), SOURCE, top], is_folded=True)]
    assert lines[-2:] == [f"    {SCRIPT}:41", "        train(batch)"]


def test_with_room_the_lines_around_a_caller_and_three_frames_of_each_other_thread_are_shown():
    top = SourceLines(1, SCRIPT, 41, 40, ("for batch in loader:", "    train(batch)"))
    other = ThreadStack("Feeder", (REDUCES, WRAPPER, WRAPPER, WRAPPER))
    answer = [rank(1, HANGS, TOP, others=(other,)), SOURCE, top]
    lines = [text.strip() for text, _ in stack_lines(answer, is_folded=True, is_long=True)]
    assert lines[-5:-3] == ["40  for batch in loader:", "▶ 41      train(batch)"]
    assert lines[-3].startswith("thread Feeder: ")
