"""What a screen is tested with: a growing log, who locks it, a supervisor, a clock, an app."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from textual import events, on
from textual.screen import Screen

import tui.app
from dlmon.cli.start import Sources, Start
from dlmon.exit_codes import FAILED
from dlmon.launch.supervisor_process import SupervisorProcess
from dlmon.log.folder import LOG_NAME
from dlmon.options.settings import Settings
from dlmon.protocol.job import Job, Refused, Started
from dlmon.protocol.stop import BY_OTHER_SCREEN
from dlmon.records import Facts, Machine, Record, SessionHeader, encode
from dlmon.session.local_machine import LocalMachine
from dlmon.system.this_host import boot_id, host_name
from tui.app import DlmonApp
from tui.messages import GoBack, NotifyAlert, NotifyEnd, Request
from tui.sessions.session_list import SessionList

from .sessions import DEADLINE_S

_HOLD_LOCK = """
import fcntl, sys
with open(sys.argv[1], "rb+") as log:
    fcntl.lockf(log, fcntl.LOCK_EX)
    print("locked", flush=True)
    sys.stdin.read()
"""


# A job of a workload.
A_JOB = Job("cifar10-cnn", ("true",), {}, "")


class Clock:
    """CLOCK_MONOTONIC that stands until a test moves it."""

    def __init__(self, now_ns: int = 0) -> None:
        self.now_ns = now_ns

    def __call__(self) -> int:
        return self.now_ns

    def advance(self, seconds: float) -> None:
        self.now_ns += int(seconds * 1e9)


class GrowingLog:
    """A log that is written as its test says, locked by a process as by a supervisor."""

    def __init__(self, log_dir: Path, records: list[Record]) -> None:
        header = records[0]
        assert isinstance(header, SessionHeader)
        self.header = header
        self.path = log_dir / header.id / LOG_NAME
        self.path.parent.mkdir(parents=True)
        self.path.touch()
        self._holder = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _HOLD_LOCK, str(self.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._holder.stdout is not None
        assert self._holder.stdout.readline() == b"locked\n"
        self.write(*records)

    def write(self, *records: Record) -> None:
        """Append records."""
        with self.path.open("ab") as log:
            log.write(b"".join(encode(record) for record in records))

    @property
    def is_locked(self) -> bool:
        """Whether the process that holds the lock runs."""
        return self._holder.poll() is None

    def drop_lock(self) -> None:
        """End the process that holds the lock."""
        assert self._holder.stdin is not None
        assert self._holder.stdout is not None
        self._holder.stdin.close()
        self._holder.stdout.close()
        self._holder.wait()

    def was_terminated(self) -> bool:
        """Wait for the process that holds the lock, and return whether a screen ended it."""
        return -self._holder.wait(10) == BY_OTHER_SCREEN


class FakeSupervisor:
    """A supervisor that notes what was sent to it; the answer comes once `may_answer` is set."""

    def __init__(self, answer: Started | Refused | None = None, job: Job = A_JOB) -> None:
        self.job = job
        self.words: list[str] = []
        self.released = False
        self.may_answer = threading.Event()
        self._answer = answer

    def answer(self) -> Started | Refused:
        assert self._answer is not None
        assert self.may_answer.wait(10)
        return self._answer

    def send(self, word: str) -> None:
        self.words.append(word)

    detach = SupervisorProcess.detach
    hang_up = SupervisorProcess.hang_up

    def new_records(self) -> list[Record]:
        return []

    def release(self) -> None:
        self.released = True
        self.may_answer.set()


def refused_launch(job: Job) -> FakeSupervisor:
    """Return a supervisor that starts nothing."""
    supervisor = FakeSupervisor(Refused("nothing can be launched here", FAILED), job)
    supervisor.may_answer.set()
    return supervisor


class FakeSensors:
    """A sensors process that reports what its test says; all of them are in `started`."""

    started: list[FakeSensors] = []  # noqa: RUF012 - emptied by the fixture that puts it in place

    def __init__(
        self, interval_s, on_facts, on_sample, on_notice, *, pcie=False, at_once=False
    ) -> None:
        self.interval_s, self.pcie = interval_s, pcie
        self._on_facts, self._on_sample = on_facts, on_sample
        self.notify = on_notice
        self.running = False

    def start(self) -> None:
        self.running = True
        self.started.append(self)

    def close(self) -> None:
        self.running = False

    def say(self, *records: Facts | Machine) -> None:
        for record in records:
            if isinstance(record, Facts):
                self._on_facts(record)
            else:
                self._on_sample(record)


def fake_machine(interval_s=1.0, pcie=False, clock=time.monotonic_ns) -> LocalMachine:
    """Return this machine with sensors that a test speaks for."""
    return LocalMachine(interval_s, pcie, FakeSensors, clock)


class OneScreen(DlmonApp):
    """The app with a screen of the test's own, styled as ever.

    What that screen asks of its app is not done, but noted in `asked`.
    """

    CSS_PATH = Path(tui.app.__file__).with_name("dlmon.tcss")

    def __init__(self, screen: Screen, ascii: bool = False) -> None:
        super().__init__(Start(Path("no-sessions"), Settings(ascii=ascii)))
        self._first = screen
        self._make_first = lambda: screen
        self.asked: list[Request] = []

    def on_mount(self, event: events.Mount) -> None:
        event.prevent_default()

    @on(Request)
    def note(self, request: Request) -> None:
        if not isinstance(request, (NotifyEnd, NotifyAlert)) and (
            not isinstance(request, GoBack) or request.screen is self._first
        ):
            request.prevent_default()
            self.asked.append(request)


class Shown:
    """A screen in an app of its own, as a person sees it."""

    def __init__(self, screen: Screen) -> None:
        self.screen = screen
        self.app = OneScreen(screen)

    @asynccontextmanager
    async def on(self, size=(120, 40), **options):
        """Show it in a terminal of a size."""
        async with self.app.run_test(size=size, **options) as self.pilot:
            await self.begin()
            yield self.pilot

    async def begin(self) -> None:
        await self.pilot.pause()

    async def settle(self) -> None:
        """Let what follows from a key be drawn."""
        await self.pilot.pause()

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.settle()

    def asked(self, *kinds: type[Request]) -> list[Request]:
        """Return what was asked of the app by messages of these kinds."""
        return [message for message in self.app.asked if isinstance(message, kinds)]

    @property
    def text(self) -> str:
        return screen_text(self.app)

    @property
    def footer(self) -> str:
        """The last row."""
        return self.text.splitlines()[-1].strip()

    @property
    def line(self) -> str:
        """The row above the last one."""
        return self.text.splitlines()[-2].strip()

    def rows(self, selector) -> list[str]:
        """Return the rows of a widget's text."""
        widget = self.screen.query_one(selector)
        return [widget.render_line(y).text.rstrip() for y in range(widget.size.height)]

    def titles(self, selector) -> tuple[str, str]:
        """Return the texts in a widget's border: above and below."""
        widget = self.screen.query_one(selector)
        return widget._border_title.plain, widget._border_subtitle.plain


def dlmon_app_with(sources: Sources) -> Callable[..., DlmonApp]:
    """Return what makes the app for a directory, a log, its supervisor, and more of a start."""

    def make(directory: Path, log: Path | None = None, started=None, **more) -> DlmonApp:
        more = {"sources": sources, **more}
        return DlmonApp(Start(directory, log=log, started=started, **more))

    return make


async def drag(pilot, widget, offset: tuple[int, int]) -> None:
    """Move the mouse over a widget with its left button held; `hover` holds none."""
    await pilot._post_mouse_events([events.MouseMove], widget, offset, button=1)


def of_this_boot(records: list[Record]) -> list[Record]:
    """Return records as if they were written on this machine since it was started."""
    header = records[0]
    assert isinstance(header, SessionHeader)
    return [replace(header, host=host_name(), boot_id=boot_id()), *records[1:]]


async def until(pilot, condition: Callable[[], object]) -> None:
    """Wait until something has come about that a worker or a thread brings."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, f"in vain; the screen shows\n{screen_text(pilot.app)}"
        await pilot.pause(0.01)


async def until_read(pilot) -> None:
    """Wait until the sessions screen shows what is recorded now."""
    await pilot.pause()
    screen = pilot.app.screen

    def is_read() -> bool:
        lists = screen.query(SessionList)
        under_way = [worker for worker in pilot.app.workers if worker.node is screen]
        return not under_way and all(shown.all_rows is not None for shown in lists)

    await until(pilot, is_read)
    await pilot.pause()


def screen_text(app) -> str:
    """Return what the terminal shows, without blanks at the ends of lines."""
    strips = app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in strip).rstrip() for strip in strips)
