"""What the headline of a session says: first what stops it, then what takes most of the time."""

from dataclasses import replace

import pytest
from fakes.recorded import folded, recorded_machine, recorded_session
from fakes.states import RECORDINGS, STATES

from dlmon.figures.session.headline import headline_of
from dlmon.records import (
    Batches,
    FailureKind,
    Frame,
    Machine,
    NamedPause,
    Notice,
    Output,
    SeenAt,
    SourceLines,
    Stack,
    StandardInput,
    Status,
)
from dlmon.session.gaps import Gap, GapKind
from dlmon.session.limits.evidence import KINDS, Evidence, Limit, Tone
from dlmon.session.limits.rules import FEWER_KERNELS

SECOND = 1_000_000_000
TRAINING = folded(recorded_session("training")).snapshot()
COMPLETED = folded(recorded_session()).snapshot()
FAILED = folded(recorded_session(status="failed")).snapshot()
SLEEPS = Limit(
    (
        Evidence(
            *("own-code", "67 %", ("train.py:41 in train", "11.7 of 17.5 ms a step")),
            advice="take it out of the loop",
        ),
        Evidence("data-wait", "12 %", ("waiting for the next batch",)),
    )
)


def failed(error, kind, *lines):
    result = replace(FAILED.result, error=error, failure=kind)
    output = tuple(Output(number, "stderr", text) for number, text in enumerate(lines))
    return headline_of(replace(FAILED, result=result, output=output), False)


def test_what_limits_a_run_is_its_name_its_figure_its_reasons_and_what_to_try():
    headline = headline_of(replace(TRAINING, limit=SLEEPS), True)
    assert headline.text == "YOUR CODE 67 %: train.py:41 in train, 11.7 of 17.5 ms a step"
    assert (headline.advice, headline.tone) == ("take it out of the loop", Tone.LIMIT)
    assert headline.also[0] == "DATA-BOUND 12 %"
    assert headline.as_json["name"] == "YOUR CODE"
    # The recording of a machine has no run to speak of.
    assert headline_of(folded(recorded_machine()).snapshot(), True) is None


def test_a_failure_is_its_error_and_the_innermost_line_of_the_script_itself():
    headline = failed(
        "the script ended with exit code 1: ValueError: no such shape",
        FailureKind.EXCEPTION,
        "Traceback (most recent call last):",
        '  File "/home/a/train.py", line 88, in <module>',
        '  File "/home/a/train.py", line 41, in load',
        '  File "/usr/lib/python3.12/site-packages/torch/nn/modules/linear.py", line 9, in forward',
        "ValueError: no such shape",
    )
    assert headline.text == "FAILED: train.py:41 in load: ValueError: no such shape"
    assert headline.tone is Tone.BAD
    # Only the last traceback counts, and one without a line of the script names none.
    library = '  File "/usr/lib/python3.12/threading.py", line 9, in run'
    first = ("Traceback (most recent call last):", '  File "a.py", line 1, in f', "KeyError: 1")
    again = (*first, "Traceback (most recent call last):", library, "OSError: 2")
    assert failed("OSError: 2", FailureKind.EXCEPTION, *again).text == "FAILED: OSError: 2"
    assert failed("memory ran out", FailureKind.OUT_OF_MEMORY).title == "OUT OF MEMORY"


@pytest.mark.parametrize(
    ("overdue_s", "title"),
    [(None, "YOUR CODE 67 %"), (4.0, "YOUR CODE 67 %"), (37.4, "STALLED 0:37")],
)
def test_a_run_is_stalled_once_no_step_ends_for_long(overdue_s, title):
    headline = headline_of(replace(TRAINING, limit=SLEEPS, overdue_s=overdue_s), True)
    assert headline.title == title


def test_of_a_stalled_run_it_is_said_where_it_hangs():
    frame = Frame("/home/a/hang.py", 5, "wait_for_lock")
    begin = TRAINING.header.t
    stack = Stack(begin + 30 * SECOND, begin, 600, 600, (SeenAt(600, frame, frame),), goes_on=True)
    pause = Gap(begin, begin + 37 * SECOND, GapKind.STALL, 0, 600)
    stalled = replace(TRAINING, overdue_s=3_700.0, pause=pause, stacks=(stack,))
    assert headline_of(stalled, True).text == (
        "STALLED 1:01:40: at step 601 of epoch 1: hang.py:5 in wait_for_lock"
    )
    # Once it is over, it isn't stalled any more.
    assert headline_of(stalled, False).rule != "stalled"


@pytest.mark.parametrize(
    ("stood_s", "goes_on", "title"),
    [(60, False, "STALLED 1:00"), (60, True, None), (3, False, None)],
    ids=["it stood", "a step ends after the request", "it trained"],
)
def test_a_run_that_was_stopped_as_it_stood_at_a_line_keeps_that_line(stood_s, goes_on, title):
    records = [r for r in recorded_session("training") if not isinstance(r, Machine)]
    session = folded(records)
    frame, steps = Frame("/home/a/hang.py", 17, "wait"), session.snapshot().progress.step
    last = next(r for r in reversed(records) if isinstance(r, Batches))
    begin = last.t_last
    stopped = begin + stood_s * SECOND
    seen = (SeenAt(600, frame, frame),)
    session.add(Stack(stopped - SECOND, begin, 600, 600, seen, goes_on=True))
    session.add(Notice(stopped, "stopping: asked with dlmon stop", stops=True))
    if goes_on:
        later = {"first": last.first + last.count, "t": stopped + SECOND, "dt_us": (61_000_000,)}
        session.add(replace(last, samples=32, wait_us=None, **later))
    session.add(Stack(stopped + SECOND, begin, 610, 610, seen))
    result = folded(recorded_session()).result
    session.add(replace(result, t=stopped + 2 * SECOND, status=Status.STOPPED))
    headline = headline_of(session.snapshot(), False, Status.STOPPED)
    if title is None:
        assert headline.rule != "stalled"
        return
    assert headline.text == f"{title}: at step {steps + 1} of epoch 2: hang.py:17 in wait"
    assert headline.advice == ""


def test_a_script_that_waits_for_a_person_says_so_at_once_and_where_to_answer():
    frame, inner = Frame("/home/a/train.py", 5, "ask"), Frame("/usr/lib/python3.11/pdb.py", 9, "f")
    stack = Stack(9 * SECOND, 0, 9, 9, (SeenAt(9, inner, frame),), goes_on=True)
    header = replace(TRAINING.header, standard_input=StandardInput.TERMINAL)
    pause = Gap(0, 9 * SECOND, GapKind.STALL, 0, 600)
    waits = replace(TRAINING, header=header, pause=pause, stacks=(stack,))
    assert headline_of(waits, True).text == "WAITS FOR INPUT 0:09: train.py:5 in ask → pdb.py in f"
    assert headline_of(waits, True).advice == "answer where dlmon exec --plain runs"
    assert headline_of(waits, False).rule != "input"


@pytest.mark.parametrize(
    ("error", "standard_input", "is_told"),
    [
        ("EOFError: EOF when reading a line", StandardInput.NONE, True),
        ("bdb.BdbQuit", StandardInput.NONE, True),
        ("EOFError: EOF when reading a line", StandardInput.OTHER, False),
        ("EOFError: Ran out of input", StandardInput.NONE, False),
    ],
)
def test_a_script_that_read_from_no_keyboard_is_told_how_to_get_one(error, standard_input, is_told):
    result = replace(FAILED.result, error=error, failure=FailureKind.EXCEPTION)
    header = replace(FAILED.header, standard_input=standard_input)
    headline = headline_of(replace(FAILED, result=result, header=header), False)
    assert ("--plain" in headline.advice) is is_told


def test_a_run_that_was_asked_to_end_is_stopping_whoever_watches_it():
    session = folded(recorded_session("training"))
    asked_ns = session.last_t
    session.add(Notice(asked_ns, "stopping: asked with dlmon stop", stops=True))
    session.add(Notice(asked_ns + SECOND, "stopping: again", stops=True))
    snapshot = session.snapshot(asked_ns + 12 * SECOND)
    assert headline_of(snapshot, True).text == "STOPPING 0:12: it ends after the current batch"
    assert headline_of(snapshot, False).rule != "stopping"
    script = replace(snapshot, header=replace(snapshot.header, command=("python", "train.py")))
    assert "SIGTERM" in headline_of(script, True).reason


def test_a_run_without_a_record_for_long_gives_no_sign_of_life_and_says_why_if_that_is_known():
    silent = replace(TRAINING, limit=SLEEPS, silent_s=62.0)
    assert headline_of(silent, True, problem="its supervisor is suspended").text == (
        "NO SIGN OF LIFE 1:02: its supervisor is suspended"
    )
    assert headline_of(silent, False, Status.INTERRUPTED).name == "INTERRUPTED"
    assert headline_of(silent, False, Status.COMPLETED).name == "YOUR CODE"


def test_of_pauses_the_longest_is_named():
    gaps = (
        Gap(0, 2 * SECOND, GapKind.STALL, 0, 10),
        Gap(9 * SECOND, 21 * SECOND, GapKind.BETWEEN, 1),
    )
    limit = Limit((Evidence("pauses", "40 %", ("14.0 of 35.0 s since the first step",)),))
    headline = headline_of(replace(TRAINING, limit=limit, gaps=gaps), True)
    assert headline.reasons[1] == "the longest 12.0 s after epoch 2"
    # A checkpoint counts apart.
    saved = NamedPause(9 * SECOND, 21 * SECOND, "checkpoint")
    headline = headline_of(replace(TRAINING, limit=limit, gaps=gaps, pauses=(saved,)), True)
    assert headline.reasons[1].startswith("the longest 2.00 s")


def of_state(name, is_over=False):
    session = folded(STATES[name].records)
    status = Status.INTERRUPTED if is_over else Status.RUNNING
    return headline_of(session.snapshot(is_over=is_over), not is_over, status)


@pytest.mark.parametrize("name", sorted(STATES.keys() - {*RECORDINGS}))
def test_every_state_says_what_is_so_and_what_to_do(name):
    state = STATES[name]
    headline = of_state(name, is_over=not state.locked)
    assert headline.reason
    # Where it failed, and why, is what to mend.
    assert headline.advice or headline.rule == "failed"


@pytest.mark.parametrize(
    ("name", "text", "advice"),
    [
        (
            "own-script",
            "YOUR CODE 70 %: train_resnet.py:118 in augment: about 11 of the 12.7 ms",
            "take train_resnet.py:118 out of the loop, or run it every few steps",
        ),
        (
            "own-script-without-samples",
            "YOUR CODE 70 %: 12.7 of 18.2 ms a step outside loader, network, optimiser",
            "see at which line it is, a few times (S, dlmon stack)",
        ),
        *(
            (
                name,
                "WAITING FOR RANK 5, 49 %: it waits 9.95 ms a step for data, others 1.05 ms",
                "look for what rank 5 loads more slowly: its data, its CPUs, its disk",
            )
            for name in ("waiting-for-rank", "ranks-without-sensors")
        ),
        (
            "data-bound",
            "DATA-BOUND 58 %: 10.8 of 18.5 ms a step waiting for the next batch, GPU 0 busy 36 %",
            "use more loader workers: 2 used, 4 cores idle",
        ),
        (
            "evaluating",
            "EVALUATING 0:00: after 3 epochs of training (GPU-BOUND 97 %)",
            "wait for its result",
        ),
        (
            "opening",
            "EPOCH START 0:01: before the first step of epoch 2, "
            "epoch starts take 9 % of the time, steps: GPU-BOUND 97 %",
            "if it takes long, see at which line it is (S, dlmon stack)",
        ),
        (
            "power-cap",
            "POWER CAP −16 %: at most, as GPU 0 runs at 1607 of 1911 MHz, 118 of 120 W, "
            "busy 97 % while it trains",
            "raise the power limit above 120 W, if the card allows it",
        ),
        (
            "no-gpu",
            "NOT CLEAR: this run 2.9 of 8 cores, 4.8 cores idle, other programs 0.3 cores, "
            "waiting for data is not measured with Keras on TensorFlow",
            "profile its next steps (P, dlmon profile)",
        ),
        (
            # Its busiest thread takes a third of its CPU time.
            "slow-cpu",
            "NOT CLEAR: this run 2.9 of 8 cores, 4.8 cores idle, other programs 0.3 cores, "
            "busiest thread 96 % of a core, "
            "waiting for data is not measured with Keras on TensorFlow",
            "profile its next steps (P, dlmon profile)",
        ),
        (
            # Why nothing is clear stands first.
            "unsupported-gpu",
            "NOT CLEAR: utilisation of GPU 0 not read: not supported, this run 2.9 of 8 cores, "
            "4.8 cores idle, other programs 0.3 cores, "
            "waiting for data is not measured with Keras on TensorFlow",
            "profile its next steps (P, dlmon profile)",
        ),
        (
            "lost-gpu",
            "GPU LOST 6 s: GPU 0 gives no readings now, the run still steps",
            "look for its error in the kernel's log (dmesg)",
        ),
    ],
)
def test_a_state_says(name, text, advice):
    headline = of_state(name)
    assert (headline.text, headline.advice) == (text, advice)


@pytest.mark.parametrize("name", ["opening", "evaluating"])
def test_a_loss_that_is_no_number_leads_between_steps_too(name):
    snapshot = folded(STATES[name].records).snapshot()
    limit = Limit((Evidence("loss", "", ("the loss is NaN",)),))
    assert headline_of(replace(snapshot, limit=limit), True).title == "NAN LOSS"


def test_steps_without_readings_of_the_machine_have_a_limit():
    records = [r for r in STATES["data-bound"].records if not isinstance(r, Machine)]
    for is_over in (False, True):
        snapshot = folded(records).snapshot(is_over=is_over)
        assert headline_of(snapshot, not is_over).title == "DATA-BOUND 58 %"


def test_a_run_that_compiled_is_not_advised_to_compile():
    headline = of_state("training")
    # Nor to use bf16 on a GPU that hasn't it.
    assert headline.advice == "a smaller model, or a faster GPU"
    kernels = Limit((Evidence("gpu-kernels", "", ("GPU 0 is busy",), FEWER_KERNELS),))
    eager = folded(STATES["own-script"].records).snapshot()
    for snapshot, advice in (
        (TRAINING, "run fewer, larger kernels: use CUDA graphs"),
        (eager, FEWER_KERNELS),
    ):
        assert headline_of(replace(snapshot, limit=kernels), True).advice == advice


def test_a_run_on_one_of_many_idle_gpus_is_advised_to_use_more():
    advice = of_state("16-gpus").advice
    assert advice == "train on more GPUs, if it may use them: 15 of 16 are idle"


def test_a_script_that_nobody_ended_is_not_to_be_run_beside_itself():
    advice = of_state("stalled-and-over", is_over=True).advice
    assert advice == "see if the script still runs (ps) before you run it again"
    assert of_state("interrupted", is_over=True).advice.startswith("see what ended it")


def test_an_interrupted_run_says_how_far_it_was_and_where_it_stood():
    assert of_state("interrupted", is_over=True).reason == (
        "after step 250 of 500 in epoch 2/3; it ended without a result"
    )
    assert of_state("stalled-and-over", is_over=True).reason == (
        "stalled 1:15 at step 107 of epoch 2: train_resnet.py:88 in save; "
        "then it ended without a result"
    )


def test_what_needs_a_running_process_is_not_advised_once_it_is_over():
    limit = Limit((Evidence("network", "90 %", ("forward and backward",)),))
    assert "(P" in headline_of(replace(TRAINING, limit=limit), True).advice
    assert headline_of(replace(COMPLETED, limit=limit), False).advice == ""


def test_every_name_is_short_and_upper_case():
    assert all(kind.name == kind.name.upper() and len(kind.name) <= 21 for kind in KINDS.values())


def test_busy_hardware_gets_the_advice_that_applies():
    snapshot = folded(STATES["own-script"].records).snapshot()
    busy = replace(snapshot, limit=Limit((Evidence("gpu", "97 %", ("GPU 0 is busy",)),)))
    (gpu,) = busy.header.machine.gpus
    machine = replace(busy.header.machine, gpus=(replace(gpu, name="NVIDIA A100"),))
    float32 = replace(busy.model, compute_precision="float32")
    cases = (
        (busy, "torch.compile, a smaller model, or a faster GPU"),
        (
            replace(busy, model=float32, header=replace(busy.header, machine=machine)),
            "lower precision (bf16), torch.compile, a smaller model, or a faster GPU",
        ),
        (replace(busy, trainers=()), "a smaller model, or a faster GPU"),
    )
    for shown, advice in cases:
        assert headline_of(shown, True).advice == advice


def test_only_a_run_that_stands_in_a_save_is_asked_for_its_disk():
    assert of_state("stalled").advice.startswith("is the file system full or away (df)? ")
    records = [r for r in STATES["stalled"].records if not isinstance(r, SourceLines)]
    advice = headline_of(folded(records).snapshot(), True).advice
    assert advice == "see all stacks (S, dlmon stack)"
