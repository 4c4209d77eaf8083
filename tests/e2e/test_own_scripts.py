"""`dlmon exec`: a script runs as it would alone, and what it trains is recorded."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from fakes.sessions import DEADLINE_S, eventually, is_alive

from dlmon.log.directory import list_sessions
from dlmon.records import Batches, Epoch, Model, Notice, Output, Phase, Trainer, decode

ROOT = Path(__file__).parents[2]
DLMON = [sys.executable, "-P", "-c", "from tui.start import main; main()"]
LOOP = """
import dlmon, time
samples = 0
with dlmon.training(samples=1280, batch_size=64, epochs=2, network="mine"):
    for epoch in range(2):
        for batch in range(20):
            time.sleep(0.01)
            dlmon.step()
            samples += 64
        dlmon.epoch(loss=1 / (epoch + 1))
print(samples)
"""


class Done:
    """What became of a command."""

    def __init__(self, process, stdout, stderr, folder):
        self.code, self.stdout, self.stderr = process.returncode, stdout, stderr
        self.files = {
            str(path.relative_to(folder)): path.read_bytes()
            for path in sorted(folder.rglob("*"))
            if path.is_file() and "__pycache__" not in path.parts
        }


@pytest.fixture
def folder(tmp_path):
    """Return a function that makes a working directory of its own with these files."""

    def make(name, files):
        path = tmp_path / name
        path.mkdir()
        for file, text in files.items():
            (path / file).parent.mkdir(parents=True, exist_ok=True)
            (path / file).write_text(text)
        return path

    return make


@pytest.fixture
def log_dir(tmp_path, monkeypatch, shared_cache):
    monkeypatch.setenv("XDG_CACHE_HOME", shared_cache)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "logs"


@pytest.fixture
def execute(log_dir, dlmon):
    """Return a function that runs a command under `dlmon exec`."""

    def run(command, cwd, stdin=b"", options=(), environment=()):
        words = ["exec", "--plain", "--log-dir", str(log_dir), *options, "--", *command]
        # A fork has no input, and is no new Python, which an environment may be for.
        if stdin or environment:
            return _run([*DLMON, *words], cwd, stdin, environment)
        done = dlmon(*words, directory=cwd)
        streams = (text.encode(errors="surrogateescape") for text in (done.stdout, done.stderr))
        return Done(done, *streams, cwd)

    return run


@pytest.fixture
def begin(log_dir):
    """Return a function that starts a script under `dlmon exec`; both end with the test."""
    processes = []

    def start(script, cwd, **streams):
        words = [*DLMON, "exec", "--plain", "--log-dir", str(log_dir), "--"]
        command = [*words, sys.executable, "-c", script]
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, **streams}
        processes.append(subprocess.Popen(command, cwd=cwd, **streams))
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
        process.wait()


@pytest.fixture
def on_a_terminal(begin):
    """Return a function that starts one on a terminal, and what reads all of that."""

    def start(script, cwd):
        master, slave = pty.openpty()
        process = begin(script, cwd, stdin=subprocess.DEVNULL, stdout=slave, stderr=slave)
        os.close(slave)

        def read():
            seen = b""
            with contextlib.suppress(OSError), os.fdopen(master, "rb", buffering=0) as terminal:
                while data := terminal.read(65536):
                    seen += data
            return seen

        return process, read

    return start


def _run(command, cwd, stdin=b"", environment=()):
    process = subprocess.Popen(
        command,
        cwd=cwd,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **dict(environment)},
    )
    stdout, stderr = process.communicate(stdin, timeout=DEADLINE_S)
    return Done(process, stdout, stderr, cwd)


def records_of(log_dir):
    """Return the records of the newest session."""
    entry = max(list_sessions(log_dir), key=lambda entry: entry.header.wall)
    return [decode(line) for line in entry.path.read_bytes().splitlines()], entry


def notices_of(log_dir):
    records, _ = records_of(log_dir)
    return [record.text for record in records if isinstance(record, Notice)]


HARD_CASES = {
    "prints, reads and leaves files": """
import os, subprocess, sys
open("made.txt", "w").write("by me")
print("out", sys.argv[1:], flush=True)
print("err", file=sys.stderr)
print(sys.stdin.read().upper(), end='')
print(os.getcwd(), __file__, __name__, sys.argv, sys.path[0] == os.getcwd(), sys.stdout.isatty())
print(sys.executable == os.path.realpath(sys.executable) or sys.executable)
print([folder for folder in sys.path if 'entry' in folder])
print(subprocess.run([sys.executable, '-c', 'print(6 * 7)'], capture_output=True).stdout)
print('x' * 79 + '\\n' + 'y' * 5_000_000, flush=True)
for i in range(101):
    sys.stderr.write('\\r%d%%' % i)
os.write(1, bytes(range(256)) * 3)
""",
    "raises": "raise ValueError('no luck')",
    "ends by os._exit": "import os; os.write(1, b'bye'); os._exit(9)",
    "is ended by a signal": "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
    "starts workers": """
import multiprocessing
def work(number):
    return number * number
if __name__ == '__main__':
    for how in 'spawn', 'fork':
        with multiprocessing.get_context(how).Pool(2) as pool:
            print(pool.map(work, range(5)))
""",
}


@pytest.mark.parametrize("script", HARD_CASES.values(), ids=HARD_CASES)
def test_a_script_runs_as_it_does_alone(script, folder, execute):
    command = [sys.executable, "script.py", "--lr", "1e-3", "[x]"]
    alone_in, watched_in = (
        folder("alone", {"script.py": script}),
        folder("w", {"script.py": script}),
    )
    alone = _run(command, alone_in, b"typed before\n")
    watched = execute(command, watched_in, b"typed before\n")
    place = (str(alone_in).encode(), str(watched_in).encode())
    assert watched.stdout == alone.stdout.replace(*place)
    # A signal is what a shell makes of it.
    assert watched.code == (alone.code if alone.code >= 0 else 128 - alone.code)
    # What came of it follows on stderr.
    assert watched.stderr.startswith(alone.stderr.replace(*place))
    assert watched.files == alone.files


def test_what_it_writes_is_in_the_log_and_its_end_says_how_to_come_back(
    folder, execute, log_dir, tmp_path
):
    command = [sys.executable, "-c", "print('to be found')"]
    runtime = tmp_path / "run"
    runtime.mkdir(mode=0o700)
    environment = {"XDG_RUNTIME_DIR": str(runtime)}
    done = execute(command, folder("w", {}), options=["--name", "base"], environment=environment)
    assert done.stdout == b"to be found\n"
    records, entry = records_of(log_dir)
    assert "to be found" in [record.text for record in records if isinstance(record, Output)]
    assert entry.header.command == tuple(command)
    assert entry.header.is_script
    assert entry.header.script_sha256 is None
    assert "names no script" in entry.header.why["script_sha256"]
    assert (entry.result.status, entry.result.exit_code) == ("completed", 0)
    session, said = entry.header.id, done.stderr.decode()
    assert f"\n{session} (base) completed; recorded in {entry.path}\n" in said
    assert f" dlmon attach --log-dir {log_dir} last shows it again\n" in said
    attached = _run([*DLMON, "attach", "--plain", "--log-dir", str(log_dir), session], log_dir)
    assert attached.code == 0
    # Nothing is left of the socket.
    assert list(runtime.iterdir()) == []


def test_a_loop_that_reports_itself_is_counted_exactly(folder, execute, log_dir):
    # What it makes of its own file changes nothing of what is known of it.
    script = f"open('train.py', 'w').close()\n{LOOP}"
    done = execute([sys.executable, "train.py"], folder("w", {"train.py": script}))
    assert (done.code, done.stdout) == (0, b"2560\n")
    records, entry = records_of(log_dir)
    assert entry.header.script_sha256 == hashlib.sha256(script.encode()).hexdigest()
    batches = [record for record in records if isinstance(record, Batches)]
    assert sum(sum(record.counted) for record in batches) == 2560
    epochs = [record for record in records if isinstance(record, Epoch)]
    assert [(e.epoch, e.samples, e.steps, e.whole, e.metrics) for e in epochs] == [
        (0, 1280, 20, True, {"loss": 1.0}),
        (1, 1280, 20, True, {"loss": 0.5}),
    ]
    trainers = [record for record in records if isinstance(record, Trainer)]
    assert [(trainer.number, trainer.framework, trainer.ended) for trainer in trainers] == [
        (0, "dlmon", None),
        (0, "dlmon", True),
    ]
    assert [record.name for record in records if isinstance(record, Phase)] == [
        *("outside training", "compiling", "training", "outside training", "closing"),
    ]
    assert entry.result.epochs == 2


def test_a_module(folder, execute, log_dir):
    done = execute([sys.executable, "-m", "train"], folder("w", {"train.py": LOOP}))
    assert (done.code, done.stdout) == (0, b"2560\n")
    epochs = [record for record in records_of(log_dir)[0] if isinstance(record, Epoch)]
    assert [(epoch.epoch, epoch.samples) for epoch in epochs] == [(0, 1280), (1, 1280)]


def test_a_script_that_closes_every_descriptor_is_counted_on(folder, execute, log_dir):
    loop = LOOP.replace("dlmon.step()", "dlmon.step(); batch % 7 or os.closerange(3, 8192)")
    done = execute([sys.executable, "-c", f"import os\n{loop}"], folder("w", {}))
    assert (done.code, done.stdout) == (0, b"2560\n")
    records, _ = records_of(log_dir)
    batches = [record for record in records if isinstance(record, Batches)]
    assert sum(sum(record.counted) for record in batches) == 2560
    epochs = [record for record in records if isinstance(record, Epoch)]
    assert [(epoch.epoch, epoch.steps) for epoch in epochs] == [(0, 20), (1, 20)]
    trainers = [record for record in records if isinstance(record, Trainer)]
    assert [(trainer.number, trainer.ended) for trainer in trainers] == [(0, None), (0, True)]
    assert notices_of(log_dir) == []


NO_THREAD = """
import threading
def refuse(*arguments): raise RuntimeError("can't start new thread")
threading._start_new_thread = refuse
"""
NO_COPY = "import sys; sys.modules['_dlmon_monitor.instrument.loops'] = None"


@pytest.mark.parametrize(
    ("before", "why"),
    [
        (NO_THREAD, "is not watched: RuntimeError: can't start new thread"),
        (NO_COPY, "is not watched: ModuleNotFoundError: "),
    ],
    ids=["no thread", "what watches can't be imported"],
)
def test_a_script_goes_on_where_nothing_can_be_counted_and_is_told_why(
    before, why, folder, execute, log_dir
):
    done = execute([sys.executable, "-c", f"{before}\n{LOOP}"], folder("w", {}))
    assert (done.code, done.stdout) == (0, b"2560\n")
    told, nothing_trained = notices_of(log_dir)
    assert why in told
    assert nothing_trained == f"no training was seen: {told}"


def test_a_script_goes_on_where_memory_is_too_short_to_count_on(folder, execute, log_dir):
    short = """
import sys
def refuse(*arguments): raise MemoryError
sys.modules["_dlmon_monitor.instrument.reporter"].REPORTER.batch_ended = refuse
"""
    lines = LOOP.replace("    for epoch", f"    exec({short!r})\n    for epoch")
    done = execute([sys.executable, "-c", lines], folder("w", {}))
    assert (done.code, done.stdout) == (0, b"2560\n")
    assert {text.rpartition(": ")[2] for text in notices_of(log_dir)} == {"MemoryError"}


def test_threads_that_are_the_first_to_report_a_step_lose_none(folder, execute, log_dir):
    script = """
import sys, threading
path = list(sys.path)
import dlmon
sys.setswitchinterval(1e-6)
def work():
    for step in range(20): dlmon.step(4)
threads = [threading.Thread(target=work) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(sys.path == path)
"""
    done = execute([sys.executable, "-c", script], folder("w", {}))
    assert (done.code, done.stdout) == (0, b"True\n")
    records, _ = records_of(log_dir)
    batches = [record for record in records if isinstance(record, Batches)]
    assert sum(sum(record.counted) for record in batches) == 640


def test_the_same_loop_does_nothing_where_no_monitor_listens(folder):
    done = _run([sys.executable, "train.py"], folder("w", {"train.py": LOOP}))
    assert (done.code, done.stdout, done.stderr) == (0, b"2560\n", b"")


def test_programs_that_train_at_once_have_numbers_and_their_throughput_is_the_sum(
    folder, execute, log_dir
):
    # Each waits for the other, so that neither has ended before the other begins.
    wait = """
import os, sys, time
open(sys.argv[1], "w").close()
dlmon_begin = time.monotonic()
"""
    until = LOOP.replace(
        "    for epoch in range(2):",
        "    dlmon.step(0)\n    open(sys.argv[1], 'w').close()\n"
        "    while not os.path.exists(sys.argv[2]): time.sleep(0.01)\n"
        "    for epoch in range(2):",
    )
    files = {"train.py": wait.replace('open(sys.argv[1], "w").close()\n', "") + until}
    python = sys.executable
    both = f"{python} train.py a b & {python} train.py b a; wait"
    execute(["sh", "-c", both], folder("w", files))
    records, _ = records_of(log_dir)
    numbers = {record.trainer for record in records if isinstance(record, Batches)}
    assert numbers == {None, 1}


def test_a_module_of_the_scripts_own_folder_is_not_imported_by_us(folder, execute):
    names = ("random.py", "keras.py", "json.py", "dlmon/__init__.py")
    files = dict.fromkeys(names, "raise SystemExit('imported')")
    done = execute([sys.executable, "train.py"], folder("w", files | {"train.py": "print('ran')"}))
    assert (done.code, done.stdout) == (0, b"ran\n")


def test_its_own_sitecustomize_runs_once_and_is_what_is_imported(folder, execute):
    own = "import sys\nmark = 'own'\nprint('customised', __name__, file=sys.stderr)\n"
    script = "import sitecustomize; print(sitecustomize.mark, sitecustomize.__file__)"
    path = folder("w", {"site/sitecustomize.py": own, "train.py": script})
    command, environment = [sys.executable, "train.py"], {"PYTHONPATH": str(path / "site")}
    alone = _run(command, path, environment=environment)
    watched = execute(command, path, environment=environment)
    assert alone.stdout.startswith(b"own ")
    assert watched.stdout == alone.stdout
    # dlmon's own processes are customised by it as well.
    assert watched.stderr.count(b"customised sitecustomize\n") >= 1
    assert alone.stderr == b"customised sitecustomize\n"


def test_one_that_fails_in_its_sitecustomize_says_what_it_says_alone(folder, execute):
    path = folder("w", {"site/sitecustomize.py": "import os\nif os.environ.get('FAIL'): 1 / 0\n"})
    command = ["env", "FAIL=1", sys.executable, "-c", "print('goes on')"]
    environment = {"PYTHONPATH": str(path / "site")}
    alone = _run(command, path, environment=environment)
    watched = execute(command, path, environment=environment)
    assert b"ZeroDivisionError" in alone.stderr
    assert watched.stderr.startswith(alone.stderr)
    assert (watched.code, watched.stdout) == (0, b"goes on\n")


def test_a_framework_that_is_not_as_expected_is_left_alone_and_the_log_says_so(
    folder, execute, log_dir
):
    files = {"xgboost/__init__.py": "", "xgboost/training.py": "def train(): return 42"}
    script = "from xgboost.training import train; print(train())"
    path = folder("w", {**files, "train.py": script})
    done = execute([sys.executable, "train.py"], path)
    assert (done.code, done.stdout) == (0, b"42\n")
    assert "is not watched: KeyError: 'xgboost.callback'" in notices_of(log_dir)[0]


def _python(version):
    found = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    if not found:
        pytest.skip(f"there is no Python {version} here")
    return str(found[-1])


def test_an_older_python_runs_unwatched_and_the_log_says_so(folder, execute, log_dir):
    version = "3.8"
    done = execute([_python(version), "-c", "print(6 * 7)"], folder("w", {}))
    assert (done.code, done.stdout) == (0, b"42\n")
    assert f"Python {version}" in notices_of(log_dir)[0]
    assert "takes Python 3.10 or newer" in notices_of(log_dir)[0]


@pytest.mark.parametrize("version", ["3.10", "3.13"])
def test_a_python_that_has_no_dlmon_is_entered(version, folder, execute, log_dir):
    script = "import sys; print([m for m in sys.modules if 'dlmon' in m], sys.meta_path[0])"
    done = execute([_python(version), "-c", script], folder("w", {}))
    assert done.stdout.startswith(b"[] <sitecustomize.")
    assert done.stderr.count(b"Traceback") == 0
    (notice,) = notices_of(log_dir)
    assert notice == (
        "no training was seen: no framework that dlmon watches was imported; in a loop of your "
        "own, import dlmon and call dlmon.step()"
    )


@pytest.mark.parametrize("option", ["-I", "PYTHONPATH=."])
def test_a_python_that_keeps_us_out_is_named(option, folder, execute, log_dir):
    python = [sys.executable, option] if option.startswith("-") else ["env", option, sys.executable]
    done = execute([*python, "-c", "print(1)"], folder("w", {}))
    assert (done.code, done.stdout) == (0, b"1\n")
    said = done.stderr.decode()
    # Lines of a pipe are folded nowhere.
    assert f"dlmon: no training was seen: {option} keeps dlmon out of the script's Python\n" in said
    assert "too short" not in said
    assert notices_of(log_dir) == [
        f"no training was seen: {option} keeps dlmon out of the script's Python"
    ]


def test_a_script_that_fails_says_its_exception_once_and_no_more_is_guessed(
    folder, execute, log_dir
):
    script = "print('begun'); raise RuntimeError('CUDA out of memory')"
    done = execute([sys.executable, "-c", script], folder("w", {}))
    assert done.code == 1
    error = "the script ended with exit code 1: RuntimeError: CUDA out of memory"
    assert records_of(log_dir)[1].result.error == error
    assert notices_of(log_dir) == []
    said = done.stderr.decode()
    assert said.count("Traceback") == 1
    assert said.rstrip().endswith(f"failed: {error}")
    assert "begun\n" not in said


ARGUMENTS = """
import argparse, sys
sys.path.insert(0, {root!r})
import dlmon
parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=3)
args = parser.parse_args()
with dlmon.training():
    for epoch in range(3):
        dlmon.step()
        dlmon.epoch()
"""


@pytest.mark.parametrize(
    ("words", "options", "lengths"),
    [
        ((), ("--epochs", "5"), [(5, "--epochs of dlmon exec")]),
        # Another one begins.
        (("--epochs", "2"), (), [(2, "the script's --epochs"), (None, None)]),
    ],
)
def test_how_many_epochs_there_are_to_be_is_read_or_said(
    words, options, lengths, folder, execute, log_dir
):
    script = ARGUMENTS.format(root=str(ROOT))
    path = folder("w", {"train.py": script})
    done = execute([sys.executable, "train.py", *words], path, options=options)
    assert done.code == 0
    models = [record for record in records_of(log_dir)[0] if isinstance(record, Model)]
    assert [(model.epochs, model.length_from) for model in models] == lengths


def test_what_argparse_refuses_is_said_as_without_us(folder, execute):
    refuses = """
import argparse
def broken(text):
    raise RuntimeError("of the script's own")
parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=broken)
parser.parse_args()
"""
    path = folder("w", {"train.py": refuses})
    alone = _run([sys.executable, "train.py", "--epochs", "4"], path)
    done = execute([sys.executable, "train.py", "--epochs", "4"], path)
    assert done.stderr.startswith(alone.stderr)


@pytest.mark.parametrize(
    ("command", "options", "sentence"),
    [
        ([], (), "say what to run after --: dlmon exec -- python train.py"),
        (["./train.py"], (), "for a Python script, say python ./train.py"),
        (["./run.sh"], (), "./run.sh could not be started: No such file or directory"),
    ],
)
def test_what_can_not_be_started_is_said(command, options, sentence, folder, execute):
    place = folder("w", {"train.py": "", "run.sh": "#!/no/python\n"})
    (place / "run.sh").chmod(0o755)
    done = execute(command, place, options=options)
    assert (done.code, done.stdout) == (125, b"")
    assert f"{sentence}" in done.stderr.decode()


def test_a_command_may_stand_without_the_dashes_and_keeps_its_options(folder, log_dir):
    words = [*DLMON, "exec", "--log-dir", str(log_dir)]
    words += [sys.executable, "-c", "import sys; print(sys.argv)", "--json", "--lr", "1"]
    done = _run(words, folder("w", {}))
    assert (done.code, done.stdout) == (0, b"['-c', '--json', '--lr', '1']\n")


def test_json_is_the_result_alone(folder, execute):
    done = execute([sys.executable, "-c", "print(1)"], folder("w", {}), options=["--json"])
    result = json.loads(done.stdout)
    assert (result["status"], result["exit_code"], done.stderr) == ("completed", 0, b"")


def test_it_runs_as_often_as_is_asked_and_stops_where_it_fails(folder, execute, log_dir):
    count = "import os; n = len(os.listdir('.')); open(f'run{n}', 'w'); exit(n == 2)"
    done = execute([sys.executable, "-c", count], folder("w", {}), options=["--repeat", "5"])
    assert done.code == 1
    assert sorted(done.files) == ["run0", "run1", "run2"]
    assert len(list_sessions(log_dir)) == 3
    assert b"run 3 of 5): failed" in done.stdout


def test_a_signal_is_the_scripts_own(folder, begin):
    script = """
import signal, sys, time
def handle(number, frame):
    print("got", number, flush=True)
    sys.exit(5)
signal.signal(signal.SIGINT, handle)
open("ready", "w").close()
time.sleep(60)
"""
    path = folder("w", {})
    process = begin(script, path)
    eventually(lambda: (path / "ready").exists(), "the script runs")
    process.send_signal(signal.SIGINT)
    stdout, _ = process.communicate(timeout=DEADLINE_S)
    assert (process.returncode, stdout) == (5, b"got %d\n" % signal.SIGINT)


@pytest.mark.parametrize("handled", ["SIGTERM", "SIGINT"])
def test_a_script_that_saves_on_sigterm_is_stopped_by_it_and_others_as_by_ctrl_c(
    handled, folder, log_dir, begin
):
    script = f"""
import dlmon, os, signal, sys, time
def save(number, frame):
    open("saved", "w").write(signal.Signals(number).name)
    sys.exit(0)
signal.signal(signal.{handled}, save)
while True:
    dlmon.step(8)
    open("ready", "w").close()
    time.sleep(0.01)
"""
    path = folder("w", {})
    process = begin(script, path)
    eventually(lambda: (path / "ready").exists(), "the script trains")
    stop = [*DLMON, "stop", "--log-dir", str(log_dir), "last"]
    subprocess.run(stop, check=True, capture_output=True, timeout=DEADLINE_S)
    process.wait(DEADLINE_S)
    assert (path / "saved").read_text() == handled
    assert records_of(log_dir)[1].result.exit_code == 0


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGUSR1, "failed"), (signal.SIGTERM, "stopped")]
)
def test_a_signal_that_a_script_goes_on_after_decides_nothing(
    number, status, folder, log_dir, begin
):
    """What asks it to end makes its end a stop; what it leaves running goes on after either."""
    script = f"""
import signal, subprocess, time
left = subprocess.Popen(["sleep", "60"], start_new_session={number == signal.SIGTERM})
handled = []
signal.signal({int(number)}, lambda *_: handled.append(1))
print(left.pid, flush=True)
while not handled:
    time.sleep(0.01)
raise ValueError("later, of its own")
"""
    process = begin(script, folder("w", {}))
    left = int(process.stdout.readline())
    try:
        process.send_signal(number)
        assert process.wait(DEADLINE_S) == 1
        (session,) = list_sessions(log_dir)
        result = session.result
        assert result.status == status
        assert ("of its own" in (result.error or "")) == (status == "failed")
        assert is_alive(left)
    finally:
        os.kill(left, signal.SIGKILL)


def test_a_flood_comes_through_whole_and_is_counted(folder, execute, log_dir):
    script = """
import os
lines = b"".join(b"%07d\\n" % number for number in range(2_000_000))
while lines:
    lines = lines[os.write(1, lines):]
"""
    done = execute([sys.executable, "script.py"], folder("w", {"script.py": script}))
    assert done.stdout == b"".join(b"%07d\n" % number for number in range(2_000_000))
    records, entry = records_of(log_dir)
    lines = [record for record in records if isinstance(record, Output)]
    assert len(lines) + sum(line.left_out or 0 for line in lines) == 2_000_000
    assert lines[-1].text == "1999999"
    # It ended when its process did, whatever was read and written of it later.
    assert all(record.t <= entry.result.t for record in records[1:])


def test_ctrl_c_ends_a_flood_that_nobody_reads(folder, log_dir, begin):
    path = folder("w", {})
    flood = "import os; open('ready', 'w').close()\nwhile True: os.write(1, b'x' * 99 + b'\\n')"
    process = begin(flood, path)
    eventually(lambda: (path / "ready").exists(), "the script runs")
    process.send_signal(signal.SIGINT)
    assert process.wait(DEADLINE_S) == 130
    (session,) = list_sessions(log_dir)
    assert (session.result.status, session.result.exit_code) == ("stopped", -signal.SIGINT)


def test_a_process_that_it_leaves_writing_holds_nothing_up(folder, execute):
    script = """
import subprocess
endless = "import os, time\\nwhile True: os.write(1, b'on\\\\n' * 1000)"
print(subprocess.Popen(["python3", "-c", endless]).pid, flush=True)
"""
    done = execute([sys.executable, "script.py"], folder("w", {"script.py": script}))
    os.kill(int(done.stdout.split()[0]), signal.SIGKILL)
    assert done.code == 0


def test_one_that_has_a_terminal_writes_to_one(folder, on_a_terminal):
    script = "import sys, os; print(sys.stdout.isatty(), sys.stderr.isatty(), flush=True)"
    process, read = on_a_terminal(script, folder("w", {}))
    assert b"\nTrue True" in read()
    assert process.wait(DEADLINE_S) == 0


def test_a_script_outlives_its_supervisor(folder, on_a_terminal):
    path = folder("w", {})
    script = """
import os, time
open('ready', 'w').close()
while not os.path.exists('killed'):
    time.sleep(0.01)
print('x' * 1_000_000, flush=True)
open('end', 'w').close()
"""
    process, read = on_a_terminal(script, path)
    eventually(lambda: (path / "ready").exists(), "the script runs")
    (supervisor,) = [
        child
        for child in psutil.Process(process.pid).children()
        if "dlmon.supervisor" in child.cmdline()
    ]
    supervisor.kill()
    supervisor.wait()
    (path / "killed").touch()
    said = read().replace(b"\r\n", b" ").decode()
    assert process.wait(DEADLINE_S) == 124
    assert "the script may still run" in said
    eventually(lambda: (path / "end").exists(), "the script ends")


def test_a_script_goes_on_when_its_terminal_is_closed(folder, log_dir, dlmon_command):
    path = folder("w", {})
    script = """
import os, time
open('ready', 'w').close()
while not os.path.exists('closed'):
    time.sleep(0.01)
for _ in range(1000):
    print('x' * 1000, flush=True)
open('end', 'w').close()
"""
    command = [dlmon_command, "exec", "--plain", "--log-dir", str(log_dir)]
    # The viewer leads the session of its terminal: closing that sends it SIGHUP.
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(path)
        os.execv(dlmon_command, [*command, "--", sys.executable, "-c", script])
    eventually(lambda: (path / "ready").exists(), "the script runs")
    os.close(terminal)
    os.waitpid(pid, 0)
    (path / "closed").touch()
    eventually(lambda: (path / "end").exists(), "the script ends")
    eventually(lambda: records_of(log_dir)[1].result is not None, "its result")
    assert records_of(log_dir)[1].result.status == "completed"


def test_a_notebooks_process_is_recorded_until_it_ends(folder, log_dir, tmp_path):
    script = "import dlmon\nprint(dlmon.start('mine'))\n" + LOOP
    environment = {"XDG_STATE_HOME": str(tmp_path / "state")}
    done = _run([sys.executable, "-c", script], folder("w", {}), environment=environment)
    assert done.code == 0
    logs = tmp_path / "state" / "dlmon" / "sessions"
    eventually(lambda: records_of(logs)[1].result is not None, "its result")
    records, entry = records_of(logs)
    assert entry.header.id.encode() in done.stdout
    assert [(e.epoch, e.samples) for e in records if isinstance(e, Epoch)] == [(0, 1280), (1, 1280)]
    assert entry.result.status == "completed"
    assert entry.result.exit_code is None
    assert "did not start its process" in entry.result.why["exit_code"]


def test_stopping_a_notebooks_session_leaves_its_process_alone(folder, log_dir, tmp_path):
    script = """
import dlmon, sys, time
dlmon.start()
sys.stdin.read()
print("still here")
"""
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")}
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=folder("w", {}),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
    )
    logs = tmp_path / "state" / "dlmon" / "sessions"
    eventually(lambda: logs.exists() and list_sessions(logs), "the session")
    stopped = subprocess.run([*DLMON, "stop", "last"], env=environment, timeout=DEADLINE_S)
    assert stopped.returncode == 0
    eventually(lambda: records_of(logs)[1].result is not None, "its result")
    assert records_of(logs)[1].result.status == "stopped"
    stdout, _ = process.communicate(b"", timeout=DEADLINE_S)
    assert (process.returncode, stdout.splitlines()[-1]) == (0, b"still here")
