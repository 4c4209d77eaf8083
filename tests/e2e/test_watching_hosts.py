"""`dlmon watch HOST...` over real ssh: lines, JSON, the screen, and hosts that go away."""

from __future__ import annotations

import json
import os
import re
import signal
import sys

import psutil
import pytest
from fake_nvml import FakeDriver
from fakes.sessions import DEADLINE_S, Printing, eventually
from fakes.sshd import Network, lacks_sshd
from fakes.terminal import PseudoTerminal

from dlmon.exit_codes import DONE, INTERRUPTED_BY_USER, UNREACHABLE

pytestmark = pytest.mark.skipif(lacks_sshd() is not None, reason=str(lacks_sshd()))

OF_DRIVER = ("LD_LIBRARY_PATH", "FAKE_NVML_STATE", "FAKE_NVML_CALLS")


@pytest.fixture
def network(tmp_path, hosts_cache):
    network = Network(tmp_path, sys.executable, hosts_cache)
    yield network
    network.close()


@pytest.fixture
def add_gpus(network, driver_library, tmp_path):
    """Return a function that adds a host with GPUs of a driver of our own."""

    def add(name, *lines):
        driver = FakeDriver(driver_library, tmp_path)
        driver.says(*lines)
        variables = driver.environment()
        return network.add(name, environment={key: variables[key] for key in OF_DRIVER})

    return add


class Watching(Printing):
    """`dlmon watch` in a pipe."""

    @property
    def lines(self):
        return self.stdout.splitlines()

    @property
    def objects(self):
        return [json.loads(line) for line in self.lines if line.endswith("}")]


@pytest.fixture
def watching(dlmon_command, network, files, ended_with_test):
    """Return a function that watches hosts; it ends with the test."""

    def begin(*arguments):
        command = [dlmon_command, "watch", *arguments]
        environment = {**os.environ, **network.environment()}
        return ended_with_test(Watching(files(), command, env=environment))

    return begin


def clients_of(network):
    """Return the ssh processes that are connected to the hosts, or try to be."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        if str(network.config) in words and process.status() != psutil.STATUS_ZOMBIE:
            found.append(process.pid)
    return found


def test_a_line_a_host_and_sample_and_nothing_is_left_by_ctrl_c(network, add_gpus, watching):
    add_gpus("gpu1", "gpus 2", "process 0 1 5000")
    network.add("cpu")
    watched = watching("gpu1", "cpu", "--interval", "0.5")
    eventually(lambda: sum(line.startswith("gpu1 ") for line in watched.lines) >= 2, "gpu1")
    eventually(lambda: sum(line.startswith("cpu ") for line in watched.lines) >= 2, "cpu")
    assert len(clients_of(network)) == 2
    for line in watched.lines:
        assert re.match(r"(gpu1|cpu )  \d\d:\d\d:\d\d  CPU (\d+ %|–)  memory [\d.]+ of ", line)
    of_gpus = next(line for line in watched.lines if line.startswith("gpu1"))
    assert re.search(r"GPU 0 \d+ % [\d.]+ GiB \d+ W \d+ °C  GPU 1 \d+ %", of_gpus)
    assert "GPU" not in next(line for line in watched.lines if line.startswith("cpu"))
    watched.process.send_signal(signal.SIGINT)
    assert watched.exit_code() == INTERRUPTED_BY_USER
    assert watched.stderr == ""
    assert clients_of(network) == []


def test_an_object_a_host_and_sample(network, add_gpus, watching):
    add_gpus("gpu1", "gpus 1")
    network.add("cpu")
    watched = watching("gpu1", "cpu", "--json", "--interval", "0.5")

    def of(host):
        return [entry for entry in watched.objects if entry["host"] == host]

    eventually(lambda: len(of("gpu1")) >= 3 and len(of("cpu")) >= 3, "samples")
    eventually(lambda: of("cpu")[-1]["sessions"] == [], "the sessions")
    newest, without = of("gpu1")[-1], of("cpu")[-1]
    # What did not change since the first sample is in each of them.
    assert newest["gpus"][0]["memory_used_mib"] == 40_000
    assert newest["gpus"][0]["power_limit_w"] == 700
    assert newest["memory"]["used_mib"] > 0
    assert newest["t"] > 0
    assert newest["wall"] > 1e9
    assert newest["process"] is None
    assert without["gpus"] is None
    assert "gpus" in without["why"]


def test_a_host_that_cannot_be_reached_keeps_none_from_being_watched(network, watching):
    network.add("cpu")
    network.add("stranger", known=False)
    gone = network.add("gone")
    gone.stop()
    network.hosts.remove(gone)
    watched = watching("gone", "stranger", "cpu", "--json", "--interval", "0.5")
    eventually(lambda: sum("cpu" in entry for entry in watched.objects) >= 2, "samples")
    problems = {entry["host"]: entry["problem"] for entry in watched.objects if "problem" in entry}
    assert problems == {
        "gone": "gone refuses connections by ssh",
        "stranger": "stranger has a host key that is not known yet: run ssh stranger once, "
        "and check it",
    }
    # Once each, though they are tried again.
    eventually(lambda: sum("cpu" in entry for entry in watched.objects) >= 8, "more samples")
    assert sum("problem" in entry for entry in watched.objects) == 2


@pytest.mark.parametrize("as_json", [False, True], ids=["plain", "json"])
def test_where_no_host_can_be_reached_it_ends_with_the_reasons(network, watching, as_json):
    network.add("stranger", known=False)
    gone = network.add("gone")
    gone.stop()
    network.hosts.remove(gone)
    watched = watching("gone", "stranger", *(["--json"] if as_json else []))
    assert watched.exit_code() == UNREACHABLE
    if as_json:
        assert {entry["host"] for entry in watched.objects} == {"gone", "stranger"}
        assert watched.stderr == ""
    else:
        assert watched.lines == []
        assert sorted(watched.stderr.splitlines()) == [
            "dlmon: gone refuses connections by ssh",
            "dlmon: stranger has a host key that is not known yet: run ssh stranger once, "
            "and check it",
        ]
    assert clients_of(network) == []


def test_a_host_that_is_lost_is_said_once_and_so_is_its_return(network, watching):
    cut = network.add("cut")
    network.add("cpu")
    watched = watching("cut", "cpu", "--interval", "0.5")
    eventually(lambda: any(line.startswith("cut") for line in watched.lines), "a sample")
    cut.cut()
    eventually(lambda: "cut is connected again" in watched.stderr, "its return")
    count = sum(line.startswith("cut") for line in watched.lines)
    eventually(lambda: sum(line.startswith("cut") for line in watched.lines) > count, "samples")
    first, second = watched.stderr.splitlines()
    assert first.startswith("dlmon: cut")
    assert second == "dlmon: cut is connected again"


def test_the_screen_shows_hosts_and_leaves_no_connection(network, add_gpus, dlmon_command):
    add_gpus("gpu1", "gpus 2", "set 1 utilization_pct 0", "set 1 memory_used_mib 3")
    network.add("stranger", known=False)
    command = [dlmon_command, "watch", "gpu1", "stranger"]
    with PseudoTerminal(command, network.environment()) as terminal:
        terminal.wait_for(b"needs you")
        terminal.wait_for(b"connected")
        terminal.wait_for(b"free")
        terminal.press("q")
        assert terminal.process.wait(DEADLINE_S) == DONE
    assert clients_of(network) == []


def test_recordings_of_hosts_are_played_as_the_cards_that_were_watched(
    network, dlmon, dlmon_command, tmp_path
):
    for name in ("alpha", "beta"):
        network.add(name)
    here = {**network.environment(), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    record = ("watch", "alpha", "beta", "--record", "--for", "3s", "--interval", "0.25")
    begun = dlmon(*record, "--name", "lab", "--detach", environment=here)
    assert begun.returncode == DONE
    for host in network.hosts:
        (log,) = host.log_dir.glob("*/session.jsonl")
        eventually(lambda log=log: b'"type":"result"' in log.read_bytes(), "the recording's end")
    command = [dlmon_command, "replay", "--host", "alpha", "--host", "beta", "lab"]
    with PseudoTerminal(command, here) as terminal:
        terminal.wait_for(b"2 hosts")
        terminal.wait_for(b"alpha")
        terminal.wait_for(b"beta")
        terminal.wait_for("● ".encode())
        terminal.press("q")
        assert terminal.process.wait(DEADLINE_S) == DONE
    assert clients_of(network) == []
