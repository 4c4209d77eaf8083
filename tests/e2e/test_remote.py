"""Other machines over ssh: real sshd processes on loopback, each a box with a home of its own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from fakes.sessions import DEADLINE_S, FAKES, is_alive
from fakes.sshd import lacks_sshd

from dlmon.launch.bootstrap import hash_of
from dlmon.launch.sensors_process import SensorsProcess
from dlmon.records import Facts, Machine, Status, decode
from dlmon.records.sanitize import clean
from dlmon.remote import connection as connections
from dlmon.remote.connection import connect, connected, packed, sent_files
from dlmon.remote.host import WatchedHost
from dlmon.remote.session_follower import find_remote, follow_remote, listed_sessions
from dlmon.remote.ssh import HostRefusal, SshError
from dlmon.system.children import end_process

pytestmark = pytest.mark.skipif(lacks_sshd() is not None, reason=str(lacks_sshd()))

AGENT = FAKES / "agent.py"


@contextlib.asynccontextmanager
async def opened(host):
    """Hold an ssh process to a host for as long as the context lasts."""
    process = await connect(host)
    try:
        yield process
    finally:
        await process.close()


# ---- the network, and what is left on it ----


@pytest.fixture(scope="module")
def box(network):
    """A box that nothing is wrong with."""
    return network.add("box")


@pytest.fixture(autouse=True)
def own_environment(network, tmp_path, monkeypatch):
    """Find the hosts, and keep this test's copies of logs out of the person's cache."""
    for name, value in network.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def processes_of(folder):
    """Return the processes that run on the boxes: their home lies in the network's folder."""
    found = []
    for pid in psutil.pids():
        with contextlib.suppress(OSError):
            environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            home = [value for value in environment if value.startswith(f"HOME={folder}/".encode())]
            if home and is_alive(pid):
                found.append(pid)
    return found


@pytest.fixture(autouse=True)
def nothing_runs_on_a_box_afterwards(network):
    yield
    deadline = time.monotonic() + 10.0
    while (left := processes_of(network.folder)) and time.monotonic() < deadline:
        time.sleep(0.02)
    for pid in left:
        end_process(pid, signal.SIGKILL)
    assert not left, f"{len(left)} processes went on on a box"


@pytest.fixture
def stand_in(add, tmp_path):
    """Return a function that starts a host which says what a script has it say."""

    def begin(script):
        path = tmp_path / "script.json"
        path.write_text(json.dumps(script))
        command = shlex.join([sys.executable, str(AGENT), str(path)])
        return add(more=f"ForceCommand {command}")

    return begin


async def soon(condition, what):
    """Return what `condition` returns once it is true; fail if that takes too long."""
    deadline = time.monotonic() + DEADLINE_S
    while not (found := condition()):
        assert time.monotonic() < deadline, f"waited {DEADLINE_S:.0f} s in vain for {what}"
        await asyncio.sleep(0.02)
    return found


@pytest.fixture
def add(network):
    """Return a function that starts a host of this test's own; it ends with the test."""
    added = []

    def begin(**settings):
        added.append(network.add(f"host-{len(network.hosts)}", **settings))
        return added[-1]

    yield begin
    for host in added:
        host.stop()


def write_script(path, *lines):
    path.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    path.chmod(0o755)
    return path


async def watched(name, interval_s=0.1, samples=2):
    """Return the facts and some samples of a host, as they arrive."""
    facts, found = None, []
    async with connected(name) as connection:
        async for answer in connection.ask("watch", interval_s=interval_s):
            record = decode(json.dumps(answer["record"]))
            if isinstance(record, Facts):
                facts = record
            elif isinstance(record, Machine):
                found.append(record)
            if facts is not None and len(found) == samples:
                break
    return facts, found


async def problem_of(name, **settings):
    """Return why a host can't be used."""
    with pytest.raises(SshError) as caught:
        await connect(name, **settings)
    sentence = str(caught.value)
    assert name in sentence
    assert "\n" not in sentence
    assert sentence == clean(sentence)
    return caught.value


# ---- what is kept on a box ----


async def test_what_was_sent_once_is_kept_for_its_owner_alone_and_repaired_but_not_sent_again(
    add, tmp_path
):
    host = add(has_own_cache=True)
    async with opened(host.name) as fresh:
        assert fresh.sent_bytes > 100_000
    folder = kept_folders(host)
    modes = {
        (path.is_dir(), stat.S_IMODE(path.lstat().st_mode))
        for path in (folder, *folder.rglob("*"))
        if "__pycache__" not in path.parts
    }
    assert modes == {(True, 0o700), (False, 0o600)}
    # Only what was unused for a month is removed.
    old, recent = folder / ("0" * 32), folder / ("1" * 32)
    for path, days in ((old, 31), (recent, 29)):
        (path / "dlmon").mkdir(parents=True)
        os.utime(path, (time.time() - days * 86_400,) * 2)
    async with opened(host.name) as cached:
        assert cached.sent_bytes == 0
        assert cached.python == ".".join(map(str, sys.version_info[:3]))
    assert not old.exists()
    assert recent.exists()
    assert (folder / hash_of(sent_files())).is_dir()
    # A file that was changed there is replaced before it runs.
    (changed,) = folder.glob("*/dlmon/remote/agent.py")
    original = changed.read_bytes()
    witness = tmp_path / "was-run"
    changed.write_bytes(f"open({str(witness)!r}, 'w')\n".encode() + original)
    async with opened(host.name) as repaired:
        assert repaired.sent_bytes == len(packed(sent_files()))
    assert changed.read_bytes() == original
    assert not witness.exists()


def kept_folders(host):
    return host.cache / "dlmon" / "boxes"


async def test_a_home_that_is_read_only_has_it_kept_elsewhere(add):
    host = add(environment={"XDG_CACHE_HOME": "/dev/null/cache"})
    async with opened(host.name) as fresh:
        assert fresh.sent_bytes
    kept = host.home / "run" / f"dlmon-{os.geteuid()}"
    assert {path.name for path in kept.iterdir()} == {hash_of(sent_files())}
    assert stat.S_IMODE(kept.stat().st_mode) == 0o700
    async with opened(host.name) as cached:
        assert cached.sent_bytes == 0


async def test_a_full_disk_has_it_kept_elsewhere(add):
    host = add(has_own_cache=True)
    host.cache.mkdir()
    mount = ("mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", host.cache)
    mounting = await asyncio.create_subprocess_exec(*mount, stderr=subprocess.DEVNULL)
    if await mounting.wait() != 0:
        pytest.skip("nobody but root may mount a file system that is full soon")
    try:
        async with opened(host.name) as fresh:
            assert fresh.sent_bytes
        assert (host.home / "run" / f"dlmon-{os.geteuid()}").is_dir()
        assert not list(kept_folders(host).iterdir())
    finally:
        unmounting = await asyncio.create_subprocess_exec("umount", host.cache)
        await unmounting.wait()


async def test_a_box_that_nothing_can_be_written_on_is_refused_in_a_sentence(add, tmp_path):
    script = write_script(tmp_path / "no-files", "ulimit -f 0", 'eval "$SSH_ORIGINAL_COMMAND"')
    nowhere = {"TMPDIR": tmp_path / "nowhere"}
    host = add(environment=nowhere, more=f"ForceCommand {script}", has_own_cache=True)
    shared = Path("/dev/shm") / f"dlmon-{os.geteuid()}"
    was_there = shared.exists()
    try:
        problem = await problem_of(host.name)
    finally:
        if not was_there:
            with contextlib.suppress(OSError):
                shared.rmdir()
    assert str(problem).startswith(f"{host.name} has no room for dlmon's files: ")
    assert not problem.may_pass


# ---- the Python of a box ----


def find_python(version):
    """Return an interpreter of a version, by PATH or as pyenv keeps them; skip without one."""
    kept = sorted((Path.home() / ".pyenv" / "versions").glob(f"{version}.*/bin/python{version}"))
    for path in (shutil.which(f"python{version}"), *map(str, kept)):
        if path is None:
            continue
        # What PATH names may be a script that finds one, by what a box has no PATH for.
        command = [path, "-c", "import sys; print('%d.%d' % sys.version_info[:2], sys.executable)"]
        found, _, executable = (
            subprocess.run(command, capture_output=True, text=True).stdout.strip().partition(" ")
        )
        if found == version:
            return executable
    pytest.skip(f"there is no Python {version} here")


@pytest.fixture
def with_pythons(add, tmp_path):
    """Return a function that starts a host on which nothing but some interpreters can be run."""

    def begin(**pythons):
        folder = tmp_path / "path"
        folder.mkdir()
        for name, python in pythons.items():
            (folder / name.replace("_", ".")).symlink_to(python)
        return add(environment={"PATH": folder})

    return begin


def fields_of(record):
    return {key: type(value) for key, value in vars(record).items() if value is not None}


async def local_readings():
    facts, samples = [], []
    sensors = SensorsProcess(0.1, facts.append, samples.append, lambda text: None)
    sensors.start()
    try:
        await soon(lambda: facts and len(samples) >= 2, "a local sample")
    finally:
        sensors.close()
    return facts[0], samples[:2]


async def test_a_box_gives_what_this_machine_gives(box):
    facts, samples = await watched(box.name)
    local_facts, local_samples = await local_readings()
    assert facts.host == local_facts.host
    assert fields_of(facts.machine) == fields_of(local_facts.machine)
    assert facts.machine.cpu_model == local_facts.machine.cpu_model
    assert facts.machine.memory_mib == local_facts.machine.memory_mib
    assert fields_of(samples[0]) == fields_of(local_samples[0])
    assert fields_of(samples[0].cpu) == fields_of(local_samples[0].cpu)
    assert fields_of(samples[0].memory) == fields_of(local_samples[0].memory)


async def test_a_newer_python_beside_one_that_is_too_old_is_used(with_pythons, tmp_path):
    # What bears the name of a still newer one and runs none is passed over.
    stand_in = write_script(tmp_path / "shim", "echo 'not installed' >&2", "exit 127")
    host = with_pythons(
        python3=find_python("3.6"), python3_12=stand_in, python3_11=find_python("3.11")
    )
    async with opened(host.name) as process:
        assert process.python.startswith("3.11.")
    async with connected(host.name) as connection:
        assert (await connection.ask_one("ping"))["t"] > 0


@pytest.mark.parametrize(
    ("version", "said"),
    [
        ("3.9", "dlmon needs 3.10 or newer there"),
        (None, "has no python3 that a command over ssh can run; dlmon needs Python 3.10 there"),
    ],
)
async def test_a_python_that_is_too_old_or_none_is_refused_in_a_sentence(
    with_pythons, version, said
):
    host = with_pythons(**({"python3": find_python(version)} if version else {}))
    problem = await problem_of(host.name)
    assert said in str(problem)
    assert not problem.may_pass


# ---- shells, noise and hosts that say nothing ----


LOGINS = {
    "sh": [
        "echo 'Welcome! {\"id\": 1}'; echo 'dlmon-0000 {}'; printf 'no end of line'",
        "echo 'Permission denied, connection refused' >&2",
        'exec sh -c "$SSH_ORIGINAL_COMMAND"',
    ],
    **{name: [f'exec {name} -c "$SSH_ORIGINAL_COMMAND"'] for name in ("tcsh", "fish", "zsh")},
}


@pytest.mark.parametrize("shell", LOGINS)
async def test_any_login_shell_runs_what_is_sent_whatever_it_prints(add, tmp_path, shell):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    script = write_script(tmp_path / "shell", *LOGINS[shell])
    # Nor does a command of the person's own in the config keep us out.
    own = "  RemoteCommand tmux attach\n  RequestTTY force\n"
    host = add(more=f"ForceCommand {script}", options=own)
    async with connected(host.name) as connection:
        assert (await connection.ask_one("ping"))["t"] > 0


async def test_a_host_that_prints_for_ever_is_left_with_a_sentence(stand_in):
    host = stand_in({"instead": "no end of line " * 1000, "forever": True})
    problem = await problem_of(host.name)
    assert str(problem) == f"{host.name} answers with something else than dlmon"
    assert not problem.may_pass


async def test_a_host_that_says_nothing_is_left_when_its_time_is_up(add):
    host = add(options="  ProxyCommand sleep 100\n")
    problem = await problem_of(host.name, start_s=0.5)
    assert "did not answer within" in str(problem)
    assert problem.may_pass


# ---- what ssh refuses ----


async def refused(network, name):
    """Return why ssh doesn't let us in; what it knows of hosts stays as it is."""
    before = network.known_hosts.read_bytes()
    problem = await problem_of(name)
    assert network.known_hosts.read_bytes() == before
    return str(problem).removeprefix(name).lstrip(": "), problem.may_pass


async def test_a_host_key_that_is_not_known_or_changed_is_never_taken(network, box, add):
    host = add(known=False)
    assert await refused(network, host.name) == (
        f"has a host key that is not known yet: run ssh {host.name} once, and check it",
        False,
    )
    with network.known_hosts.open("a") as known:
        other = network.key.with_suffix(".pub").read_text()
        known.write(f"{host.name} {other}")
    assert await refused(network, host.name) == (
        f"shows another host key than it did before: find out why, then run ssh {host.name} once",
        False,
    )


async def test_a_host_that_wants_another_key_lets_nobody_in_and_one_that_is_not_there_may_later(
    network, add
):
    host = add()
    (host.folder / "authorized_keys").write_text("")
    assert await refused(network, host.name) == (
        f"run ssh-add or ssh-copy-id {host.name} first; it lets nobody in without a password "
        "or passphrase here",
        False,
    )
    host.stop()
    assert await refused(network, host.name) == ("refuses connections by ssh", True)
    assert await refused(network, "nowhere.invalid") == ("is not known: no such host name", True)


# ---- ways to a box ----


async def test_a_box_behind_another_is_reached(network, box, add):
    behind = add(options=f"  ProxyJump {box.name}\n")
    async with connected(behind.name) as connection:
        assert (await connection.ask_one("ping"))["t"] > 0
        assert box.connections()
    # The ssh that jumps ends with it.
    await soon(lambda: not box.connections(), "the jump to end")


THROTTLED = """
import os, select, socket, sys, time
link = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
while True:
    for source in select.select([0, link], [], [])[0]:
        data = os.read(0, 1000) if source == 0 else link.recv(1000)
        if not data:
            sys.exit()
        time.sleep(len(data) / 20_000)
        link.sendall(data) if source == 0 else os.write(1, data)
"""


async def test_a_slow_link_is_slow_and_works(add, box, tmp_path):
    async with connected(box.name):
        pass
    throttle = tmp_path / "throttle.py"
    throttle.write_text(THROTTLED)
    host = add(options=f"  ProxyCommand {sys.executable} {throttle} %p\n")
    facts, samples = await watched(host.name)
    assert facts.machine.cores
    assert samples


# ---- links ----


@contextlib.asynccontextmanager
async def watching(*names):
    """Hold links to hosts, and a machine on each."""
    machines = [WatchedHost(name, interval_s=0.2) for name in names]
    for machine in machines:
        machine.start()
    try:
        yield machines
    finally:
        await asyncio.gather(*(machine.connection.close() for machine in machines))


async def test_eight_boxes_at_once_each_give_samples_whatever_becomes_of_one(add, box):
    async with connected(box.name):
        pass
    hosts = [add() for _ in range(8)]
    async with watching(*(host.name for host in hosts)) as machines:
        await soon(lambda: all(m.history.latest for m in machines), "a sample of each")
        hosts[0].stop()
        await soon(lambda: not machines[0].connection.is_up, "the loss of one")
        seen = [machine.history.latest.t for machine in machines]
        others = list(zip(machines, seen, strict=True))[1:]
        await soon(lambda: all(m.history.latest.t > t for m, t in others), "more of the others")
        assert all(
            machine.connection.is_up and machine.connection.connect_count == 1
            for machine, _ in others
        )
        await soon(lambda: "refuses" in (machines[0].connection.problem or ""), "its next try")
        hosts[0].start()
        machines[0].connection.retry_now()
        await soon(lambda: machines[0].history.latest.t > seen[0], "samples after its return")


# ---- sessions ----


@pytest.fixture(scope="module")
def scripted_files():
    """What is sent, with the scripted workload in place of the real ones, and a Keras to be."""
    return {
        **sent_files(),
        "workloads/__main__.py": (FAKES / "workload.py").read_bytes(),
        "keras/__init__.py": b"",
    }


@pytest.fixture
def trainer(add, scripted_files, monkeypatch):
    """A box whose workload is the scripted one."""
    monkeypatch.setattr(connections, "sent_files", lambda: scripted_files)
    return add()


async def start_run(link, **options):
    """Start a session on a box and return its id."""
    job = {
        "workload": "fake",
        "options": {"interval": 0.25, **options},
        "log_dir": "",
        "device": "cpu",
        "interval_s": 0.25,
    }
    return (await link.ask_one("launch", job=job))["session"]


def log_on(host, session):
    return host.log_dir / session / "session.jsonl"


def poll_status(follower):
    follower.poll()
    return follower.status


async def test_a_run_is_started_named_and_followed_to_its_end(trainer):
    async with connected(trainer.name) as link:
        # Long beside what a list says of it.
        session = await start_run(link, epochs=20, steps=500, step_s=0)
        await link.ask_one("name", session=session, name="first", note="why")
        follower = await follow_remote(link, "first")
        await soon(lambda: poll_status(follower) == Status.COMPLETED, "its end")
        assert follower.problem is None
        assert follower.path.read_bytes() == log_on(trainer, session).read_bytes()
        assert follower.snapshot().progress.epochs == 20
        (listed,) = await listed_sessions(link)
        label = listed.label
        assert (listed.path.parent.name, label.name, label.note) == (session, "first", "why")
        assert (listed.status, listed.result.status) == (Status.COMPLETED, Status.COMPLETED)
        assert json.loads((follower.path.parent / "label.json").read_text())["name"] == "first"
        modes = {stat.S_IMODE(path.stat().st_mode) for path in follower.path.parent.iterdir()}
        assert modes == {0o600}
        follower.close()


async def test_a_run_goes_on_while_the_connection_is_cut_and_its_copy_is_whole(trainer, tmp_path):
    go = tmp_path / "go"
    async with connected(trainer.name) as link:
        session = await start_run(
            link, epochs=2, steps=20, script={"end of epoch 0": [["wait_for", str(go)]]}
        )
        follower = await follow_remote(link, session)
        await soon(lambda: follower.poll() or follower.snapshot().progress, "its first batches")
        trainer.cut()
        await soon(lambda: not link.is_up, "the loss")
        follower.poll()
        assert follower.status == Status.RUNNING
        assert trainer.name in follower.problem
        assert "next try in" in follower.problem or "connecting" in follower.problem
        assert not follower.stop()
        go.touch()
        await soon(lambda: poll_status(follower) == Status.COMPLETED, "its end")
        assert follower.problem is None
        assert link.connect_count == 2
        assert follower.path.read_bytes() == log_on(trainer, session).read_bytes()
        follower.close()


async def test_a_run_outlives_the_connection_and_is_stopped_over_another(trainer):
    async with connected(trainer.name) as link:
        session = await start_run(link, epochs=1000, steps=1000)
    await soon(lambda: not trainer.connections(), "the connection to end")
    async with connected(trainer.name) as link:
        follower = await follow_remote(link, "last")
        assert follower.session.header.id == session
        at = follower.path.stat().st_size
        await soon(lambda: follower.path.stat().st_size > at, "more of it")
        running = await running_on(link, session)
        assert running["workload"] == "fake"
        assert all(rate["per_second"] > 0 for rate in running["rates"])
        assert follower.stop()
        await soon(lambda: poll_status(follower) == Status.STOPPED, "its end")
        assert follower.path.read_bytes() == log_on(trainer, session).read_bytes()
        with pytest.raises(HostRefusal, match=f"{session} is not running: stopped"):
            await link.ask_one("stop", session=session)
        follower.close()


async def running_on(link, session):
    async for answer in link.ask("running", interval_s=0.1):
        for each in answer["sessions"]:
            if each["session"] == session and each.get("epoch"):
                return each
    raise AssertionError("the box listed no such session")


async def test_python_3_10_runs_the_supervisor(with_pythons, scripted_files, monkeypatch):
    monkeypatch.setattr(connections, "sent_files", lambda: scripted_files)
    host = with_pythons(python3=find_python("3.10"))
    async with connected(host.name) as link:
        session = await start_run(link, epochs=1, steps=20)
        follower = await follow_remote(link, session)
        await soon(lambda: poll_status(follower) == Status.COMPLETED, "its end")
        assert follower.session.header.versions["python"].startswith("3.10.")
        assert follower.path.read_bytes() == log_on(host, session).read_bytes()
        follower.close()


async def test_what_a_box_refuses_is_a_sentence_that_names_it(box):
    async with connected(box.name) as link:
        with pytest.raises(HostRefusal, match=f"^{box.name}: .* has no Keras: name a Python"):
            await start_run(link)
        with pytest.raises(HostRefusal, match=f"^{box.name}: there are no sessions in "):
            await find_remote(link, "last")
        with pytest.raises(HostRefusal, match="is named by its id or name, not by a path"):
            await find_remote(link, "/etc/passwd")
        with pytest.raises(HostRefusal, match='this version of dlmon knows no "dance"'):
            await link.ask_one("dance")
        # And the connection goes on.
        assert (await link.ask_one("ping"))["t"] > 0


# ---- a host that means harm ----

EVIL = "\x1b]0;owned\x07\x1b[31mred\u202e\r\nline\x00"
# Answers that no agent gives, to any request.
NONSENSE = [
    *("", "nothing", "{", "null", "[]", "17", '"text"', "{}"),
    *('{"id": null}', '{"id": {"a": 1}, "end": true}', '{"id": [1]}', '{"id": 1e400, "end": true}'),
    *('{"id": 999999, "record": {}, "end": true}', '{"id": -1, "error": "nobody asked"}'),
    *('{"id": @, "lost": true}', '{"id": @, "record": "\\ud800"}', '{"id": @, "sessions": 7}'),
    '{"id": @, "sessions": ' + "[" * 700 + "]" * 700 + "}",
    '{"id": @, "record": ' + '{"a":' * 50_000,
]


@pytest.mark.parametrize(
    "first",
    [
        {"missing": ["0" * 32]},
        {"missing": [["a"]]},
        {"lacks": "python", "python": EVIL, "executable": EVIL},
        {"lacks": "room", "why": EVIL},
    ],
)
async def test_a_host_that_asks_for_what_it_may_not_have_gets_nothing(stand_in, first):
    host = stand_in({"first": first})
    problem = await problem_of(host.name)
    assert not problem.may_pass
    async with contextlib.AsyncExitStack() as stack:
        with pytest.raises(SshError):
            await stack.enter_async_context(connected(host.name))


async def test_a_line_without_an_end_ends_the_connection_with_a_sentence_and_nonsense_does_not(
    stand_in,
):
    host = stand_in({"answers": {"sessions": [*NONSENSE, "LONG"]}})
    async with connected(host.name) as connection:
        with pytest.raises(
            SshError, match=f"{host.name} sent a line of over 16 MiB and was disconnected"
        ):
            async for _ in connection.ask("sessions"):
                pass
