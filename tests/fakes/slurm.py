"""A real Slurm on this machine: a controller and two nodes, with ports and folders of their own."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
from pathlib import Path

import psutil
from fakes.sessions import DEADLINE_S, eventually, is_alive
from fakes.sshd import free_port

NODES = ("n1", "n2")
GPUS = 2
MEMORY_MIB = 8000
_PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue")
_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
# A requeued job waits as long as its credentials hold; a killed one has `KillWait` to end in.
_CONFIG = """\
ClusterName=dlmon
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthInfo=socket={folder}/munge.socket,cred_expire=5
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
MailProg=/bin/true
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
DefMemPerCPU=100
SlurmdParameters=config_overrides
ReturnToService=2
JobRequeue=1
KillWait=30
SlurmdTimeout=6
MinJobAge=300
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0
EpilogMsgTime=0
GresTypes=gpu
{nodes}
PartitionName=main Nodes=ALL Default=YES MaxTime=1-00:00:00 PriorityTier=10 GraceTime=0
PartitionName=urgent Nodes=ALL MaxTime=1-00:00:00 PriorityTier=100
PartitionName=down Nodes=ALL State=DOWN
"""
_NODE = (
    "NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=4 "
    "RealMemory={memory} Gres=gpu:{gpus}"
)


def lacks_slurm():
    """Say why no Slurm can be started here; None where one can."""
    missing = [name for name in _PROGRAMS if shutil.which(name, path=_PATH) is None]
    if missing:
        return f"slurm-wlm and munge are not installed: {missing[0]} is missing"
    return None if os.geteuid() == 0 else "a Slurm of the tests' own is started by root only"


class Slurm:
    """One cluster; its daemons end with `close`."""

    def __init__(self, folder):
        self.folder = Path(folder)
        host = socket.gethostname()
        key = self.folder / "munge.key"
        key.write_bytes(secrets.token_bytes(128))
        key.chmod(0o600)
        for number in range(GPUS):
            (self.folder / f"gpu{number}").touch()
        nodes = [
            _NODE.format(name=name, host=host, port=free_port(), memory=MEMORY_MIB, gpus=GPUS)
            for name in NODES
        ]
        self.config = self.folder / "slurm.conf"
        self.config.write_text(
            _CONFIG.format(host=host, port=free_port(), folder=self.folder, nodes="\n".join(nodes))
        )
        (self.folder / "gres.conf").write_text(f"Name=gpu File={self.folder}/gpu[0-{GPUS - 1}]\n")
        (self.folder / "cgroup.conf").write_text("CgroupAutomount=no\n")
        (self.folder / "state").mkdir()
        # That of the first test's time: a node that is started later is none of a later test's.
        self._environment = {**os.environ, **self.environment}
        self._daemons = {}
        munge_socket = self.folder / "munge.socket"
        places = [
            f"--{name}-file={self.folder}/munge.{name}" for name in ("key", "pid", "log", "seed")
        ]
        try:
            self._start("munged", "--foreground", "--force", f"--socket={munge_socket}", *places)
            eventually(munge_socket.exists, "munged to listen")
            self._start("slurmctld", "-D")
            for name in NODES:
                self.start_node(name)
            self.wait_until_idle()
        except BaseException:
            self.close()
            raise

    @property
    def environment(self):
        """What a command needs to find this cluster."""
        return {"SLURM_CONF": str(self.config)}

    def _start(self, program, *arguments, name=None):
        with (self.folder / f"{name or program}.log").open("ab") as log:
            self._daemons[name or program] = subprocess.Popen(
                [shutil.which(program, path=_PATH), *arguments],
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def start_node(self, name):
        self._start("slurmd", "-D", "-N", name, name=name)

    def hide(self, name, folder):
        """Give a node a disk of its own in place of a folder; return what takes it away again."""
        hidden = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs none "$1" && shift && exec "$@"']
        slurmd = [shutil.which("slurmd", path=_PATH), "-D", "-N", name]
        self.stop_node(name)
        self._start(*hidden, "sh", str(folder), *slurmd, name=name)

        def show():
            self.stop_node(name)
            self.start_node(name)

        return show

    def stop_node(self, name):
        self._daemons[name].terminate()
        self._daemons[name].wait(DEADLINE_S)

    def kill_node(self, name):
        """End a node as a power cut does: its daemon, and what runs there of each job.

        The controller is told, which finds a missing node by itself, but only in minutes.
        """
        daemon = self._daemons.pop(name)
        steps = eventually(lambda: self._steps_of(name), f"what runs on {name}")
        daemon.kill()
        daemon.wait()
        # What looks after a step goes first: it would tell the controller of its end.
        for pid in (*self._keepers_of(steps), *steps):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.run("scontrol", "update", f"nodename={name}", "state=down", "reason=lost")
        return steps

    def _keepers_of(self, steps):
        """Return the slurmstepd of each of these processes."""
        keepers = set()
        for pid in steps:
            with contextlib.suppress(psutil.NoSuchProcess):
                parents = psutil.Process(pid).parents()
                keepers |= {each.pid for each in parents if each.name() == "slurmstepd"}
        return keepers

    def _steps_of(self, name):
        """Return the processes that have the node's name in their environment, and slurmstepd's."""
        own = f"SLURMD_NODENAME={name}".encode()
        found = []
        for process in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if not process.name.isdigit():
                    continue
                environment = (process / "environ").read_bytes().split(b"\0")
                if own in environment and f"SLURM_CONF={self.config}".encode() in environment:
                    found.append(int(process.name))
        return found

    def run(self, *words):
        """Run a command of Slurm, and return what it prints."""
        return subprocess.run(
            words,
            env={**os.environ, **self.environment},
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=True,
        ).stdout

    def nodes(self):
        """Return the state of each node."""
        printed = self.run("sinfo", "-h", "-N", "-p", "main", "-o", "%N %T")
        return dict(line.split() for line in printed.splitlines())

    def wait_until_idle(self):
        with contextlib.suppress(AssertionError):
            eventually(self._is_idle, "idle nodes")
            return
        raise AssertionError(f"{self.nodes()}\n{self.run('squeue')}{self.logs()}")

    def _is_idle(self):
        for name, daemon in self._daemons.items():
            assert daemon.poll() is None, f"{name} has ended"
        with contextlib.suppress(subprocess.CalledProcessError):
            return self.nodes() == dict.fromkeys(NODES, "idle")
        return False

    def state_of(self, job):
        """Return what Slurm calls the state of a job."""
        with contextlib.suppress(subprocess.CalledProcessError):
            return self.run("squeue", "-h", "-j", str(job), "-t", "all", "-o", "%T").strip()
        return ""

    def cancel_all(self):
        """Cancel every job, and wait until the nodes are free."""
        for name in NODES:
            if self._daemons.get(name) is None or not is_alive(self._daemons[name].pid):
                self.start_node(name)
                with contextlib.suppress(subprocess.CalledProcessError):
                    self.run("scontrol", "update", f"nodename={name}", "state=resume")
        self.run("scancel", "-u", "root")
        self.wait_until_idle()

    def logs(self):
        """Return the last lines that each daemon has written."""
        files = sorted(self.folder.glob("*.log"))
        return "\n".join(f"{file.name}:\n{file.read_text()[-1500:]}" for file in files)

    def close(self):
        """End the daemons, the controller last."""
        for process in reversed(self._daemons.values()):
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._daemons = {}
