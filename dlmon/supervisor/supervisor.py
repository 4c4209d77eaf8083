"""Run one session, as the only writer of its log.

The supervisor writes the workload's records and output, and the sensors' samples, to the log; a
recording of the machine has only samples. It uses neither NVML nor Keras, so it can't hang or
crash with them.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import platform
import signal
import sys
import time
from collections import deque
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import dlmon
from dlmon.alerts.alert_settings import AddressError, AlertSettings, check_settings
from dlmon.alerts.dispatch import SessionAlerts
from dlmon.comparison.peaks import with_peak
from dlmon.exit_codes import DONE, FAILED, NOT_STARTED, WRONG_ARGUMENTS, code_of_script
from dlmon.launch.bundle import BundleError, bundle_folder
from dlmon.launch.device import DeviceChoice, DeviceError, check_cpus, choose_device, may_wake
from dlmon.launch.exporter_process import ServeError, serve_sessions
from dlmon.launch.interpreter import (
    Interpreter,
    InterpreterError,
    examine_interpreter,
    own_interpreter,
)
from dlmon.launch.sensors_process import FACTS_S, SensorsProcess
from dlmon.launch.step import Task, task_of
from dlmon.log.folder import LOG_NAME, STOP_NAME, LogError, new_session_id, part_name
from dlmon.log.label import Label, write_label
from dlmon.log.log_follower import MOVED_AWAY
from dlmon.log.parts import announce, announced, join, joined_step, leave
from dlmon.log.writer import LogWriter
from dlmon.protocol.job import Job, Refused, Started
from dlmon.protocol.stop import (
    ASKS_TO_END,
    CAUSE_BY_WORD,
    CAUSE_TEXT,
    DETACH,
    PASS_ON,
    RESUME,
    STOP_SIGNALS,
    SUSPEND,
    cause_of_signal,
    signal_name,
)
from dlmon.records import (
    NUMBERS_PER_PART,
    SCHEMA,
    Epoch,
    Facts,
    Machine,
    MachineFacts,
    Model,
    Notice,
    Output,
    Record,
    Result,
    SessionHeader,
    Stack,
    StandardInput,
    Status,
    StopCause,
    Suspended,
)
from dlmon.records.changes import merge
from dlmon.session.index import Index
from dlmon.session.session import Session
from dlmon.slurm.ending import ask_why
from dlmon.slurm.submit import WARNING_S
from dlmon.slurm.usage import job_in, with_queue
from dlmon.supervisor.child import ScriptError, ScriptProcess, WorkloadProcess, check_script
from dlmon.supervisor.control import Control
from dlmon.supervisor.kernel_kills import KernelKills
from dlmon.supervisor.noticing_process import NoticingProcess
from dlmon.supervisor.parts import Parts
from dlmon.supervisor.script_source import script_source
from dlmon.supervisor.tracker_process import TrackerFeed
from dlmon.supervisor.verdict import Ending, make_machine_result, make_result, why_nothing_trained
from dlmon.system.children import command_of_folders, end_group, end_process, python_command
from dlmon.system.suspension import Suspension
from dlmon.system.this_host import boot_id, host_name

WORKLOADS = "workloads"
_T = TypeVar("_T")
NO_FACTS = "the sensors did not answer"
END_S = 1.0
# At the end, a session waits this long for room on a full disk; a detached one without limit.
FULL_DISK_S = 300.0
# The other parts of a run on several hosts wait this long for part 0 to make the session.
ANNOUNCED_S = 30.0
_REFUSALS = (DeviceError, InterpreterError, BundleError, LogError, ScriptError, AddressError)
# The last lines of output, which explain a crash: a traceback may have a hundred lines.
LAST_OUTPUT_LINES = 200
# The index of a long log is written whenever the log has grown by this much.
INDEX_EVERY_BYTES = 2 << 20
# A script that saves when it is asked to end has this long.
SAVE_S = 60.0
# By default Slurm sends SIGKILL 30 s after SIGTERM (KillWait); a site may set less.
END_OF_JOB_S = 20.0
# The time limit for asking Slurm, at the start, for the job's resources.
ASK_QUEUE_S = 3.0
# The time for the last records before the job's time is up.
LAST_S = 15.0


async def every_second(
    do: Callable[[], None], notice: Callable[[str], None], period_s: float = 1.0
) -> None:
    """Call `do` every `period_s` until this is cancelled.

    An exception, which is a bug of dlmon, is noticed once; the recording goes on.
    """
    noticed: set[str] = set()
    while True:
        await asyncio.sleep(period_s)
        try:
            do()
        except Exception as error:  # noqa: BLE001 - the session must go on
            text = f"an error of dlmon's own: {type(error).__name__}: {error}"
            if text not in noticed:
                noticed.add(text)
                notice(text)


class Supervisor:
    """One session, from the job to its result record."""

    def __init__(
        self, job: Job, answer: Callable[[Started | Refused], None], send: Callable[[Record], bool]
    ) -> None:
        self._job = job
        self._answer = answer
        self._send = send
        self._reported_log_problem = ""
        self._facts: asyncio.Future[Facts | None] = asyncio.get_running_loop().create_future()
        self._sensors = SensorsProcess(
            job.interval_s,
            self._take_facts,
            self._take_sample,
            self._notice,
            pcie=job.pcie,
            on_no_facts=lambda: self._take_facts(None),
            # A recording of the machine must not wake GPUs.
            wake=not job.is_machine_recording and may_wake(job.device, os.environ),
        )
        self._writer: LogWriter | None = None
        self._session: Session | None = None
        self._alerts: SessionAlerts | None = None
        self._index: Index | None = None
        self._tracker: TrackerFeed | None = None
        self._part_copy: NoticingProcess | None = None
        self._early_notices: list[str] = []
        self._later_facts: Facts | None = None
        self._unwritten: Machine | None = None
        """The merged samples from before there was a log; later samples hold only changes."""
        kind = ScriptProcess if job.script else WorkloadProcess
        self._workload: ScriptProcess | WorkloadProcess = kind(self._write, self._notice)
        self._control = Control(self._workload.processes, self._write, self._notice)
        self._last_output: deque[Output] = deque(maxlen=LAST_OUTPUT_LINES)
        self._unfinished_word = b""
        self._detached = job.outlives_viewer
        self._stop_cause: StopCause | None = None
        self._why_stopped = ""
        self._end_passed_on = False
        """True once a script got a signal that asks it to end; it may go on."""
        self._stopping = asyncio.Event()
        self._stop_timer: asyncio.TimerHandle | None = None
        self._ended_t: int | None = None
        self._suspension: Suspension | None = None
        self._suspended_t: int | None = None
        """The time at which the run was suspended; None while it runs."""
        self._stop_waiting = asyncio.Event()
        self.exit_code = FAILED
        """The exit code of this process once the session has ended."""
        self._reported_lost_lines = 0
        self._kernel_kills = KernelKills()
        self._memory_ran_out = False
        self._exporter_pids: set[int] = set()
        self._task: Task | None = task_of(os.environ) if job.script else None
        """Our task in a run on several hosts."""
        self._parts: Parts | None = None
        self._announcement: Path | None = None
        self._slurm_job = job_in(os.environ)
        self._asking_slurm: asyncio.Task[None] | None = None
        """Asks Slurm why it ends the job."""

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGCHLD, self._reap)
        self._stop_on_signals()
        if self._job.session is None:
            loop.add_reader(sys.stdin.fileno(), self._read_words)
        self._sensors.start()
        try:
            if self._slurm_job is not None:
                self._slurm_job = await asyncio.to_thread(
                    with_queue, self._slurm_job, os.environ, ASK_QUEUE_S
                )
            facts = await self._unless_stopped(self._facts, FACTS_S)
            try:
                interpreter = await self._interpreter()
                if self._stop_cause is not None:
                    self._answer(Refused(f"stopped before it began: {self._why_stopped}", FAILED))
                    return
                launch, alerts = None, None
                if self._job.alerts is not None:
                    alerts = AlertSettings.from_fields(self._job.alerts)
                    check_settings(alerts)
                if not self._job.is_machine_recording:
                    launch = self._prepare(interpreter, facts)
                folder = await self._folder_of_step()
                self._open_log(facts, interpreter, alerts, folder)
            except _REFUSALS as error:
                code = NOT_STARTED if self._job.script else WRONG_ARGUMENTS
                lacks = isinstance(error, (DeviceError, InterpreterError))
                self._answer(Refused(str(error), code, permanent=lacks))
                return
            await self._supervise(launch)
        finally:
            self._sensors.close()

    def _stop_on_signals(self) -> None:
        """Stop the session, with its result, on any signal that would end this process."""
        loop = asyncio.get_running_loop()
        for number in STOP_SIGNALS:
            # nohup ignores SIGHUP.
            if number == signal.SIGHUP and signal.getsignal(number) == signal.SIG_IGN:
                continue
            loop.add_signal_handler(number, self._stop, *cause_of_signal(number))
        if self._slurm_job is None:
            return
        loop.add_signal_handler(signal.SIGTERM, self._end_by_slurm)
        number = getattr(signal, f"SIG{self._job.own_signal}", signal.SIGTERM)
        script = self._workload
        is_handled = number in STOP_SIGNALS and number != signal.SIGTERM
        if is_handled and isinstance(script, ScriptProcess):
            loop.add_signal_handler(number, script.pass_on, number)

    def _end_by_slurm(self) -> None:
        """End the session on Slurm's SIGTERM, and ask Slurm for the reason."""
        self._begin_asking_slurm()
        self._stop(StopCause.SIGNAL, "Slurm asks it to end")

    def _begin_asking_slurm(self) -> None:
        if self._asking_slurm is None and self._ended_t is None:
            self._asking_slurm = asyncio.create_task(self._ask_slurm())

    async def _ask_slurm(self) -> None:
        cause, remaining_s = await asyncio.to_thread(ask_why, os.environ, WARNING_S)
        # A person may have stopped the session before.
        by_slurm = self._stop_cause in (StopCause.SIGNAL, StopCause.VIEWER_GONE)
        if cause is not None and (by_slurm or self._end_passed_on):
            self._stop_cause, self._why_stopped = cause, CAUSE_TEXT[cause]
        if cause is not None and self._ended_t is None:
            self._notice(f"Slurm ends its job: {CAUSE_TEXT[cause]}")
        if remaining_s is not None and self._job.session is not None and self._job.script:
            self._kill_after(max(LAST_S, remaining_s - LAST_S))

    async def _interpreter(self) -> Interpreter | None:
        """Return the workload's interpreter; None without a workload, or if a stop comes first.

        Raises:
            InterpreterError: the workload can't run in it.
        """
        if self._job.is_machine_recording or self._job.script:
            return None
        backend, python = self._job.options.get("backend"), self._job.options.get("python")
        if python is None:
            return own_interpreter(backend)
        return await self._unless_stopped(
            examine_interpreter(str(python), str(backend or "tensorflow"))
        )

    async def _unless_stopped(
        self, awaitable: Awaitable[_T], timeout_s: float | None = None
    ) -> _T | None:
        """Return the result of an awaitable; None if a stop comes first, or it takes too long."""
        future = asyncio.ensure_future(awaitable)
        stopping = asyncio.ensure_future(self._stopping.wait())
        futures: set[asyncio.Future[Any]] = {future, stopping}
        await asyncio.wait(futures, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if future.done():
            return future.result()
        future.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await future
        return None

    def _prepare(
        self, interpreter: Interpreter | None, facts: Facts | None
    ) -> tuple[list[str], DeviceChoice]:
        """Return the command that starts the workload or script, and its devices.

        Raises:
            BundleError: the copy of dlmon for another interpreter can't be written.
            DeviceError: the machine lacks the device, or has fewer CPUs.
            ScriptError: the script can't be started.
        """
        if self._job.script:
            if self._job.process is None:
                check_script(self._job)
            gpus = tuple(facts.machine.gpus or ()) if facts else ()
            return list(self._job.command), DeviceChoice("auto", {}, gpus=gpus)
        command = list(self._job.command)
        if interpreter is not None and self._job.options.get("python") is not None:
            # Another interpreter runs a copy of dlmon.
            command = command_of_folders(interpreter.command, WORKLOADS, str(bundle_folder()))
        machine = facts.machine if facts else None
        device = choose_device(self._job.device, machine, os.environ, self._job.devices)
        cpus = self._job.options.get("cpus")
        if cpus is not None:
            check_cpus(cpus, os.sched_getaffinity(0))
        if device.notice:
            self._notice(device.notice)
        return command, device

    async def _folder_of_step(self) -> Path | None:
        """Return the folder of the session that part 0 of this step makes; None for part 0.

        If no folder appears in time, this part becomes a session of its own.

        Raises:
            LogError: the log directory can't be written, so the run can't be joined.
        """
        name, log_dir = self._job.join, Path(self._job.log_dir)
        if name is not None:
            number = await asyncio.to_thread(join, log_dir, name)
            self._task = Task(joined_step(name), number)
        task = self._task
        if task is None or task.number == 0:
            return None
        until = time.monotonic() + ANNOUNCED_S
        while time.monotonic() < until and not self._stopping.is_set():
            folder = await asyncio.to_thread(announced, log_dir, task.step, task.number)
            if folder is not None:
                return folder
            await asyncio.sleep(0.2)
        self._task = None
        whose = f"Slurm step {task.step}" if name is None else f"--join {name}"
        self._notice(
            f"the session of {whose} was not found in {log_dir}: what this machine does of it is "
            "a session of its own"
        )
        return None

    def _open_log(
        self,
        facts: Facts | None,
        interpreter: Interpreter | None,
        alerts: AlertSettings | None,
        folder: Path | None,
    ) -> None:
        job = self._job
        wall = time.time()
        versions: dict[str, Any]
        versions = {"python": platform.python_version(), "dlmon": dlmon.__version__}
        why: dict[str, str] = {}
        if interpreter is not None:
            versions |= {"python": interpreter.python, "backend": interpreter.backend}
            packages = {"keras": interpreter.keras, "backend_version": interpreter.backend_version}
            versions |= packages
            no_version = f"no package in {interpreter.command} gives its version"
            why = {f"versions.{name}": no_version for name in packages if not packages[name]}
        source: dict[str, Any] = {}
        if job.script and job.process is None:
            source, source_why = script_source(job.command, job.directory)
            why |= source_why
        if facts is None:
            why["machine"] = NO_FACTS
            self._notice(f"{NO_FACTS}, so nothing is known of the machine")
        header = SessionHeader(
            schema=SCHEMA,
            id=job.session or new_session_id(job.workload, wall) if folder is None else folder.name,
            host=host_name(),
            node=os.environ.get("SLURMD_NODENAME") if self._task is not None else None,
            boot_id=boot_id(),
            t=time.monotonic_ns(),
            wall=wall,
            workload=job.workload,
            options=job.options,
            machine=facts.machine if facts else MachineFacts(),
            versions=versions,
            command=job.command if job.script else None,
            directory=job.directory,
            slurm=self._slurm_job,
            injected=job.injected if job.script and job.process is None else {},
            standard_input=_standard_input(job),
            sweep=job.sweep,
            **source,
            why=why,
        )
        part = None if self._task is None or folder is None else part_name(self._task.number)
        # A submitted session has its folder already.
        name = LOG_NAME if part is None and job.session is not None else part
        self._writer = LogWriter(Path(job.log_dir), header, name)
        self._session = Session(header)
        if part is None:
            self._index = Index(self._writer.path, self._session)
        else:
            alerts = None
        if self._task is not None and part is None:
            self._parts = Parts(self._writer.path.parent, header, self._write, self._sensors.watch)
            try:
                self._announcement = announce(Path(job.log_dir), self._task.step, header.id)
            except OSError as error:
                self._early_notices.append(f"the other machines can't join it: {error.strerror}")
        if job.name is not None and part is None:
            try:
                write_label(self._writer.path, Label(job.name))
            except LogError as error:
                self._early_notices.append(str(error))
        if alerts is not None:
            log = self._writer.path
            self._alerts = SessionAlerts(alerts, self._session, log, self._write, self._notice)
        to = job.options.get("to")
        if to is not None and part is None:
            self._tracker = TrackerFeed(str(to), job, self._writer.path, self._notice)
        if self._parts is not None and job.joined_by:
            self._part_copy = NoticingProcess(
                [
                    *python_command("dlmon.remote.part_copy"),
                    *(str(self._writer.path.parent), str(job.join), *job.joined_by),
                ],
                os.environ,
                self._notice,
                "nothing is copied from the other machines: its process can't be started",
            )
        self._answer(Started(header.id, str(self._writer.path)))
        if self._later_facts is not None:
            self._write(self._later_facts)
        for text in self._early_notices:
            self._notice(text)

    async def _supervise(self, launch: tuple[list[str], DeviceChoice] | None) -> None:
        """Run the workload to its end, or record the machine until its time is up."""
        assert self._writer is not None
        if launch is not None:
            command, device = launch
            self._workload.start(command, self._job, device)
            assert self._session is not None
            if not self._is_part:
                await self._control.listen(self._session.header.id, self._writer.path.parent)
        if self._is_part and self._task is not None and not self._task.is_first_here:
            # The first part on this host samples it.
            self._sensors.close()
        elif self._workload.pid is not None:
            self._sensors.watch(self._workload.pid)
        self._serve()
        self._read_kernel_kills()
        ticking = asyncio.create_task(every_second(self._tick, self._notice))
        parts = None if self._parts is None else asyncio.create_task(self._parts.follow())
        if launch is not None:
            await self._workload.ended.wait()
            self._resume()
        else:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), self._job.for_s)
        now = self._ended_t = time.monotonic_ns()
        self._control.close()
        if self._stop_timer is not None:
            self._stop_timer.cancel()
        ticking.cancel()
        await self._workload.drain(now)
        await self._end_descendants()
        self._workload.tick(now, final=True)
        self._report_lost_lines()
        self._check_log()
        if self._parts is not None and parts is not None:
            parts.cancel()
            await self._end_parts(self._parts)
        if self._asking_slurm is not None:
            await self._asking_slurm
        ending = self._ending()
        nothing_trained = why_nothing_trained(ending)
        if nothing_trained is not None:
            self._notice(nothing_trained)
        result = self._result(ending, now)
        self.exit_code = _exit_code(ending, result)
        if self._alerts is not None:
            await self._alerts.end(result, now, self._stop_waiting)
        if self._tracker is not None:
            await self._tracker.finish(result, self._stop_waiting)
        self._write(result)
        await self._wait_for_disk()
        why = self._check_log()
        if why:
            # Send the rest to the viewer that started us, if it still runs, with the reason.
            unwritten = self._writer.unwritten()
            records = [r for r in unwritten if not isinstance(r, (Notice, Result))]
            for record in (Notice(now, why), *records, result):
                if not self._send(record):
                    break
        self._writer.close()
        if self._index is not None:
            self._index.save()

    @property
    def _is_part(self) -> bool:
        """True if the supervisor of part 0 copies our log into its session."""
        return self._task is not None and self._parts is None

    async def _end_parts(self, parts: Parts) -> None:
        """Take the remaining records of the other hosts."""
        if self._job.join is not None:
            # Who comes now begins another run.
            await asyncio.to_thread(leave, Path(self._job.log_dir), self._job.join)
        await parts.finish()
        parts.close()
        if self._part_copy is not None:
            self._part_copy.end()
        if self._announcement is not None:
            with contextlib.suppress(OSError):
                self._announcement.unlink()

    def _take_facts(self, facts: Facts | None) -> None:
        if facts is not None and self._writer is not None:
            if self._ended_t is None:
                self._write(facts)
        elif not self._facts.done():
            self._facts.set_result(facts)
        else:
            self._later_facts = facts

    def _take_sample(self, sample: Machine) -> None:
        if self._ended_t is not None and self._session is not None:
            # The energy of the last epoch needs a reading after the workload's end.
            self._session.machine.energy.add(sample)
            return
        sample, self._unwritten = merge(self._unwritten, sample), None
        if self._writer is None:
            self._unwritten = sample
        else:
            self._write(sample)

    def _notice(self, text: str, stops: bool | None = None) -> None:
        if self._writer is None:
            self._early_notices.append(text)
        else:
            t = time.monotonic_ns() if self._ended_t is None else self._ended_t
            self._write(Notice(t, text, stops))

    def _write(self, record: Record) -> None:
        writer = self._writer
        assert writer is not None
        assert self._session is not None
        if isinstance(record, Model) and (record.trainer or 0) < NUMBERS_PER_PART:
            # The supervisor of another host has added the peak of its own device.
            options = self._job.options
            some_cpus = bool(options.get("cpus") or options.get("threads"))
            record = with_peak(record, self._session.header.machine, some_cpus)
        writer.write(record)
        if isinstance(record, Output):
            self._last_output.append(record)
        if isinstance(record, Model):
            # The process may have changed its control group before it trained.
            self._read_kernel_kills()
        if isinstance(record, Stack):
            self._control.take(record)
        if isinstance(record, Epoch) and self._parts is not None and not record.trainer:
            self._parts.take_epoch(record)
        self._session.add(record)
        if self._index is not None:
            self._index.take(lambda: writer.position)
            self._index.save(INDEX_EVERY_BYTES)

    def _tick(self) -> None:
        """Write due output, count the kernel's kills, retry a full disk, and send alerts."""
        assert self._writer is not None
        self._workload.tick(time.monotonic_ns())
        self._read_kernel_kills()
        self._check_log()
        if self._session is not None:
            heard, steady = self._session.last_t, self._session.steady
            since = self._session.time_breakdown.overdue_since(heard, steady)
            if since is not None:
                suspended_ns = self._session.running_time.suspended_ns
                self._control.take_silence(since + suspended_ns, heard + suspended_ns)
        if self._task is not None and (self._writer.path.parent / STOP_NAME).exists():
            self._stop(StopCause.COMMAND, "the session was asked to stop")
        if self._writer.retry():
            self._report_lost_lines()
        if self._alerts is not None:
            self._alerts.update()

    def _read_kernel_kills(self) -> None:
        if self._workload.pid is not None:
            self._kernel_kills.read(self._workload.pid)

    def _check_log(self) -> str:
        """Tell the viewer that started us why the log can't be written, or that it can again.

        Return the reason; empty if there is none, or the log is complete under another name.
        """
        assert self._writer is not None
        why, damage = "", self._writer.find_damage()
        if damage is not None:
            why = f"the log {damage} by another program"
        elif self._writer.failing is not None:
            why = f"the log can't be written: {self._writer.failing}"
        sentence = f"{why}: make room" if why and self._writer.is_full else why
        if why and self._ended_t is None:
            goes_on = "no sample is kept" if self._job.is_machine_recording else "training goes on"
            sentence += f"; {goes_on}"
        elif why and damage is None:
            limit = "" if self._detached else f" for {FULL_DISK_S / 60:g} minutes at most"
            sentence += f"; the result waits for it{limit}"
        if sentence != self._reported_log_problem:
            self._reported_log_problem = sentence
            self._send(Notice(time.monotonic_ns(), sentence))
        return "" if damage == MOVED_AWAY else why

    def _report_lost_lines(self) -> None:
        assert self._writer is not None
        lost = self._writer.lost_lines - self._reported_lost_lines
        if lost:
            self._reported_lost_lines = self._writer.lost_lines
            lines = "lines of batches, samples or output are missing here; epochs are not"
            if self._job.is_machine_recording:
                lines = "samples are missing here"
            self._notice(f"the log could not be written for a while: {lost:,} {lines}")

    def _read_words(self) -> None:
        data = os.read(sys.stdin.fileno(), 4096)
        *words, self._unfinished_word = (self._unfinished_word + data).split(b"\n")
        for word in words:
            if word == SUSPEND.encode():
                self._suspend()
            elif word == RESUME.encode():
                self._resume()
            elif word == DETACH.encode():
                self._detached = True
                self._resume()
                if isinstance(self._workload, ScriptProcess):
                    self._workload.viewer_left()
            elif cause := CAUSE_BY_WORD.get(word.decode("utf-8", "replace")):
                self._stop(cause, CAUSE_TEXT[cause])
            elif isinstance(self._workload, ScriptProcess):
                self._pass_on(self._workload, word)
        if not data:
            asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
            self._resume()
            if not self._detached:
                self._stop_waiting.set()
                if self._slurm_job is not None:
                    # In a job that dlmon did not submit, Slurm may have ended the viewer.
                    self._begin_asking_slurm()
                self._stop(StopCause.VIEWER_GONE, CAUSE_TEXT[StopCause.VIEWER_GONE])

    def _suspend(self) -> None:
        """Suspend all processes of the run, until its viewer asks to resume it or is gone."""
        pid = self._workload.pid
        if pid is None or self._suspended_t is not None:
            return
        if self._ended_t is not None or self._stop_cause is not None:
            return
        if self._job.process is not None or self._task is not None:
            self._notice("only a run that dlmon started on one host can be suspended")
            return
        try:
            self._suspension = self._suspension or Suspension(pid)
        except OSError as error:
            self._notice(f"it can't be suspended: {error.strerror}")
            return
        self._suspended_t = self._suspension.suspend()
        self._write(Suspended(self._suspended_t))

    def _resume(self) -> None:
        """Continue the processes of a suspended run."""
        if self._suspension is None or self._suspended_t is None:
            return
        t, self._suspended_t = self._suspended_t, None
        until = time.monotonic_ns()
        self._suspension.resume()
        self._write(Suspended(t, until))

    def _stop(self, cause: StopCause, reason: str) -> None:
        """End the workload: after this batch, then by SIGTERM, then by SIGKILL.

        If it has ended already, stop waiting for room on a full disk.
        """
        if self._ended_t is not None:
            self._stop_waiting.set()
        elif self._stop_cause is None:
            self._stop_cause, self._why_stopped = cause, reason
            self._stopping.set()
            self._resume()
            # Slurm itself asks all tasks of its step.
            is_for_all = self._parts is not None or self._job.join is not None
            if is_for_all and self._task is not None and self._writer is not None:
                # The other parts stop when this file appears.
                with contextlib.suppress(OSError):
                    (self._writer.path.parent / STOP_NAME).touch()
            if self._workload.pid is not None:
                self._escalate_stop(self._workload.pid, reason)
            elif self._job.is_machine_recording:
                self._notice(f"stopping: {reason}")

    def _pass_on(self, script: ScriptProcess, word: bytes) -> None:
        """Send the script a signal that its viewer got; the script decides what to do."""
        kind, _, digits = word.partition(b" ")
        if kind != PASS_ON or not digits.isdigit() or int(digits) not in STOP_SIGNALS:
            return
        number = signal.Signals(int(digits))
        if self._ended_t is not None:
            self._stop_waiting.set()
            return
        if script.pid is None:
            self._stop_cause = StopCause.SIGNAL
            self._why_stopped = f"it got {signal_name(number)}"
        self._end_passed_on |= number in ASKS_TO_END
        self._resume()
        if number == signal.SIGTERM and self._slurm_job is not None:
            # In a job that dlmon did not submit, the viewer gets Slurm's signals.
            self._begin_asking_slurm()
        script.pass_on(number)

    def _escalate_stop(self, pid: int, reason: str) -> None:
        loop = asyncio.get_running_loop()
        terminate_s, kill_s = self._job.terminate_after_s, self._job.kill_after_s

        def terminate() -> None:
            how = f"ending it ({signal_name(harder)})"
            self._notice(f"the workload did not stop within {wait_s:g} s: {how}")
            end_process(pid, harder)
            self._stop_timer = loop.call_later(kill_s, kill)

        def kill() -> None:
            self._notice(f"nor did it end within {kill_s:g} s more: killing it (SIGKILL)")
            end_group(pid, signal.SIGKILL)

        self._notice(f"stopping: {reason}", stops=True)
        if self._asking_slurm is not None and isinstance(self._workload, ScriptProcess):
            # A script that saves its state on SIGTERM has time to do so, as without dlmon.
            self._workload.pass_on(signal.SIGTERM)
            self._kill_after(END_OF_JOB_S)
            return
        may_save = self._workload.ask_to_end()
        wait_s, harder = (SAVE_S, signal.SIGINT) if may_save else (terminate_s, signal.SIGTERM)
        self._stop_timer = loop.call_later(wait_s, terminate)

    def _kill_after(self, wait_s: float) -> None:
        """Kill the script unless it ends within `wait_s`, before Slurm kills us too."""
        if self._stop_timer is not None:
            self._stop_timer.cancel()
        pid = self._workload.pid
        if pid is None or self._ended_t is not None:
            return

        def kill() -> None:
            self._notice(f"the script did not end in {wait_s:g} s: killing it (SIGKILL)")
            end_group(pid, signal.SIGKILL)

        self._stop_timer = asyncio.get_running_loop().call_later(wait_s, kill)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            exit_code = os.waitstatus_to_exitcode(status)
            if pid == self._workload.pid:
                self._memory_ran_out = self._kernel_kills.has_just_killed()
                self._workload.reaped(exit_code)
            else:
                self._sensors.reaped(pid, exit_code)
                for process in self._noticing:
                    process.reaped(pid, exit_code)

    def _serve(self) -> None:
        """Serve metrics of the running sessions from a process that outlives this one."""
        if self._job.serve is None or self._is_part:
            return
        try:
            exporter = serve_sessions(self._job.serve, Path(self._job.log_dir))
        except (ServeError, OSError) as error:
            self._notice(str(error))
        else:
            self._exporter_pids = set() if exporter is None else {exporter.pid}

    @property
    def _noticing(self) -> list[NoticingProcess]:
        return [p for p in (self._tracker, self._part_copy) if p is not None]

    async def _end_descendants(self) -> None:
        """Kill the workload's remaining processes: its group, and the orphans that we adopted.

        An orphan's own children become ours when it ends, so repeat until there are none.
        """
        if self._workload.pid is None:
            return
        if self._job.script and (self._stop_cause is None or self._job.process is not None):
            # Processes that a script leaves running go on, as without dlmon.
            return
        end_group(self._workload.pid, signal.SIGKILL)
        deadline = time.monotonic() + END_S
        ours = self._sensors.pids | self._exporter_pids
        ours |= {pid for process in self._noticing for pid in process.pids}
        while (orphans := _children() - ours) and time.monotonic() < deadline:
            for pid in orphans:
                end_process(pid, signal.SIGKILL)
            await asyncio.sleep(0.01)

    async def _wait_for_disk(self) -> None:
        """Wait for room on a full disk, as long as a person may still make some."""
        assert self._writer is not None
        until = time.monotonic() + FULL_DISK_S
        while not self._writer.retry(at_once=True) and self._writer.is_full:
            self._check_log()
            is_too_late = not self._detached and time.monotonic() >= until
            if self._stop_waiting.is_set() or is_too_late:
                return
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._stop_waiting.wait(), 1.0)

    def _ending(self) -> Ending:
        return Ending(
            exit_code=self._workload.exit_code,
            stopped_by=self._stop_cause or (StopCause.SIGNAL if self._end_passed_on else None),
            failure=self._workload.failure,
            out_of_memory=self._memory_ran_out,
            last_output=tuple(self._last_output),
            is_script=self._job.script,
            why_nothing_trained=self._workload.why_nothing_trained,
            was_not_ours=self._job.process is not None,
        )

    def _result(self, ending: Ending, now: int) -> Result:
        assert self._session is not None
        assert self._writer is not None
        log = str(self._writer.path)
        if self._job.is_machine_recording:
            return make_machine_result(
                self._session.header,
                log,
                self._session.machine.use(),
                stopped_by=self._stop_cause,
                now_ns=now,
                wall=time.time(),
            )
        snapshot = self._session.snapshot(self._session.running_time.at(now), is_over=True)
        energy = self._session.machine.energy
        nodes = {host: node.history.energy for host, node in self._session.nodes.items()}
        return make_result(self._job, log, snapshot, energy, ending, now, time.time(), nodes)


def _standard_input(job: Job) -> StandardInput | None:
    """Return the kind of a script's standard input; None for any other process."""
    if not job.script or job.process is not None:
        return None
    if job.stdin_fd is None:
        return StandardInput.NONE
    return StandardInput.TERMINAL if os.isatty(job.stdin_fd) else StandardInput.OTHER


def _exit_code(ending: Ending, result: Result) -> int:
    """Return the exit code of the supervisor."""
    if ending.is_script:
        return code_of_script(ending.exit_code)
    return DONE if result.status == Status.COMPLETED else FAILED


def _children() -> set[int]:
    try:
        pids = Path(f"/proc/self/task/{os.getpid()}/children").read_text()
    except OSError:
        return set()
    return {int(pid) for pid in pids.split()}
