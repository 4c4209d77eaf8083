import asyncio
import os
from itertools import pairwise

import pytest
from fakes.strategies import FEW_EXAMPLES
from hypothesis import example, given
from hypothesis import strategies as st

from dlmon.launch.spool import make_spool
from dlmon.records import Output
from dlmon.records.sanitize import LINE_LIMIT
from dlmon.supervisor import output
from dlmon.supervisor.output import LINES_PER_SECOND, FileOutput, OutputLines, OutputLog

SECOND = 1_000_000_000
ERASE = "\x1b[K"


def lines_of(*chunks, final=True):
    """Return the lines that chunks end, and what is left standing at the end."""
    lines = OutputLines()
    ended = [line for chunk in chunks for line in lines.feed(chunk, 0)]
    if final:
        ended += lines.feed(b"", 0, final=True)
        ended += lines.unfinished_lines(0, final=True)
    return ended


def texts(outputs):
    return [output.text for output in outputs]


def keras_bar(step, previous_width):
    """Return what Keras 3.15 writes for a step, from keras/src/utils/progbar.py."""
    done = step * 20 // 40
    bar = (
        f"\x1b[1m{step:2d}/40\x1b[0m \x1b[32m{'━' * done}\x1b[0m\x1b[37m{'━' * (20 - done)}\x1b[0m"
    )
    bar += f" \x1b[1m{40 - step}s\x1b[0m {1000 - step * 24}ms/step - loss: 0.5000"
    return ("\b" * previous_width + "\r" + bar).encode()


KERAS_BAR = b"".join(keras_bar(step, 56) for step in range(1, 41)) + b"     \n"
TQDM_BAR = "".join(f"\r{step}%|{'█' * (step // 10):10}| {step}/100" for step in range(0, 101, 5))


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        (b"one\ntwo\n", ["one", "two"]),
        (b"one\r\n\r\ntwo\r\n", ["one", "", "two"]),
        (b"no newline", ["no newline"]),
        (b"first\rsecond\n", ["second"]),
        (b"longer\rshort\n", ["shortr"]),
        (b"ab\b\bXY\n", ["XY"]),
        (b"ab\bX\n", ["aX"]),
        (b"\b\b\bx\n", ["x"]),
        (b"abc\r", ["abc"]),
        (b"", []),
        (b"  \x1b[0m ", []),
        (b"\x1b[31mlong red\x1b[0m\r\x1b[1mblue\x1b[0m\n", ["blue red"]),
        (b"caf\xe9 \xff\n", ["caf\ufffd \ufffd"]),
        (b"abc\xe2\x98", ["abc\ufffd"]),
        ("a\x07b\u202ec\x1b]0;title\x07d\te\n".encode(), ["abcd    e"]),
        (b"x" * (2 * LINE_LIMIT + 5) + b"\n", ["x" * LINE_LIMIT, "x" * LINE_LIMIT, "xxxxx"]),
        # A line may be erased.
        (f"longer\rnew{ERASE}\n".encode(), ["new"]),
        (f"longer\r{ERASE}new\n".encode(), ["new"]),
        (b"longer\r\x1b[0Jnew\n", ["new"]),
        (b"longer\x1b[2K\rnew\n", ["new   "]),
        # The cursor may go up.
        (b"one\ntwo\x1b[A\rONE\n", ["one", "ONE", "two"]),
        (b"one\ntwo\x1b[Azz\n", ["one", "onezz", "two"]),
        (b"one\ntwo\x1b[F\x1b[J", ["one"]),
        (b"a\nlonger\x1b[Ax\n", ["a", "a     x", "longer"]),
        (b"only\x1b[9A\rONLY\n", ["ONLY"]),
        (b"one\ntwo\x1b[2A\r1\x1b[2E2\n", ["one", "1ne", "2wo"]),
        # Bars leave their last state.
        (KERAS_BAR, [f"40/40 {'━' * 20} 0s 40ms/step - loss: 0.5000     "]),
        (f"{TQDM_BAR}\n".encode(), ["100%|██████████| 100/100"]),
    ],
    ids=range(28),
)
def test_lines_are_what_a_terminal_would_show(written, kept):
    assert lines_of(written) == kept


def rich_bar(step):
    """Return what Rich writes for a bar of two lines, as Lightning's is."""
    again = "\r\x1b[2K\x1b[1A\x1b[2K" if step else ""
    return f"{again}Epoch 0 {step}/99\ntrain_loss: {step / 100:.2f}".encode()


def nested_tqdm(step):
    """Return what tqdm writes for the inner one of two bars, then the outer one."""
    return f"\n\rinner {step}/99\x1b[A\router {step // 10}/9".encode()


@pytest.mark.parametrize(
    ("bar", "first", "last"),
    [
        (rich_bar, ["Epoch 0 0/99"], ["Epoch 0 99/99", "train_loss: 0.99"]),
        (nested_tqdm, [""], ["outer 9/9", "inner 99/99"]),
    ],
)
def test_a_bar_of_two_lines_is_reported_once_a_second(bar, first, last):
    lines, reported = OutputLines(), []
    for tick in range(100):
        t = tick * SECOND // 10
        ended = lines.feed(bar(tick), t)
        # When it begins, nobody knows that it is one.
        assert ended == (first if tick == 0 else [])
        reported += lines.unfinished_lines(t)
    reported += lines.unfinished_lines(10 * SECOND, final=True)
    assert 10 <= len(reported) <= 20
    assert set(last) <= set(reported)


def test_what_follows_a_bar_of_two_lines_is_kept_whole_and_in_order():
    written = b"".join(map(rich_bar, range(20))) + b"\n" + numbered(0, 30)
    expected = ["Epoch 0 0/99", "Epoch 0 19/99", "train_loss: 0.19", *map(str, range(30))]
    assert lines_of(written) == expected


PIECES = st.sampled_from(
    [
        *(b"a", b"bc", b"word ", "é".encode(), "漢".encode(), "🦊".encode()),
        *(b"\n", b"\r", b"\r\n", b"\b", b"\b\b\b", b"\t", b"\xff", b"\xe2\x98", b"\x00"),
        *(b"\x1b[A", b"\x1b[2A", b"\x1b[B", b"\x1b[1F", b"\x1b[J"),
        *(b"\x1b", b"\x1b[", b"\x1b[K", b"\x1b[2K", b"\x1b[31m", b"\x1b[0", b"m", b"\x1b]0;t\x07"),
        b"z" * (LINE_LIMIT - 3),
    ]
)
WRITTEN = st.lists(PIECES, max_size=25).map(b"".join)


@given(WRITTEN, st.lists(st.integers(0, 200), max_size=12))
@example(b"abc\r\ndef", [4])
@example(b"old text\r\x1b[Kx", [10, 11])
def test_the_lines_do_not_depend_on_how_the_bytes_were_read(written, cuts):
    cuts = sorted(min(cut, len(written)) for cut in cuts)
    chunks = [written[a:b] for a, b in zip([0, *cuts], [*cuts, len(written)], strict=True)]
    assert lines_of(*chunks) == lines_of(written)


@given(st.lists(st.text("abcé漢 ", min_size=1, max_size=20), max_size=20), st.integers(1, 7))
def test_no_character_of_plain_text_is_lost(lines, size):
    written = "\n".join(lines).encode()
    chunks = [written[start : start + size] for start in range(0, len(written), size)]
    standing = [lines[-1]] if lines and lines[-1].strip() else []
    assert lines_of(*chunks) == lines[:-1] + standing


def test_a_prompt_is_reported_once_it_has_stood_for_a_second():
    lines = OutputLines()
    assert lines.feed(b"Continue? ", 0) == []
    assert lines.unfinished_lines(SECOND - 1) == []
    assert lines.unfinished_lines(SECOND) == ["Continue? "]
    assert lines.unfinished_lines(9 * SECOND) == []
    # It isn't said again when its newline comes, unless it was added to.
    assert lines.feed(b"\n", 10 * SECOND) == []
    lines.feed(b"Continue? ", 11 * SECOND)
    assert lines.unfinished_lines(12 * SECOND) == ["Continue? "]
    assert lines.feed(b"yes\n", 13 * SECOND) == ["Continue? yes"]


def test_a_bar_that_rewrites_itself_is_reported_once_a_second():
    lines = OutputLines()
    reported = []
    for tick in range(100):
        t = tick * SECOND // 10
        assert lines.feed(f"\r{tick} %".encode(), t) == []
        reported += [(tick, state) for state in lines.unfinished_lines(t)]
    assert all(later - earlier in (10, 11) for (earlier, _), (later, _) in pairwise(reported))
    assert [state for _, state in reported] == [f"{tick} %" for tick, _ in reported]
    assert len(reported) == 9
    assert lines.feed(b"\r100 %\n", 10 * SECOND) == ["100 %"]


def test_lines_carry_their_stream_and_time():
    log = OutputLog()
    assert log.feed("stdout", b"out\n", 5) == [Output(5, "stdout", "out")]
    assert log.feed("stderr", b"err\nmore", 7) == [Output(7, "stderr", "err")]
    assert log.tick(8 + SECOND) == [Output(8 + SECOND, "stderr", "more")]


def numbered(first, last):
    return b"".join(b"%d\n" % number for number in range(first, last))


def test_fifty_lines_a_second_are_kept_and_the_others_counted():
    log = OutputLog()
    assert texts(log.feed("stdout", numbered(0, 1_000), 0)) == [str(n) for n in range(50)]
    assert log.feed("stdout", numbered(1_000, 1_200), SECOND // 2) == []
    kept = log.tick(SECOND)
    # Of the others the newest are worth more.
    assert texts(kept) == [str(n) for n in range(1_150, 1_200)]
    assert [line.left_out for line in kept] == [1_100] + [None] * 49


def test_the_last_lines_are_never_lost():
    log = OutputLog()
    log.feed("stdout", numbered(0, 5_000), 0)
    log.feed("stderr", b"Traceback (most recent call last):\n  in fit\nMemoryError", 1)
    last = log.tick(2, final=True)
    assert texts(last)[-3:] == ["Traceback (most recent call last):", "  in fit", "MemoryError"]
    assert last[0].left_out


@pytest.mark.parametrize(
    "written",
    [b"step 1 loss 0.5\n" * 500_000, b"\r50%" * 2_000_000, b"x" * 9_000_000],
    ids=["lines", "a bar", "one line"],
)
def test_of_a_flood_no_more_is_taken_apart_than_a_person_could_see(written, monkeypatch):
    taken = []
    feed = OutputLines.feed

    def counted(lines, data, t, final=False):
        taken.append(len(data))
        return feed(lines, data, t, final)

    monkeypatch.setattr(OutputLines, "feed", counted)
    log = OutputLog()
    for start in range(0, len(written), 1 << 18):
        log.feed("stdout", written[start : start + (1 << 18)], 0)
    log.tick(1, final=True)
    assert sum(taken) < 1_000_000


def test_a_bar_that_floods_leaves_its_last_state():
    log = OutputLog()
    states = b"".join(b"\r%d of 300000" % number for number in range(300_001))
    log.feed("stderr", states, 0)
    assert texts(log.tick(SECOND, final=True)) == ["300000 of 300000"]


@FEW_EXAMPLES
@given(
    st.lists(
        st.tuples(
            st.integers(0, 3 * SECOND), st.one_of(st.integers(0, 120), st.integers(0, 90_000))
        ),
        max_size=12,
    )
)
@example([(0, 90_000)])
@example([(0, 90_000), (SECOND, 90_000)])
def test_every_line_is_kept_or_counted(bursts):
    log, kept, t, number = OutputLog(), [], 0, 0
    for pause, count in bursts:
        t += pause
        kept += log.tick(t)
        kept += log.feed("stdout", numbered(number, number + count), t)
        number += count
    kept += log.tick(t, final=True)
    reported = 0
    for line in kept:
        reported += line.left_out or 0
        assert int(line.text) == reported
        reported += 1
    assert reported == number
    assert number <= LINES_PER_SECOND or len(kept) >= LINES_PER_SECOND


@pytest.fixture
def small_reads(monkeypatch):
    monkeypatch.setattr(output, "READ_BYTES", 1_000)
    monkeypatch.setattr(output, "SLICE_S", 0.0)
    monkeypatch.setattr(output, "KEPT_BYTES", 1 << 16)


def drained(output):
    """Drain what a script has written; return that, and how often others had their turn."""

    async def drain():
        taken, turns = [], []

        async def others():
            while True:
                turns.append(1)
                await asyncio.sleep(0)

        made = output(lambda stream, data: taken.append(data))
        beside = asyncio.create_task(others())
        await made.drain()
        beside.cancel()
        return b"".join(taken), len(turns)

    return asyncio.run(drain())


def test_others_have_their_turn_while_the_rest_is_read(small_reads):
    spool = make_spool()
    os.write(spool, b"x" * 100_000)
    data, turns = drained(lambda take: FileOutput((spool, spool), take))
    assert data == b"x" * 100_000
    assert turns >= 100


@pytest.mark.parametrize("is_ours", [True, False])
def test_the_disk_gets_back_what_was_read_of_a_file_that_nobody_else_reads(
    is_ours, small_reads, monkeypatch
):
    spool = make_spool()
    kept = os.dup(spool)
    monkeypatch.setattr(output, "make_spool", lambda: spool)
    os.write(spool, b"x" * 1_000_000)
    before = os.fstat(kept).st_blocks
    data, _ = drained(lambda take: FileOutput(None if is_ours else (spool, spool), take))
    assert data == b"x" * 1_000_000
    is_given_back = os.pread(kept, 10, 100_000) == bytes(10)
    assert is_given_back == is_ours
    assert (os.fstat(kept).st_blocks < before) == is_given_back
    os.close(kept)
