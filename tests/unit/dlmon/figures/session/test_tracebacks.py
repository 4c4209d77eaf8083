"""A traceback is read from what a run printed: own frames, libraries folded, the error last.

The texts are those of the named versions of Python, as they print them.
"""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlmon.figures.session.tracebacks import TraceRow, before_traceback, traceback_rows
from dlmon.records import Output

FOLDER = "/home/ada/run"
# Python 3.10 has no marks.
CHAINED = """\
Traceback (most recent call last):
  File "/home/ada/run/data.py", line 10, in load
    return {"a": 1}[i]
KeyError: 1

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/home/ada/run/train.py", line 15, in during
    load(1)
  File "/home/ada/run/data.py", line 12, in load
    raise RuntimeError("sample [b]x[/] is missing") from e
RuntimeError: sample [b]x[/] is missing

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/home/ada/run/train.py", line 31, in <module>
    main()
  File "/home/ada/run/train.py", line 19, in main
    raise e
ValueError: bad
second line of it
"""
GROUP = """\
  + Exception Group Traceback (most recent call last):
  |   File "/home/ada/run/train.py", line 31, in <module>
  |     main()
  |     ~~~~^^
  |   File "/home/ada/run/train.py", line 25, in main
  |     raise ExceptionGroup("two failed", errs)
  | ExceptionGroup: two failed (2 sub-exceptions)
  +-+---------------- 1 ----------------
    | Exception Group Traceback (most recent call last):
    |   File "/home/ada/run/train.py", line 5, in f
    |     raise ExceptionGroup("inner", [ValueError("a")])
    | ExceptionGroup: inner (1 sub-exception)
    +-+---------------- 1 ----------------
      | ValueError: a
      +------------------------------------
    |
    | The above exception was the direct cause of the following exception:
    |
    | Traceback (most recent call last):
    |   File "/home/ada/run/train.py", line 12, in load
    |     raise RuntimeError("no") from e
    | RuntimeError: no
    +---------------- 2 ----------------
    | KeyError: 3
    +------------------------------------
"""
LIBRARY = """\
Traceback (most recent call last):
  File "<frozen runpy>", line 198, in _run_module_as_main
  File "/home/ada/run/models/train.py", line 30, in fit
    trainer.fit(net)
    ~~~~~~~~~~~^^^^^
  File "/venv/lib/python3.13/site-packages/lightning/trainer.py", line 500, in fit
    call._call_and_handle_interrupt(
    ...<2 lines>...
    )
    ^
  File "/venv/lib/python3.13/site-packages/torch/nn/modules/module.py", line 1773, in _call_impl
    return forward_call(*args, **kwargs)
  File "/home/ada/run/models/net.py", line 7, in forward
    return json.loads("{bad")
           ~~~~~~~~~~^^^^^^^^
  File "/usr/lib/python3.13/json/__init__.py", line 346, in loads
    return _default_decoder.decode(s)
  File "/usr/lib/python3.13/json/decoder.py", line 360, in raw_decode
    obj, end = self.scan_once(s, idx)
json.decoder.JSONDecodeError: Expecting property name: line 1 column 2 (char 1)
"""
RECURSION = """\
Traceback (most recent call last):
  File "/home/ada/run/train.py", line 31, in <module>
    recurse(0)
  File "/home/ada/run/train.py", line 3, in recurse
    return recurse(n + 1)
           ^^^^^^^^^^^^^^
  File "/home/ada/run/train.py", line 3, in recurse
    return recurse(n + 1)
           ^^^^^^^^^^^^^^
  File "/home/ada/run/train.py", line 3, in recurse
    return recurse(n + 1)
           ^^^^^^^^^^^^^^
  [Previous line repeated 1988 more times]
RecursionError: maximum recursion depth exceeded
"""
SYNTAX = """\
Traceback (most recent call last):
  File "/home/ada/run/train.py", line 27, in <module>
    import net
  File "/home/ada/run/net.py", line 1
    a b
      ^
SyntaxError: invalid syntax
"""


def rows_of(text, folder=FOLDER, stream="stderr"):
    return traceback_rows([Output(0, stream, line) for line in text.splitlines()], folder)


def drawn(rows):
    return [f"{'  ' * row.depth}{row.text}" for row in rows]


def test_chained_exceptions_stand_in_order_with_the_sentences_that_join_them():
    rows = rows_of(f"epoch 1\n{CHAINED}")
    assert drawn(rows) == [
        "data.py:10 in load",
        '    return {"a": 1}[i]',
        "KeyError: 1",
        "The above exception was the direct cause of the following exception:",
        "train.py:15 in during",
        "    load(1)",
        "data.py:12 in load",
        '    raise RuntimeError("sample [b]x[/] is missing") from e',
        "RuntimeError: sample [b]x[/] is missing",
        "During handling of the above exception, another exception occurred:",
        "train.py:31",
        "    main()",
        "train.py:19 in main",
        "    raise e",
        "ValueError: bad",
        "second line of it",
    ]
    assert [row.kind for row in rows[-3:]] == ["source", "error", "message"]


def test_the_exceptions_of_a_group_are_numbered_and_indented():
    assert drawn(rows_of(GROUP)) == [
        "train.py:31",
        "    main()",
        "train.py:25 in main",
        '    raise ExceptionGroup("two failed", errs)',
        "ExceptionGroup: two failed (2 sub-exceptions)",
        "exception 1",
        "  train.py:5 in f",
        '      raise ExceptionGroup("inner", [ValueError("a")])',
        "  ExceptionGroup: inner (1 sub-exception)",
        "  exception 1",
        "    ValueError: a",
        "  The above exception was the direct cause of the following exception:",
        "  train.py:12 in load",
        '      raise RuntimeError("no") from e',
        "  RuntimeError: no",
        "exception 2",
        "  KeyError: 3",
    ]


def test_frames_of_libraries_are_folded_except_the_one_that_raised():
    rows = rows_of(LIBRARY)
    assert drawn(rows) == [
        "… 1 frame in runpy",
        "models/train.py:30 in fit",
        "    trainer.fit(net)",
        "… 2 frames in lightning, torch",
        "models/net.py:7 in forward",
        '    return json.loads("{bad")',
        "… 1 frame in json",
        "json/decoder.py:360 in raw_decode",
        "    obj, end = self.scan_once(s, idx)",
        "json.decoder.JSONDecodeError: Expecting property name: line 1 column 2 (char 1)",
    ]
    assert [row.kind for row in rows[-3:]] == ["library", "library", "error"]


def test_recursion_is_folded_as_python_does_and_where_it_does_not():
    assert drawn(rows_of(RECURSION))[2:] == [
        "train.py:3 in recurse",
        "    return recurse(n + 1)",
        "… repeated 1,990 times",
        "RecursionError: maximum recursion depth exceeded",
    ]
    pair = (
        '  File "a.py", line 5, in ping\n    pong()\n  File "a.py", line 7, in pong\n    ping()\n'
    )
    text = f"Traceback (most recent call last):\n{pair * 1000}RecursionError: too deep\n"
    began = time.process_time()
    rows = drawn(rows_of(text))
    assert time.process_time() - began < 1
    assert rows == [
        *("a.py:5 in ping", "    pong()", "a.py:7 in pong", "    ping()"),
        *("… the last 2 frames repeated 999 times", "RecursionError: too deep"),
    ]


def test_the_line_that_does_not_parse_is_a_frame():
    assert drawn(rows_of(SYNTAX))[2:] == ["net.py:1", "    a b", "SyntaxError: invalid syntax"]


def test_an_earlier_traceback_that_was_handled_is_not_part_of_it():
    handled = f"{SYNTAX}epoch 2\n"
    assert rows_of(handled + LIBRARY) == rows_of(LIBRARY)


def test_output_beside_a_traceback_is_what_was_printed_before_it_or_by_the_other_stream():
    handled = ["Traceback (most recent call last):", '  File "a.py", line 1, in f', "KeyError: 1"]
    joined = [
        *handled,
        "",
        "During handling of the above exception, another exception occurred:",
        "",
    ]
    lines = ["epoch 1", *handled, "epoch 2", *joined, *handled, "bye"]
    output = [Output(n, "stderr", text) for n, text in enumerate(lines)]
    saved = Output(99, "stdout", "saved")
    shown = before_traceback([*output, saved])
    assert [line.text for line in shown] == ["epoch 1", *handled, "epoch 2", "saved"]
    assert before_traceback([saved]) == (saved,)


def test_lines_that_were_left_out_are_counted_and_what_follows_is_no_error():
    lines = [Output(0, "stderr", line) for line in LIBRARY.splitlines()]
    for gone in (8, 14):
        lines[gone] = Output(0, "stderr", "           ^^^^^^", left_out=2_900)
    rows = traceback_rows(lines, FOLDER)
    assert drawn(rows)[4] == "… 2,900 lines left out"
    assert [row.kind for row in rows].index("error") == len(rows) - 1


def test_of_several_ranks_the_first_that_failed_is_shown():
    text = "".join(f"[rank1]: {line}\n" for line in SYNTAX.splitlines())
    other = text.replace("rank1", "rank0").replace("invalid", "another")
    assert rows_of(text + other) == rows_of(SYNTAX)


def test_a_long_message_is_cut():
    rows = rows_of(SYNTAX + "more\n" * 5_000)
    assert len(rows) < 30
    assert drawn(rows)[-1] == "… more lines in the log"


@pytest.mark.parametrize("text", ["", "epoch 1\nKilled\n", "Segmentation fault\n"])
def test_other_output_is_no_traceback(text):
    assert rows_of(text) == ()


PIECES = [CHAINED, GROUP, LIBRARY, RECURSION, SYNTAX]
LINES = sorted({line for piece in PIECES for line in piece.splitlines()})


@given(
    st.lists(
        st.tuples(
            st.sampled_from(LINES) | st.text(max_size=60),
            st.sampled_from(["stdout", "stderr"]),
            st.none() | st.integers(1, 10**6),
        ),
        max_size=60,
    )
)
def test_any_text_is_survived(lines):
    rows = traceback_rows([Output(0, stream, text, gone) for text, stream, gone in lines], FOLDER)
    assert all(isinstance(row, TraceRow) and row.depth >= 0 for row in rows)
