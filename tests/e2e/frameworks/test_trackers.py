"""Real trackers: what they get from a session, and what dlmon reads of what they keep."""

import json
import math
import os
import shutil
import socket
import subprocess
import urllib.request
from pathlib import Path

import pytest
from fakes.sessions import eventually

from dlmon.metric_files.file_session import FileSource
from dlmon.metric_files.find import find_runs

GOLDEN = Path(__file__).parents[2] / "golden" / "sessions" / "pytorch-stalls"
NO_NETWORK = {"WANDB_MODE": "offline", "HTTPS_PROXY": "http://127.0.0.1:9"}
TIMEOUT_S = 120.0


@pytest.fixture
def library(interpreter):
    """Return a function that skips a test if the interpreter lacks a library."""

    def need(name):
        command = "import importlib.util, sys; sys.exit(not importlib.util.find_spec(sys.argv[1]))"
        if subprocess.run([interpreter, "-c", command, name]).returncode:
            pytest.skip(f"{interpreter} has no {name}")

    return need


@pytest.fixture
def script(interpreter, tmp_path):
    """Return a function that runs Python in an empty folder, and returns what it prints."""

    def run(text, **environment):
        return subprocess.run(
            [interpreter, "-c", text],
            cwd=tmp_path,
            env={**os.environ, **NO_NETWORK, "TRACKIO_DIR": str(tmp_path), **environment},
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=True,
        ).stdout

    return run


@pytest.fixture
def exported(dlmon, interpreter, tmp_path):
    """Return a function that exports a session, whose script's python is the interpreter."""

    def export(to, **environment):
        session = tmp_path / "a-session"
        shutil.copytree(GOLDEN, session, dirs_exist_ok=True)
        log = session / "session.jsonl"
        header, rest = log.read_text().split("\n", 1)
        place = {"directory": str(tmp_path), "command": [interpreter, "loop.py"]}
        log.write_text(json.dumps({**json.loads(header), **place}) + "\n" + rest)
        own = {**NO_NETWORK, "TRACKIO_DIR": str(tmp_path), **environment}
        done = dlmon("export", str(log), "--to", to, environment=own)
        assert (done.stderr, done.returncode) == ("", 0)

    return export


def read(path):
    """Return the metrics that are found, by name, with their steps and values."""
    metrics = {}
    for found in find_runs(path):
        source = FileSource(found)
        while source.read_share is not None:
            source.poll(1)
        assert source.problem is None
        for name, points in source.session.points.metrics.items():
            metrics[name] = list(zip(points.steps, points.values, strict=True))
    return metrics


def assert_whole(metrics):
    """Check that metrics hold the golden session."""
    rates = metrics["dlmon/samples_per_second"]
    assert rates[-1] == (600, pytest.approx(2783.803, rel=1e-5))
    assert metrics["dlmon/loss"][0][1] == pytest.approx(2.2984, abs=1e-4)


def test_tensorboard_reads_what_is_sent_and_dlmon_what_it_writes(
    library, exported, script, tmp_path
):
    library("tensorboard")
    exported("tensorboard:logs")
    text = script(
        "import json, sys\n"
        "from tensorboard.backend.event_processing import event_accumulator as events\n"
        "import glob\n"
        "read = events.EventAccumulator(glob.glob('logs/*')[0], {'scalars': 0}); read.Reload()\n"
        "tags = read.Tags()\n"
        "scalars = {t: [(e.step, e.value) for e in read.Scalars(t)] for t in tags['scalars']}\n"
        "doubts = read.Tensors('dlmon/doubts')[0].tensor_proto.string_val[0].decode()\n"
        "print(json.dumps([scalars, doubts]))\n"
    )
    scalars, doubts = json.loads(text)
    assert "busy at the start" in doubts
    theirs = {name: [tuple(point) for point in points] for name, points in scalars.items()}
    assert_whole(theirs)
    assert theirs == read(tmp_path / "logs")


@pytest.mark.costly
def test_torch_writes_event_files_that_are_read_as_tensorboard_does(library, script, tmp_path):
    library("tensorboard")
    library("torch")
    script(
        "from torch.utils.tensorboard import SummaryWriter\n"
        "import math, numpy\n"
        "writer = SummaryWriter('logs')\n"
        "for step in range(0, 40_000, 100):\n"
        "    writer.add_scalar('train/loss', 1 / (step + 1), step)\n"
        "    writer.add_scalar('new', step, step, new_style=True)\n"
        "writer.add_histogram('weights', numpy.zeros(100_000), 5)\n"
        "writer.add_scalar('train/loss', math.nan, 50_000)\n"
        "writer.close()\n"
    )
    metrics = read(tmp_path / "logs")
    *losses, (step, last) = metrics["train/loss"]
    assert losses[100] == (10_000, pytest.approx(1 / 10_001))
    assert (step, math.isnan(last)) == (50_000, True)
    assert metrics["new"] == [(step, step) for step in range(0, 40_000, 100)]


def test_wandb_without_a_network(library, exported, script, tmp_path):
    library("wandb")
    exported("wandb")
    [path] = tmp_path.glob("wandb/offline-run-*/run-*.wandb")
    assert_whole(read(path))
    # W&B has no reader in Python, but it has one for each record.
    script(
        "import wandb\n"
        "run = wandb.init(project='own', mode='offline')\n"
        "for step in range(2000): run.log({'train/loss': 1 / (step + 1), 'nan': float('nan')})\n"
        "run.finish()\n"
    )
    [own] = set(tmp_path.glob("wandb/offline-run-*/run-*.wandb")) - {path}
    metrics = read(own)
    assert metrics["train/loss"] == [(n, pytest.approx(1 / (n + 1))) for n in range(2000)]
    assert all(math.isnan(value) for _, value in metrics["nan"])


@pytest.mark.costly
def test_trackio(library, exported, script, tmp_path):
    library("trackio")
    exported("trackio")
    assert_whole(read(tmp_path / "dlmon.db"))
    script(
        "import trackio\n"
        "run = trackio.init(project='own', auto_log_gpu=False, auto_log_cpu=False)\n"
        "for step in range(50): trackio.log({'train/loss': step / 2}, step=step)\n"
        "trackio.finish()\n"
    )
    assert read(tmp_path / "own.db")["train/loss"] == [(n, n / 2) for n in range(50)]


@pytest.mark.costly
def test_an_mlflow_that_takes_no_folder_says_what_it_takes(library, exported, tmp_path):
    library("mlflow")
    with pytest.raises(AssertionError, match=r"takes no folder: use mlflow:sqlite:///mlflow\.db"):
        exported("mlflow:runs")
    exported("mlflow:runs", MLFLOW_ALLOW_FILE_STORE="true")
    assert_whole(read(tmp_path / "runs"))


@pytest.mark.costly
def test_mlflow_with_a_server_twice_is_one_run(library, exported, dlmon, interpreter, tmp_path):
    library("mlflow")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    url, store = f"http://127.0.0.1:{port}", f"sqlite:///{tmp_path}/mlflow.db"
    command = [interpreter, "-m", "mlflow", "server", "--backend-store-uri", store]
    server = subprocess.Popen(
        [*command, "--port", str(port), "--workers", "1"],
        cwd=tmp_path,
        # What runs jobs takes longer to start than all else.
        env={**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )

    def answers():
        try:
            return urllib.request.urlopen(f"{url}/health", timeout=5).status == 200
        except OSError:
            return False

    try:
        eventually(answers, "MLflow's server")
        exported(f"mlflow:{url}")
        first = read(tmp_path / "mlflow.db")
        assert_whole(first)
        log = str(tmp_path / "a-session" / "session.jsonl")
        assert dlmon("export", log, "--to", f"mlflow:{url}").returncode == 0
        assert len(find_runs(tmp_path / "mlflow.db")) == 1
        assert read(tmp_path / "mlflow.db") == first
    finally:
        os.killpg(server.pid, 9)
        server.wait()


OWN_RUNS = """
import sys, torch

logs = []
if "trackio" in sys.argv:
    import trackio
    quiet = {"auto_log_gpu": False, "auto_log_cpu": False}
    trackio.init(project="own", name="mine", config={"lr": 1}, **quiet)
    logs.append(lambda loss, step: trackio.log({"train/loss": loss}, step=step))
if "tensorboard" in sys.argv:
    from torch.utils.tensorboard import SummaryWriter
    writer = SummaryWriter("runs/mine")
    logs.append(lambda loss, step: writer.add_scalar("train/loss", loss, step))
if "mlflow" in sys.argv:
    import mlflow
    mlflow.start_run(run_name="mine")
    logs.append(lambda loss, step: mlflow.log_metric("train/loss", loss, step=step))
layer = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(layer.parameters())
for step in range(300):
    loss = layer(torch.ones(8, 8)).square().mean()
    loss.backward()
    optimizer.step()
    for log in logs if step % 100 == 0 else ():
        log(loss.item(), 10 * step)
if "tensorboard" in sys.argv:
    writer.close()
"""


@pytest.fixture
def exec_and_export(library, dlmon, interpreter, tmp_path):
    """Return a function that runs a script that logs to trackers itself, and sends its session.

    To the first tracker while it runs, and to the others afterwards.
    """

    def run(first, *others):
        names = [to.partition(":")[0] for to in (first, *others)]
        for name in ("torch", *names):
            library(name)
        (tmp_path / "train.py").write_text(OWN_RUNS)
        uri = f"sqlite:///{tmp_path}/mlflow.db"
        own = {**NO_NETWORK, "TRACKIO_DIR": str(tmp_path), "MLFLOW_TRACKING_URI": uri}
        command = ("--directory", str(tmp_path), "--", interpreter, "train.py", *names)
        ends = [dlmon("exec", "--plain", "--to", first, *command, environment=own)]
        ends += [dlmon("export", "last", "--to", to, environment=own) for to in others]
        assert [end.returncode for end in ends] == [0] * len(ends), ends

    return run


def assert_is_one_run(path):
    """Check that the script's metrics and dlmon's are in one run, each on its own steps."""
    [_] = find_runs(path)
    metrics = read(path)
    assert [step for step, _ in metrics["train/loss"]] == [0, 1000, 2000]
    assert metrics["dlmon/final/batches"] == [(300, 300.0)]
    assert "dlmon/step_ms" in metrics


def test_a_script_that_logs_itself_has_all_in_its_own_run(exec_and_export, script, tmp_path):
    exec_and_export("trackio", "tensorboard:runs")
    assert_is_one_run(tmp_path / "own.db")
    assert_is_one_run(tmp_path / "runs")
    text = script(
        "import json, sqlite3\n"
        "from tensorboard.backend.event_processing import event_accumulator as events\n"
        "read = events.EventAccumulator('runs/mine', {'scalars': 0}); read.Reload()\n"
        "[config] = sqlite3.connect('own.db').execute('SELECT config FROM configs')\n"
        "print(json.dumps([read.Tags()['scalars'], json.loads(config[0])['lr']]))\n"
    )
    tags, learning_rate = json.loads(text)
    assert {"train/loss", "dlmon/step_ms"} <= set(tags)
    assert learning_rate == 1


@pytest.mark.costly
def test_a_script_that_logs_to_mlflow_has_all_in_its_own_run(exec_and_export, tmp_path):
    exec_and_export("mlflow")
    assert_is_one_run(tmp_path / "mlflow.db")
