"""Makes a Linux look like a Mac to Python: put this folder on PYTHONPATH.

What only Linux has is gone from the modules, and /proc and /sys are not there. psutil still reads
them, in place of what it would ask a Mac's kernel.
"""

# ruff: noqa: F401 - what is only imported looks at the platform as it is imported.
import asyncio
import builtins
import ctypes
import fcntl
import io
import multiprocessing.util
import os
import platform
import resource
import select
import selectors
import signal
import socket
import struct
import subprocess
import sys
import sysconfig
import tempfile
import time
import urllib.request
import uuid
from collections import namedtuple

import psutil

sysconfig.get_config_vars()
_SOL_SOCKET, _SO_PEERCRED = socket.SOL_SOCKET, socket.SO_PEERCRED
# It looks for what only Linux has as it is imported.
tempfile._O_TMPFILE_WORKS = False
selectors.DefaultSelector = selectors.PollSelector
# It may use vfork and posix_spawn, which a Mac has too; the pidfd it has not.
subprocess._can_use_pidfd = lambda: False

ONLY_LINUX = {
    os: "sched_getaffinity sched_setaffinity sched_getscheduler memfd_create pidfd_open pipe2 "
    "posix_fadvise posix_fallocate fdatasync copy_file_range eventfd splice getrandom setns "
    "unshare getresuid setresuid waitid O_PATH O_TMPFILE O_DIRECT O_NOATIME getxattr setxattr "
    "listxattr removexattr MFD_CLOEXEC SCHED_BATCH",
    signal: "pidfd_send_signal sigwaitinfo sigtimedwait SIGRTMIN SIGRTMAX SIGPWR SIGSTKFLT SIGPOLL",
    time: "CLOCK_BOOTTIME CLOCK_TAI clock_settime pthread_getcpuclockid",
    select: "epoll EPOLLIN EPOLLOUT EPOLLERR EPOLLHUP",
    socket: "SO_PEERCRED SO_PASSCRED SCM_CREDENTIALS SOCK_CLOEXEC SOCK_NONBLOCK AF_NETLINK "
    "AF_PACKET AF_VSOCK",
    fcntl: "F_SETPIPE_SZ F_GETPIPE_SZ F_ADD_SEALS F_OFD_GETLK F_OFD_SETLK F_OFD_SETLKW F_NOTIFY",
    resource: "prlimit RLIMIT_RTPRIO RLIMIT_SIGPENDING",
}
for module, names in ONLY_LINUX.items():
    for name in names.split():
        if hasattr(module, name):
            delattr(module, name)

CpuTimes = namedtuple("CpuTimes", "user nice system idle")
_cpu_times = psutil.cpu_times


def mac_cpu_times(percpu=False):
    """Return what a Mac tells apart."""
    cores = _cpu_times(percpu)
    return [CpuTimes(*core[:4]) for core in cores] if percpu else CpuTimes(*cores[:4])


psutil.cpu_times = mac_cpu_times
del psutil.sensors_temperatures, psutil.sensors_fans
del psutil.Process.io_counters, psutil.Process.cpu_affinity, psutil.Process.rlimit

# The layout of struct flock: Linux's and a Mac's.
_LINUX, _MAC = struct.Struct("hhqqi4x"), struct.Struct("qqihh")
_fcntl = fcntl.fcntl


def mac_fcntl(fd, command, argument=0):
    """Take and return locks in the layout of a Mac."""
    if command != fcntl.F_GETLK or isinstance(argument, int):
        return _fcntl(fd, command, argument)
    start, length, pid, kind, whence = _MAC.unpack(argument)
    found = _fcntl(fd, command, _LINUX.pack(kind, whence, start, length, pid))
    kind, whence, start, length, pid = _LINUX.unpack(found)
    return _MAC.pack(start, length, pid, kind, whence)


class MacSocket(socket.socket):
    """A socket that knows no abstract names, only paths of up to 103 bytes."""

    def bind(self, address):
        self._check(address)
        super().bind(address)

    def connect(self, address):
        self._check(address)
        super().connect(address)

    def _check(self, address):
        if self.family == socket.AF_UNIX:
            path = os.fsencode(address)
            if path[:1] == b"\0" or len(path) > 103:
                raise OSError(22, "Invalid argument")

    def getsockopt(self, level, name, size=0):
        """Answer LOCAL_PEERCRED and LOCAL_PEERPID."""
        if level != 0 or name not in (1, 2):
            return super().getsockopt(level, name, size)
        pid, user, _ = struct.unpack("3i", super().getsockopt(_SOL_SOCKET, _SO_PEERCRED, 12))
        return struct.pack("i", pid) if name == 2 else struct.pack("IIh66x", 0, user, 1)


fcntl.fcntl = mac_fcntl
socket.socket = MacSocket


def _is_hidden(path):
    if not isinstance(path, (str, bytes, os.PathLike)):
        return False
    path = os.fsdecode(path)
    if path not in ("/proc", "/sys") and not path.startswith(("/proc/", "/sys/")):
        return False
    caller = sys._getframe(2)
    while caller is not None:
        if f"{os.sep}psutil{os.sep}" in caller.f_code.co_filename:
            return False
        caller = caller.f_back
    return True


def _hide(module, name):
    original = getattr(module, name)

    def hiding(path=".", *arguments, **named):
        if _is_hidden(path):
            raise FileNotFoundError(2, "No such file or directory", path)
        return original(path, *arguments, **named)

    setattr(module, name, hiding)


for module, name in (
    *((os, name) for name in ("open", "stat", "lstat", "readlink", "scandir", "listdir", "access")),
    (builtins, "open"),
    (io, "open"),
):
    _hide(module, name)

sys.platform = "darwin"
_MAC_UNAME = os.uname_result(("Darwin", os.uname().nodename, "24.5.0", "", "arm64"))
os.uname = lambda: _MAC_UNAME
