"""Real scripts that stall: the line that every rank is at; and profiles of their steps."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from fakes.costly import with_costly
from fakes.sessions import eventually
from fakes.sshd import free_port

from dlmon.figures.session.headline import headline_of
from dlmon.log.directory import list_sessions, stop_session
from dlmon.records import Batches, ProcessStack, Profile, Stack, decode
from dlmon.session.follower import SessionFollower
from dlmon.supervisor.trace import of_xspace

ROOT = Path(__file__).parents[3]
TIMEOUT_S = 240.0
SCRIPTS = Path(__file__).parent / "scripts"
TORCH = """
import os, sys, time, torch
from torch.utils.data import DataLoader, Dataset, TensorDataset

class Slow(Dataset):
    def __len__(self):
        return 400
    def __getitem__(self, number):
        if number == 200:
            read_a_file()
        return torch.randn(8), torch.tensor(0)

def read_a_file():
    time.sleep(600)

def loop(model, loader, pause=lambda: None):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step, (x, y) in enumerate(loader):
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()
        if step == 40:
            pause()

data = TensorDataset(torch.randn(800, 8), torch.zeros(800, dtype=torch.long))
"""
# The profiler needs what the others go without.
UNCOMPILED = f"""{TORCH}
sys.path.append({str(SCRIPTS)!r})
import uncompiled
"""
SAVES = f"""{UNCOMPILED}
class Disk:
    def write(self, data):
        time.sleep(0.1)
        return len(data)
    def flush(self):
        pass

def save():
    torch.save(model.state_dict(), Disk(), _use_new_zipfile_serialization=False)

model = torch.nn.Sequential(*(torch.nn.Linear(8, 8) for _ in range(6)))
loop(model, DataLoader(data, batch_size=8), save)
"""
ONE_IS_LATE = f"""{UNCOMPILED}
def evaluate():
    if int(os.environ["RANK"]) == 1:
        time.sleep(600)

def reduce(gradient):
    torch.distributed.all_reduce(gradient)
    return gradient

torch.distributed.init_process_group("gloo")
model = torch.nn.Linear(8, 2)
model.weight.register_hook(reduce)
loop(model, DataLoader(data, 8), evaluate)
"""
LOADS = f"""{UNCOMPILED}
if __name__ == "__main__":
    how, workers = sys.argv[1:]
    loader = DataLoader(Slow(), 4, num_workers=int(workers), multiprocessing_context=how)
    loop(torch.nn.Linear(8, 2), loader)
"""
GOES_ON = f"""{TORCH}
model = torch.nn.Linear(8, 2)
while True:
    loop(model, DataLoader(data, batch_size=8))
"""
ENDS = f"""{TORCH}
class Loader(DataLoader):
    def __iter__(self):
        for batch in super().__iter__():
            time.sleep(0.02)
            if os.path.exists("end"):
                os._exit(3)
            yield batch

sys.settrace(lambda *_: None)
model = torch.nn.Linear(8, 2)
while True:
    loop(model, Loader(data, batch_size=8))
"""
KERAS = """
import os, sys
os.environ["KERAS_BACKEND"] = sys.argv[1]
import keras, numpy
model = keras.Sequential([keras.layers.Input((8,)), keras.layers.Dense(64), keras.layers.Dense(2)])
model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
x, y = numpy.random.rand(8000, 8).astype("float32"), numpy.zeros(8000, dtype="int32")
model.fit(x, y, epochs=100, batch_size=8, verbose=0)
"""


WAITS = """
import time

class Waits(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if batch == 300:
            read_a_file()

def read_a_file():
    time.sleep(2.5)

model.fit(callbacks=[Waits()], x=x, y=y, epochs=1, """
KERAS_WAITS = KERAS.replace("model.fit(x, y, epochs=100, ", WAITS)


class Run:
    """A script under `dlmon exec`, which is stopped at the end of its test."""

    def __init__(self, tmp_path: Path, cache: str) -> None:
        self.folder, self.logs, self.cache = tmp_path, tmp_path / "logs", cache

    def begin(self, command, *words):
        main = "from tui.start import main; main()"
        own = {"OMP_NUM_THREADS": "1", "XDG_CACHE_HOME": self.cache}
        return subprocess.Popen(
            [sys.executable, "-P", "-c", main, command, "--log-dir", str(self.logs), *words],
            cwd=self.folder,
            env={**os.environ, **own},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def dlmon(self, command, *words):
        with self.begin(command, *words) as process:
            try:
                out, errors = process.communicate(timeout=TIMEOUT_S)
            finally:
                process.kill()
        assert process.returncode == 0, errors
        return out

    def start(self, text, *words, until, options=("--detach",)):
        (self.folder / "train.py").write_text(text)
        self.dlmon("exec", *options, "--", *words)
        eventually(lambda: any(map(until, self.records())), "what is waited for")

    @property
    def entry(self):
        [entry] = list_sessions(self.logs)
        return entry

    def records(self):
        whole = self.entry.path.read_bytes().rpartition(b"\n")[0]
        return [decode(line) for line in whole.splitlines()]

    def close(self):
        if self.logs.exists() and self.entry.result is None:
            stop_session(self.entry)
            eventually(lambda: self.entry.result is not None, "the end")


@pytest.fixture
def script(tmp_path, shared_cache):
    made = Run(tmp_path, shared_cache)
    yield made
    made.close()


def is_long_pause(record):
    return isinstance(record, Stack) and record.t - record.begin > 10**9


def test_a_checkpoint_that_takes_long_is_named_with_what_it_called(interpreter, script):
    script.start(SAVES, interpreter, "train.py", until=is_long_pause, options=("--plain",))
    stack = [each for each in script.records() if is_long_pause(each)][-1]
    first = stack.places[0]
    # The disk is the script's, too: its line is the innermost.
    assert first.script.function in ("write", "save")
    shown = script.dlmon("report", "--format", "md", "-o", "-", "last")
    assert "train.py:" in shown


def test_a_callback_of_keras_that_waits_is_named(script):
    words = (sys.executable, "train.py", "tensorflow")
    script.start(KERAS_WAITS, *words, until=is_long_pause, options=("--plain",))
    ended = [each for each in script.records() if isinstance(each, Stack) and not each.goes_on]
    # A machine that is busy makes pauses of its own.
    (stack,) = [each for each in ended if each.places[0].script.function == "read_a_file"]
    assert stack.t - stack.begin > 2.4e9
    assert stack.places[0].looks > stack.looks / 2


def test_of_ranks_that_wait_for_each_other_the_one_that_is_elsewhere_is_seen(interpreter, script):
    # As torchrun does, which would import PyTorch once more.
    both = " & ".join(f"RANK={rank} LOCAL_RANK={rank} {interpreter} train.py" for rank in (0, 1))
    shared = f"export WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT={free_port()}"
    script.start(ONE_IS_LATE, "sh", "-c", f"{shared}; {both} & wait", until=is_long_pause)
    stacks = json.loads(script.dlmon("stack", "last", "--json"))
    at = {each["rank"]: each["threads"][0] for each in stacks if "worker" not in each}
    assert at[0]["script"]["function"] == "reduce"
    assert any("backward" in frame["function"] for frame in at[0]["frames"])
    assert at[1]["script"]["function"] == "evaluate"
    with contextlib.closing(SessionFollower(script.entry.path)) as follower:

        def headline():
            follower.poll()
            return headline_of(follower.snapshot(), True)

        eventually(lambda: headline() is not None and headline().name == "STALLED", "the stall")
        eventually(lambda: "in evaluate" in headline().reason, "the line of rank 1")
    # It is in the log, too, as what was asked for.
    assert {each.rank for each in script.records() if isinstance(each, ProcessStack)} == {0, 1}
    refused = script.begin("profile", "last")
    out, errors = refused.communicate(timeout=TIMEOUT_S)
    assert (refused.returncode, out) == (2, "")
    assert "no step has come for" in errors


@pytest.mark.parametrize(
    ("context", "count"), [("fork", 2), pytest.param("spawn", 1, marks=pytest.mark.costly)]
)
def test_what_a_loaders_worker_is_at_is_shown(interpreter, script, context, count):
    script.start(LOADS, interpreter, "train.py", context, str(count), until=is_long_pause)
    lines = script.dlmon("stack", "last").splitlines()
    workers = [line for line in lines if line.startswith("loader worker: ")]
    assert len(workers) == count
    assert any("in read_a_file" in line for line in workers)
    stacks = json.loads(script.dlmon("stack", "last", "--json"))
    of_workers = [each for each in stacks if "worker" in each]
    frames = [
        frame for each in of_workers for thread in each["threads"] for frame in thread["frames"]
    ]
    # What a worker was forked from is not what it does.
    assert all(frame["function"] != "loop" for frame in frames)


@pytest.mark.parametrize("profiler", with_costly(["torch", "jax", "tensorflow"], but="torch"))
def test_steps_are_profiled_and_count_nowhere(profiler, interpreter, script):
    python = sys.executable if profiler == "tensorflow" else interpreter
    text = GOES_ON if profiler == "torch" else KERAS
    script.start(
        text, python, "train.py", profiler, until=lambda record: isinstance(record, Batches)
    )
    said = script.dlmon("profile", "--steps", "3", "last")
    assert "\n3 steps by " in said
    [made] = [each for each in script.records() if isinstance(each, Profile)]
    assert (made.profiler, made.steps, made.file) == (profiler, 3, "profile-1.json.gz")
    assert profiler != "torch" or any(each.name.startswith("aten::") for each in made.operations)
    assert 0.5 < sum(each.share for each in made.operations) < 1.01
    trace = json.loads(gzip.decompress((script.entry.path.parent / made.file).read_bytes()))
    assert len(trace["traceEvents"]) >= 3
    profiled = [each for each in script.records() if isinstance(each, Batches) and each.profiled]
    assert 1 <= sum(len(each.dt_us) for each in profiled) <= 5


QUEUES = """
import sys, time
from types import SimpleNamespace
import jax, jax.numpy as jnp
from dlmon.instrument.profiles import Profiles

sent, training = [], SimpleNamespace(batch_ended=lambda batch: None)
profiles = Profiles(sent.append, lambda: training)
profiles.backend = "jax"
step, x = jax.jit(lambda x: x @ x / 1000), jnp.ones((1000, 1000))
for number in range(40):
    if number == 20:
        profiles.begin(1, {"steps": 5, "path": sys.argv[1]})
    x = step(x)
    training.batch_ended(number)
while not hasattr(sent[-1], "profiler"):
    time.sleep(0.01)
"""


def test_a_profile_holds_its_own_steps_though_a_device_computes_those_before(interpreter, tmp_path):
    path = tmp_path / "trace.pb"
    environment = os.environ | {"PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}
    subprocess.run([interpreter, "-c", QUEUES, str(path)], env=environment, check=True)
    ran = Counter(each.name for each in of_xspace(memoryview(path.read_bytes())))
    # What waits for the device is in it once.
    assert {count for name, count in ran.items() if "fusion" in name} - {1} == {5}


@pytest.mark.parametrize("how", with_costly(["by os._exit", "by dlmon stop"], but="by dlmon stop"))
def test_a_run_that_ends_in_the_middle_of_a_profile_says_so_and_leaves_no_trace(
    how, interpreter, script
):
    script.start(ENDS, interpreter, "train.py", until=lambda record: isinstance(record, Batches))
    asked = script.begin("profile", "--steps", "1000", "last")
    eventually(lambda: any(getattr(each, "profiled", None) for each in script.records()), "a step")
    if how == "by dlmon stop":
        stop_session(script.entry)
    else:
        (script.folder / "end").touch()
    _, errors = asked.communicate(timeout=TIMEOUT_S)
    assert (asked.returncode, errors.count("\n")) == (2, 1), errors
    assert "ended" in errors
    eventually(lambda: script.entry.result is not None, "the end")
    assert not [path for path in script.entry.path.parent.iterdir() if "profile" in path.name]
