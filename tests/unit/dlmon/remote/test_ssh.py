"""The command that connects to a host, and why a connection ended, in a sentence."""

import base64
import zlib
from pathlib import Path

import pytest

from dlmon.launch import bootstrap
from dlmon.records.sanitize import clean
from dlmon.remote.host_names import HostError
from dlmon.remote.ssh import JobEnded, SshError, bootstrap_line, explain, ssh_command

# What sh, csh, tcsh, fish or zsh read as their own even within single quotes (history, an escape,
# the end of the quotes or of the line).
READ_IN_QUOTES = set("'!\\\n")


def words_of(errors, exit_code=255):
    problem = explain("box", errors, exit_code)
    assert str(problem).startswith("box")
    assert str(problem) == clean(str(problem))
    return str(problem).removeprefix("box").lstrip(": "), problem.may_pass


@pytest.fixture
def with_ssh(tmp_path, monkeypatch):
    ssh = tmp_path / "ssh"
    ssh.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    return str(ssh)


def test_a_host_stands_behind_all_options_and_before_the_command_alone(with_ssh):
    command = ssh_command("me@box")
    assert command[0] == with_ssh
    assert command[-3:-1] == ["--", "me@box"]
    assert command.count("--") == 1
    with pytest.raises(HostError):
        ssh_command("-oProxyCommand=x")


def test_what_a_login_shell_runs_is_one_program_with_one_quoted_word(with_ssh):
    before, loader, after = ssh_command("box")[-1].split("'")
    assert (before, after) == ("exec python3 -c ", "")
    assert not READ_IN_QUOTES & set(loader)
    assert loader.isascii()
    compile(loader, "loader", "exec")


def test_the_checks_of_host_keys_are_the_persons_own(with_ssh):
    options = " ".join(ssh_command("box")).lower()
    assert "batchmode=yes" in options
    assert "hostkey" not in options
    assert "knownhosts" not in options


def test_a_machine_without_ssh_says_so(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SshError, match="install OpenSSH's client") as caught:
        ssh_command("box")
    assert not caught.value.may_pass


def test_what_is_sent_first_is_one_line_of_the_bootstrap():
    line = bootstrap_line()
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert zlib.decompress(base64.b64decode(line)) == Path(bootstrap.__file__).read_bytes()


OTHER_KEY = "shows another host key than it did before: find out why, then run ssh box once"
UNKNOWN_KEY = "has a host key that is not known yet: run ssh box once, and check it"
LETS_NOBODY_IN = (
    "run ssh-add or ssh-copy-id box first; it lets nobody in without a password or passphrase here"
)
CLOSED, SILENT = "closed the connection", "does not answer within 15 s"


@pytest.mark.parametrize(
    ("errors", "words", "may_pass"),
    [
        ("@ HOST IDENTIFICATION HAS CHANGED! @\r\nHost key verification failed.", OTHER_KEY, False),
        ("Host key for box has changed and you asked for strict checking.", OTHER_KEY, False),
        ("Host key verification failed.", UNKNOWN_KEY, False),
        ("No ED25519 host key is known for box and you have requested", UNKNOWN_KEY, False),
        ("me@box: Permission denied (publickey,password).", LETS_NOBODY_IN, False),
        ("Received disconnect: Too many authentication failures", LETS_NOBODY_IN, False),
        ("ssh: Could not resolve hostname box: Name", "is not known: no such host name", True),
        ("ssh: connect to box port 22: Connection refused", "refuses connections by ssh", True),
        ("ssh: connect to host box port 22: Connection timed out", SILENT, True),
        ("Timeout, server box not responding.", SILENT, True),
        ("ssh: connect to host box port 22: No route to host", "can't be reached", True),
        ("ssh: connect to host box port 22: Network is unreachable", "can't be reached", True),
        ("Connection to box closed by remote host.", CLOSED, True),
        ("kex_exchange_identification: read: Connection reset by peer", CLOSED, True),
        ("client_loop: send disconnect: Broken pipe", CLOSED, True),
        ("something \x1b[31melse\n\n", "something else", True),
        ("", "the connection was closed", True),
    ],
)
def test_what_ssh_prints_becomes_a_sentence(errors, words, may_pass):
    assert words_of(errors) == (words, may_pass)


@pytest.mark.parametrize(
    ("errors", "has_ended"),
    [
        ("srun: error: Slurm job 12 has expired", True),
        ("srun: error: Unable to confirm allocation for job 12: Invalid job id specified", True),
        ("srun: error: Unable to confirm allocation for job 12: Job is pending execution", False),
        ("srun: error: n1: task 0: Terminated", False),
    ],
)
def test_what_srun_prints_says_whether_the_job_of_a_node_is_over(errors, has_ended):
    problem = explain("12/n1", errors, 1)
    assert isinstance(problem, JobEnded) == has_ended
    assert not has_ended or str(problem) == "12/n1: job 12 has ended"


NO_PYTHON = "has no python3 that a command over ssh can run"


@pytest.mark.parametrize(
    ("errors", "exit_code", "words", "may_pass"),
    [
        ("sh: 1: exec: python3: not found", 127, NO_PYTHON, False),
        ("bash: /opt/bin/python3: Permission denied", 126, NO_PYTHON, False),
        ("python3: Command not found.", 1, NO_PYTHON, False),
        ("exec: Command not found.", 1, NO_PYTHON, False),
        # What a command on the box says is not taken for ssh.
        ("ls: /root: Permission denied\nModuleNotFoundError: x", 1, "ModuleNotFoundError: x", True),
        ("", 0, "dlmon ended there", True),
        ("", 3, "dlmon ended there (3)", True),
        ("", None, "dlmon ended there", True),
    ],
)
def test_an_end_of_what_runs_there_is_a_sentence_too(errors, exit_code, words, may_pass):
    said, passes = words_of(errors, exit_code)
    assert said.startswith(words)
    assert passes == may_pass
