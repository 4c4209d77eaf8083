"""Which line of a script's output says why it ended."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlmon.records import Output
from dlmon.session.exception_line import LONGEST_LINE, find_error

TRACEBACK = [
    "epoch 3",
    "Traceback (most recent call last):",
    '  File "fit.py", line 3, in <module>',
    "    train()",
]


def found_in(output, code=1):
    return find_error([Output(0, "stderr", text) for text in output], code)


HANDLED = [*TRACEBACK, "ConnectionError: reset", "epoch 1 done"]
OF_CUDA = [
    "CUDA kernel errors might be asynchronously reported at some other API call, so wait.",
    "For debugging consider passing CUDA_LAUNCH_BLOCKING=1",
    "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.",
    "",
]
SEARCH = "Search for `cudaErrorAssert' in https://docs.nvidia.com/cuda/cuda-runtime-api for more."
OF_JAX = [
    "--------------------",
    "For simplicity, JAX has removed its internal frames from the traceback of the following.",
]
DURING = "During handling of the above exception, another exception occurred:"
AT_EXIT = [
    "/usr/lib/python3.12/resource_tracker.py:254: UserWarning: 1 leaked semaphore object",
    "  warnings.warn('resource_tracker: There appear to be %d '",
    "[rank0]:[W1123 12:00:00.123 ProcessGroupNCCL.cpp:1250] Warning: was not destroyed",
    "E1123 12:00:00.123000 17 torch/distributed/elastic/api.py:869] failed (exitcode: 1)",
    "2026-11-23 12:00:00.123456: W tensorflow/core/framework/local_rendezvous.cc:404] aborting",
    "srun: error: node1: task 0: Exited with exit code 1",
]


@pytest.mark.parametrize(
    ("output", "line"),
    [
        ([*TRACEBACK, "RuntimeError: CUDA out of memory"], "RuntimeError: CUDA out of memory"),
        (
            [*TRACEBACK, "RuntimeError: wrong state_dict for Net:", '\tMissing key(s): "fc"', ""],
            "RuntimeError: wrong state_dict for Net",
        ),
        ([*TRACEBACK, "RuntimeError: CUDA error", *OF_CUDA], "RuntimeError: CUDA error"),
        (
            [*TRACEBACK, "AcceleratorError: CUDA error", *OF_CUDA[:1], SEARCH],
            "AcceleratorError: CUDA error",
        ),
        ([*TRACEBACK, "ValueError: no", *OF_JAX], "ValueError: no"),
        ([*TRACEBACK, "ValueError: no", *AT_EXIT], "ValueError: no"),
        ([*TRACEBACK, "KeyError: 'x'", "epoch 4", *TRACEBACK, "OSError: y"], "OSError: y"),
        ([*TRACEBACK, "ConnectionError: reset", "epoch 1 done"], None),
        ([*HANDLED, "train.py: giving up: quota exceeded"], None),
        ([*HANDLED, "ValueError: no quota"], "ValueError: no quota"),
        ([*HANDLED, "Epoch 2/10", "giving up"], None),
        ([*HANDLED[:-1], "938/938 ━━━━ 3s 2ms/step"], None),
        ([*HANDLED[:-1], "100%|███| 10/10 [00:01<00:00, 2.31it/s]"], "ConnectionError: reset"),
        ([*TRACEBACK, "AssertionError"], "AssertionError"),
        ([*TRACEBACK, "my.Stopped: enough"], "my.Stopped: enough"),
        (["ValueError: no data", ""], "ValueError: no data"),
        (
            ["/usr/bin/python3: can't open file '/w/nosuch.py': [Errno 2] No such file"],
            "can't open file '/w/nosuch.py': [Errno 2] No such file",
        ),
        (["python: No module named nosuch"], "No module named nosuch"),
        (TRACEBACK, None),
        ([*TRACEBACK, "3 % done"], None),
        ([*TRACEBACK, "my.Stopped: enough", "cleaning up"], "my.Stopped: enough"),
        # Of one that came of another the last counts.
        (
            [*TRACEBACK, "KeyError: 'x'", "", DURING, "", *TRACEBACK[1:], "OSError: no"],
            "OSError: no",
        ),
        (["INFO: done"], None),
        (["Error: something"], "Error: something"),
        (["ValueError: handled", "epoch 2"], None),
        ([], None),
    ],
)
def test_the_exception_that_ended_a_script(output, line):
    assert found_in(output) == line


def test_what_the_other_stream_says_into_a_pipe_comes_late_and_another_exit_code_is_its_own():
    written = [Output(0, "stderr", text) for text in [*TRACEBACK, "ConnectionError: reset"]]
    late = [*written, Output(0, "stdout", "Epoch 2/10")]
    assert (find_error(late, 1), find_error(late, 2)) == ("ConnectionError: reset", None)
    usage = [Output(0, "stderr", text) for text in ("usage: train.py", "train.py: error: no")]
    assert find_error([*written, *usage], 2) is None


def of_rank(rank, lines):
    return [f"[rank{rank}]: {line}" for line in lines]


def test_the_exception_of_a_process_of_torchrun_is_the_first_ones():
    torchrun = [
        "E1123 12:00:00.123000 17 torch/distributed/elastic/api.py:869] failed (exitcode: 1)",
        *TRACEBACK[1:],
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:",
        "============================================================",
        "train.py FAILED",
    ]
    first, second = (of_rank(n, [*TRACEBACK, f"ValueError: {n}", ""]) for n in (0, 1))
    between = [line for both in zip(first, second, strict=True) for line in both]
    for output in (first, [*first, *second], between, [*between, *torchrun]):
        assert found_in(output) == "ValueError: 0"
    # Of one that says nothing torchrun's own is all there is.
    assert found_in(torchrun).endswith("ChildFailedError")


@given(st.lists(st.text(max_size=400) | st.sampled_from(TRACEBACK), max_size=8), st.integers(1, 2))
def test_any_output_gives_a_short_line_or_none(output, code):
    found = found_in(output, code)
    assert found is None or 0 < len(found) <= LONGEST_LINE
