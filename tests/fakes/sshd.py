"""Real sshd processes on loopback, each a host with a home of its own; an ssh that knows them."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import socket
import subprocess
from pathlib import Path

import psutil
from fakes.marks import MARKER, end_marked
from fakes.sessions import children_of, eventually

SSHD = shutil.which("sshd") or "/usr/sbin/sshd"
_CONFIG = """\
Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/authorized_keys
PidFile {folder}/pid
UsePAM no
StrictModes no
PasswordAuthentication no
KbdInteractiveAuthentication no
MaxStartups 100
LogLevel ERROR
SetEnv {environment}
{more}
"""


def lacks_sshd():
    """Say why no sshd can be started here; None where one can."""
    if not Path(SSHD).exists() or shutil.which("ssh") is None:
        return "openssh-server is not installed"
    return None


def _keygen(path):
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)],
        check=True,
        stdin=subprocess.DEVNULL,
    )


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


class Sshd:
    """One host."""

    def __init__(self, network, name, *, environment=None, more="", has_own_cache=False):
        self.name = name
        self.folder = network.folder / name
        self.folder.mkdir()
        self.home = self.folder / "home"
        self.home.mkdir(mode=0o700)
        self.log_dir = self.home / "state" / "dlmon" / "sessions"
        self.cache = self.home / "cache" if has_own_cache else network.cache
        self.port = free_port()
        shutil.copy(network.host_key, self.folder / "host_key")
        (self.folder / "host_key").chmod(0o600)
        shutil.copy(network.key.with_suffix(".pub"), self.folder / "authorized_keys")
        self.mark = f"{os.environ.get(MARKER, name)}.{self.folder}"
        variables = {
            MARKER: self.mark,
            "HOME": self.home,
            "XDG_STATE_HOME": self.home / "state",
            "XDG_CACHE_HOME": self.cache,
            "XDG_CONFIG_HOME": self.home / "config",
            "XDG_RUNTIME_DIR": self.home / "run",
            "PATH": f"{network.python_folder}:{os.environ['PATH']}",
            **(environment or {}),
        }
        for variable in [name for name, value in variables.items() if value is None]:
            del variables[variable]
        config = self.folder / "sshd_config"
        config.write_text(
            _CONFIG.format(
                port=self.port,
                folder=self.folder,
                environment=" ".join(f'"{key}={value}"' for key, value in variables.items()),
                more=more,
            )
        )
        self._command = [SSHD, "-D", "-e", "-f", str(config)]
        self.start()

    def start(self):
        """Listen, as after a start of the box."""
        self.process = subprocess.Popen(
            self._command, stdin=subprocess.DEVNULL, stderr=(self.folder / "log").open("ab")
        )
        eventually(self._answers, f"the sshd of {self.name} to listen")

    def _answers(self):
        with socket.socket() as link:
            return link.connect_ex(("127.0.0.1", self.port)) == 0

    def connections(self):
        """Return the processes that serve a connection; each ends it by its own end."""
        return children_of(self.process.pid)

    def cut(self):
        """Cut all connections, and wait until they are gone."""
        for process in self.connections():
            for each in (*children_of(process.pid), process):
                # The session's own processes end by themselves, as on a real box.
                with contextlib.suppress(psutil.NoSuchProcess):
                    if each.name().startswith("sshd"):
                        each.kill()
        eventually(lambda: not self.connections(), f"the connections to {self.name} to end")

    def stop(self):
        """End it, with all connections."""
        connections = self.connections()
        self.process.terminate()
        self.process.wait(20)
        for process in connections:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        # One that was just begun holds the port a little longer.
        eventually(lambda: not self._answers(), f"nothing to listen for {self.name}")


class Network:
    """Hosts, and the `ssh` that finds them by name: the system's own with another config.

    Its hosts have one cache: what they run of dlmon is compiled once.
    """

    def __init__(self, folder, python, cache=None):
        self.folder = folder
        self.cache = cache or folder / "cache"
        self.hosts = []
        self.key, self.host_key = folder / "key", folder / "host_key"
        _keygen(self.key)
        _keygen(self.host_key)
        self.known_hosts = folder / "known_hosts"
        self.config = folder / "ssh_config"
        self.bin = folder / "bin"
        self.bin.mkdir()
        self.python_folder = folder / "python"
        self.python_folder.mkdir()
        (self.python_folder / "python3").symlink_to(python)
        ssh = self.bin / "ssh"
        ssh.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {self.config} "$@"\n')
        ssh.chmod(0o755)
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)

    def add(self, name, *, known=True, options="", **settings):
        """Start a host."""
        host = Sshd(self, name, **settings)
        self.hosts.append(host)
        self.name(name, host, known=known, options=options)
        return host

    def name(self, name, host, *, port=None, known=True, options=""):
        """Have a host found by a name, at another port than its own where one is given."""
        with self.config.open("a") as config:
            config.write(
                f"Host {name}\n  HostName 127.0.0.1\n  Port {port or host.port}\n"
                f"  User {pwd.getpwuid(os.geteuid()).pw_name}\n"
                f"  IdentityFile {self.key}\n  IdentitiesOnly yes\n"
                f"  UserKnownHostsFile {self.known_hosts}\n  HostKeyAlias {name}\n{options}"
            )
        if known:
            public = self.host_key.with_suffix(".pub").read_text()
            with self.known_hosts.open("a") as hosts:
                hosts.write(f"{name} {public}")

    def environment(self):
        """Return what a command needs to find the hosts."""
        return {"PATH": f"{self.bin}:{os.environ['PATH']}"}

    def close(self):
        for host in self.hosts:
            host.stop()
            # What runs on a host goes on without a connection.
            end_marked(host.mark)


class Laptop:
    """What runs dlmon: with a cache, a state and settings of its own."""

    def __init__(self, command, imported, network, folder):
        self.command, self._imported = command, imported
        self.sessions = folder / "state" / "dlmon" / "sessions"
        self.environment = {
            **os.environ,
            **network.environment(),
            "XDG_CACHE_HOME": str(folder / "cache"),
            "XDG_STATE_HOME": str(folder / "state"),
            "XDG_CONFIG_HOME": str(folder / "config"),
        }

    def dlmon(self, *arguments):
        """Run a command to its end, in a fork that has imported dlmon."""
        return self._imported.run(self.command, arguments, Path.cwd(), self.environment)
