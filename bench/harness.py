"""Run a bench, set its exit code, and end all its processes on every way out."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import NoReturn

import psutil

# An interpreter that has the frameworks may have no dlmon.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from dlmon.system.children import become_subreaper

ROOT = Path(__file__).resolve().parent.parent
CANNOT_RUN, INTERRUPTED = 2, 130
END_S = 5.0
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def parser(description: str | None) -> argparse.ArgumentParser:
    """Return a parser of a bench's options, with the bench's docstring as its help."""
    return argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )


class CannotRun(Exception):
    """A bench can't go on; the message is one sentence."""


def run(measure: Callable[[], None]) -> NoReturn:
    """Run a bench's main function and exit: 0 measured, 2 can't run, 130 interrupted."""
    # A bench that dlmon itself runs must not report to that dlmon.
    os.environ.pop("DLMON_RECORDS_FD", None)
    # Supervisors lead their own sessions; when their viewer ends, they become our children.
    become_subreaper()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _leave)
    code = 0
    begin, machine_s = time.monotonic(), machine_cpu_s()
    try:
        measure()
    except CannotRun as error:
        print(f"{Path(sys.argv[0]).name}: {error}", file=sys.stderr)
        code = CANNOT_RUN
    except psutil.NoSuchProcess as error:
        print(f"process {error.pid} ended while it was measured", file=sys.stderr)
        code = CANNOT_RUN
    except KeyboardInterrupt:
        code = INTERRUPTED
    finally:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        _end_descendants()
    if code == 0:
        # Our own times include those of ended descendants.
        others_s = machine_cpu_s() - machine_s - sum(os.times()[:4])
        others_pct = max(0.0, others_s / (time.monotonic() - begin) * 100)
        print(f"{'taken by other processes meanwhile':<44} {others_pct:.1f} % of a core (context)")
    sys.exit(code)


def end_tree(pid: int) -> None:
    """Kill a process and its descendants, and wait until they are gone."""
    with contextlib.suppress(psutil.NoSuchProcess):
        root = psutil.Process(pid)
        # `_kill` ends the last child first, so that no parent is left to start another.
        processes = [root, *root.children(recursive=True)]
        _kill(processes)


def script(name: str) -> str:
    """Return the path of a script in this folder."""
    return str(Path(__file__).parent / name)


def dlmon_command() -> str:
    """Return the `dlmon` command of this interpreter.

    Raises:
        CannotRun: dlmon is not installed for it.
    """
    command = Path(sys.executable).with_name("dlmon")
    if not command.exists():
        raise CannotRun(f"there is no {command}: install dlmon there first (make setup)")
    return str(command)


def _leave(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)


def machine_cpu_s() -> float:
    """Return the CPU time that all processes of this machine have taken, including steal."""
    user, nice, system, _, _, irq, softirq, steal = map(
        int, Path("/proc/stat").read_text().split(maxsplit=9)[1:9]
    )
    return (user + nice + system + irq + softirq + steal) / TICKS_PER_S


def _end_descendants() -> None:
    deadline = time.monotonic() + END_S
    while processes := psutil.Process().children(recursive=True):
        if time.monotonic() > deadline:
            pids = ", ".join(str(process.pid) for process in processes)
            print(f"these processes would not end: {pids}", file=sys.stderr)
            return
        _kill(processes)


def _kill(processes: list[psutil.Process]) -> None:
    for process in reversed(processes):
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(processes, timeout=1.0)
