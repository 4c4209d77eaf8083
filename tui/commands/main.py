"""The command line of dlmon.

Whatever a user can do wrong ends in one sentence on stderr and an exit code:
1 the workload failed, 2 the arguments are wrong, 130 interrupted by the user.
"""

from __future__ import annotations

import errno
import io
import json
import os
import re
import signal
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer

from dlmon import __version__
from dlmon.launch.job import Refused, Started
from dlmon.launch.lifeline import Launch, launch
from dlmon.log.directory import (
    RUNNING,
    NoSuchSession,
    find_session,
    list_sessions,
    read_entry,
    stop_session,
)
from dlmon.log.folder import LogError
from dlmon.records.sanitize import SHOWN_LENGTH, clean
from tui.commands.shared import (
    DONE,
    FAILED,
    INTERRUPTED_BY_USER,
    READER_LEFT,
    WRONG_ARGUMENTS,
    Ascii,
    Json,
    LogDir,
    Pcie,
    Plain,
    UserError,
    chosen_log_directory,
    drawn_as_asked,
    in_terminal,
)
from tui.commands.sweep import HELP as HELP_OF_SWEEP
from tui.commands.sweep import with_options_of
from tui.options.jobs import make_job
from tui.options.read import UnreadableOption, read_arguments, read_interval
from tui.options.run import CHOICES, LEAST_TIME_IN_SWEEP_S, interval_complaint
from tui.options.settings import Settings, SettingsError, read_settings
from workloads.catalog import WORKLOADS, UnknownWorkload, Workload, find

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Train a neural network and watch its speed and the hardware on one time axis.",
)

# What the parser says, and what helps more.
_MISSING = {
    "Missing argument 'WORKLOAD'.": "say which workload; dlmon list shows them",
    "Missing argument 'SESSION'.": "say which session: last, or one that dlmon sessions lists",
}
_UNKNOWN_COMMAND = re.compile(r"No such command '.*'\.")

# Why stdout may take nothing; logs and other files of ours tell such a thing themselves.
_NOT_WRITTEN = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)

# Typer keeps click's exceptions to itself; all that complain of arguments share this base.
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]


SessionName = Annotated[
    str,
    typer.Argument(metavar="SESSION", help="An id, a unique prefix of one, a path, or last."),
]


def _one_of(option: str) -> str:
    return "|".join(CHOICES[option])


def _print_version(asked: bool) -> None:
    if asked:
        print(f"dlmon {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def home(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print it.")
    ] = False,
    ascii: Ascii = None,
) -> None:
    """Open the terminal UI: pick a workload, watch the machine."""
    if context.invoked_subcommand is not None:
        if ascii is not None:
            raise UserError(
                f"say --ascii after the command: dlmon {context.invoked_subcommand} … --ascii"
            )
        return
    if not in_terminal():
        raise UserError(
            "the terminal UI needs a terminal; use dlmon run WORKLOAD --plain, or dlmon --help"
        )
    from tui.app import DlmonApp

    settings = _settings(ascii)
    directory = _log_directory(None, settings)
    raise typer.Exit(DlmonApp(directory, settings=settings).run_to_exit_code())


@app.command()
def run(
    workload: Annotated[str, typer.Argument(metavar="WORKLOAD", help="See dlmon list.")],
    device: Annotated[
        str | None, typer.Option(help="auto, cpu, gpu or gpu:N (NVML's number).")
    ] = None,
    batch_size: Annotated[str | None, typer.Option(metavar="N", help="Samples in a batch.")] = None,
    epochs: Annotated[
        str | None, typer.Option(metavar="N", help="Epochs to train; in other modes, passes.")
    ] = None,
    steps: Annotated[
        str | None,
        typer.Option(
            metavar="N",
            help="At most so many batches an epoch; seconds per epoch is then projected.",
        ),
    ] = None,
    seconds: Annotated[
        str | None,
        typer.Option(
            metavar="SECONDS",
            help="Train at least so long once it is steady: more epochs follow while it was less "
            f"(0; in a sweep {LEAST_TIME_IN_SWEEP_S:g}).",
        ),
    ] = None,
    threads: Annotated[
        str | None, typer.Option(metavar="N", help="Threads of the backend.")
    ] = None,
    cpus: Annotated[
        str | None, typer.Option(metavar="N", help="CPUs that it may run on (all).")
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(
            metavar=_one_of("data"), help="auto: real data where it is cached, else synthetic."
        ),
    ] = None,
    mode: Annotated[
        str | None,
        typer.Option(
            metavar=_one_of("mode"),
            help="gradients: forward and backward without the weight update; inference: forward "
            "only.",
        ),
    ] = None,
    precision: Annotated[
        str | None,
        typer.Option(metavar=_one_of("precision"), help="What the network computes in."),
    ] = None,
    jit: Annotated[
        str | None,
        typer.Option(metavar=_one_of("jit"), help="Compile steps as a whole; auto: as Keras does."),
    ] = None,
    backend: Annotated[
        str | None, typer.Option(metavar=_one_of("backend"), help="What Keras runs on.")
    ] = None,
    python: Annotated[
        str | None,
        typer.Option(
            metavar="PATH",
            help="Another interpreter, such as one with a TensorFlow compiled for this CPU.",
        ),
    ] = None,
    interval: Annotated[
        str | None, typer.Option(metavar="SECONDS", help="Between hardware samples (1).")
    ] = None,
    pcie: Pcie = None,
    price: Annotated[
        str | None,
        typer.Option(metavar="USD", help="Per hour of this machine; 0.00795/cpu: of each CPU."),
    ] = None,
    detach: Annotated[
        bool, typer.Option("--detach", help="Start it and leave it running.")
    ] = False,
    plain: Plain = False,
    as_json: Json = False,
    ascii: Ascii = None,
    log_dir: LogDir = None,
) -> None:
    """Train a workload and watch it; the live screen in a terminal, plain lines in a pipe."""
    settings = _settings(ascii)
    chosen = _find_workload(workload)
    told = {
        "device": device,
        "batch_size": batch_size,
        "epochs": epochs,
        "steps": steps,
        "seconds": seconds,
        "threads": threads,
        "cpus": cpus,
        "data": data,
        "mode": mode,
        "precision": precision,
        "jit": jit,
        "backend": backend,
        "python": python,
        "interval": interval,
        "pcie": {None: None, True: "yes", False: "no"}[pcie],
        "price": price,
    }
    try:
        options = replace(read_arguments(told, settings.run), detach=detach)
    except UnreadableOption as error:
        raise UserError(str(error)) from None
    complaint = options.complaint(chosen)
    if complaint:
        raise UserError(complaint)
    directory = _log_directory(log_dir, settings)
    started = launch(make_job(chosen, directory, options))
    if detach:
        answer = _started(started)
        started.say("detach")
        started.release()
        if as_json:
            print(json.dumps(asdict(answer)))
        else:
            print(f"{answer.session} is running; dlmon attach {answer.session} shows it")
        return
    if plain or as_json or not in_terminal():
        from tui.plain.follow import follow

        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, _end_before_start)
        answer = _started(started)
        raise typer.Exit(follow(Path(answer.log), started, as_json=as_json))
    from tui.app import DlmonApp

    raise typer.Exit(DlmonApp(directory, started=started, settings=settings).run_to_exit_code())


app.command("sweep", help=HELP_OF_SWEEP)(with_options_of(run))


@app.command()
def attach(
    session: SessionName, plain: Plain = False, ascii: Ascii = None, log_dir: LogDir = None
) -> None:
    """Show a session that runs, or a finished one as it ended."""
    settings = _settings(ascii)
    path = _find(session, log_dir)
    if plain or not in_terminal():
        from tui.plain.follow import follow

        raise typer.Exit(follow(path, None))
    from tui.app import DlmonApp

    raise typer.Exit(DlmonApp(path.parent.parent, path, settings=settings).run_to_exit_code())


@app.command()
def stop(session: SessionName, log_dir: LogDir = None) -> None:
    """Stop a session that runs on this machine."""
    entry = read_entry(_find(session, log_dir))
    if entry.status != RUNNING:
        raise UserError(f"{entry.header.id} is not running: it is {entry.status}")
    try:
        stopping = stop_session(entry)
    except PermissionError:
        raise UserError(f"{entry.header.id} belongs to another user") from None
    if not stopping:
        raise UserError(f"{entry.header.id} runs on {entry.header.host}: stop it there")
    print(f"{entry.header.id} is stopping after the current batch")


@app.command("list")
def list_workloads(as_json: Json = False) -> None:
    """List the workloads."""
    if as_json:
        print(json.dumps([_workload_json(w) for w in WORKLOADS.values()], indent=2))
        return
    from tui.plain.tables import print_workloads

    print_workloads(tuple(WORKLOADS.values()))


@app.command()
def sessions(as_json: Json = False, log_dir: LogDir = None) -> None:
    """List what was recorded, and what is running: sessions, and sweeps below them."""
    from dlmon.sweep.log import list_sweeps
    from tui.formatting.sessions import runs_of_sweeps
    from tui.plain.tables import print_sessions, session_json

    directory = _log_directory(log_dir)
    if os.path.lexists(directory) and not directory.is_dir():
        raise UserError(f"{directory} is not a directory")
    entries, sweeps = list_sessions(directory), list_sweeps(directory)
    if as_json:
        runs = runs_of_sweeps(sweeps)
        told = [session_json(entry, runs.get(entry.header.id)) for entry in entries]
        print(json.dumps(told, indent=2))
        return
    print_sessions(entries, directory, sweeps, by_path=log_dir is not None)


@app.command()
def watch(
    interval: Annotated[
        str | None, typer.Option(metavar="SECONDS", help="Between samples (1).")
    ] = None,
    pcie: Pcie = None,
    ascii: Ascii = None,
) -> None:
    """Watch this machine, without a session."""
    settings = _settings(ascii)
    try:
        interval_s = settings.run.interval if interval is None else read_interval(interval)
    except UnreadableOption as error:
        raise UserError(str(error)) from None
    pcie = settings.run.pcie if pcie is None else pcie
    complaint = interval_complaint(interval_s)
    if complaint:
        raise UserError(complaint)
    if not in_terminal():
        from tui.plain.watch import watch_machine

        raise typer.Exit(watch_machine(interval_s, pcie))
    from tui.app import DlmonApp

    settings = replace(settings, run=replace(settings.run, pcie=pcie))
    shown = DlmonApp(_log_directory(None, settings), watch_interval_s=interval_s, settings=settings)
    raise typer.Exit(shown.run_to_exit_code())


@app.command()
def doctor(
    calibrate: Annotated[
        bool,
        typer.Option(
            "--calibrate", help="First measure how fast this machine multiplies matrices."
        ),
    ] = False,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="Don't ask TensorFlow, JAX and PyTorch which GPUs they see."),
    ] = False,
    as_json: Json = False,
    log_dir: LogDir = None,
) -> None:
    """Say what this machine offers and what is missing."""
    from dlmon.comparison.peaks import CalibrationError
    from dlmon.doctor.run import run_doctor
    from tui.plain.tables import print_findings

    try:
        findings = run_doctor(
            _log_directory(log_dir),
            _tell if calibrate else None,
            quick=quick,
            asking=_tell if sys.stderr.isatty() else lambda text: None,
        )
    except CalibrationError as error:
        raise UserError(str(error), FAILED) from None
    if as_json:
        print(json.dumps([asdict(finding) for finding in findings], indent=2))
    else:
        print_findings(findings)


def _tell(text: str) -> None:
    print(clean(text), file=sys.stderr, flush=True)


def _settings(ascii: bool | None = None) -> Settings:
    """Return the user's settings, and what the command line says instead of them."""
    return drawn_as_asked(read_settings(), ascii)


def _log_directory(chosen: Path | None, settings: Settings | None = None) -> Path:
    return chosen_log_directory(chosen, settings or read_settings())


def _workload_json(workload: Workload) -> dict[str, Any]:
    return {
        "name": workload.name,
        "family": workload.family,
        "title": workload.title,
        "parameters": workload.parameters,
        "flops_per_sample": workload.train_flops,
        "forward_flops_per_sample": workload.forward_flops,
        "batch_size": workload.batch_size,
        "epochs": workload.epochs,
        "steps": workload.steps,
        "samples": workload.samples,
        "validation_samples": workload.validation_samples,
        "metric": workload.metric,
        "source": workload.source,
    }


def _find_workload(name: str) -> Workload:
    try:
        return find(name)
    except UnknownWorkload as error:
        raise UserError(str(error)) from None


def _find(session: str, log_dir: Path | None) -> Path:
    try:
        return find_session(session, _log_directory(log_dir))
    except NoSuchSession as error:
        raise UserError(str(error)) from None


def _end_before_start(number: int, frame: object) -> None:
    # Without its lifeline the supervisor starts nothing.
    raise UserError("the run was ended by a signal before it started", FAILED)


def _started(started: Launch) -> Started:
    answer = started.answer()
    if isinstance(answer, Refused):
        raise UserError(answer.reason, answer.exit_code)
    return answer


def _sentence(error: Exception) -> str:
    """Return what was wrong with the arguments, as one line."""
    message = error.format_message() if hasattr(error, "format_message") else str(error)
    sentence = " ".join(clean(word, SHOWN_LENGTH) for word in str(message).split())
    if _UNKNOWN_COMMAND.fullmatch(sentence):
        return f"{sentence} dlmon --help lists them"
    return _MISSING.get(sentence, sentence)


def main() -> None:
    """Run the command line and leave with its exit code."""
    _open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal that can't show a character shows another; that is no error.
            stream.reconfigure(errors="replace")
    sys.exit(_written_out(_run(sys.argv[1:])))


def _open_closed_streams() -> None:
    """Stand in for standard streams that are closed, so that no file of ours takes their place.

    What is written to stdout fails, as it does in other programs; where stderr is closed,
    nobody wants to know.
    """
    if sys.stdin is None:
        sys.stdin = open(os.devnull)  # noqa: SIM115, PTH123 - for as long as we run
    if sys.stdout is None:
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_RDONLY), "w")
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115, PTH123


def _run(arguments: list[str]) -> int:
    """Run one command and return its exit code; what went wrong is one sentence on stderr."""
    at_start = signal.getsignal(signal.SIGINT)
    try:
        if at_start is not signal.SIG_IGN:
            # Until now it left at once; a command may have something to clean up.
            signal.signal(signal.SIGINT, signal.default_int_handler)
        command = typer.main.get_command(app)
        # Not `command.main`: it would take a reader that leaves for a failure.
        with command.make_context("dlmon", arguments) as context:
            command.invoke(context)
    except typer.Exit as leaving:
        return leaving.exit_code
    except UserError as error:
        return _complain(str(error), error.exit_code)
    except (LogError, NoSuchSession, SettingsError) as error:
        return _complain(str(error), WRONG_ARGUMENTS)
    except _UsageError as error:
        return _complain(_sentence(error), WRONG_ARGUMENTS)
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED_BY_USER
    except BrokenPipeError:
        _silence(sys.stdout)
        return READER_LEFT
    except OSError as error:
        if error.filename is None and error.errno in _NOT_WRITTEN:
            _silence(sys.stdout)
            return _complain(f"standard output can't be written: {_reason(error)}", FAILED)
        return _complain(str(error), FAILED)
    finally:
        signal.signal(signal.SIGINT, at_start)
    return DONE


def _written_out(exit_code: int) -> int:
    """Write out what stdout still holds; return an exit code, another one where that fails."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _silence(sys.stdout)
        return READER_LEFT
    except OSError as error:
        _silence(sys.stdout)
        return _complain(f"standard output can't be written: {_reason(error)}", FAILED)
    return exit_code


def _complain(sentence: str, exit_code: int) -> int:
    try:
        print(f"dlmon: {clean(sentence)}", file=sys.stderr, flush=True)
    except OSError:
        _silence(sys.stderr)
    return exit_code


def _silence(stream: TextIO) -> None:
    from tui.plain.console import silence

    silence(stream)


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
