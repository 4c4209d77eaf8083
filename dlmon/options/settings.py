"""The user's settings: `config.toml`, checked key by key, and choices kept for the next start."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

import platformdirs

from dlmon.alerts.alert_settings import AddressError, AlertSettings, check_settings
from dlmon.log.folder import LogError, log_directory
from dlmon.options.checks import NO_DIRECTORY
from dlmon.options.run_options import SETTINGS, RunOptions
from dlmon.records.record import record
from dlmon.records.sanitize import SHOWN_LENGTH, SHOWN_PATH_LENGTH, clean, quoted
from dlmon.system.files import MIB, read_regular
from dlmon.system.private_files import write_private

if TYPE_CHECKING:
    from dlmon.protocol.job import Job


class SettingsError(ValueError):
    """`config.toml` is wrong; the message is a sentence that says what to fix."""


@record(frozen=True)
class Settings:
    """The contents of `config.toml`.

    Attributes:
        theme: the theme; None for the one chosen last.
        ascii: draw with ASCII characters.
        bell: ring the terminal's bell when a run ends.
        notification: send a desktop notification (OSC 9) when a run ends.
        end_with_terminal: stop a run when its terminal is closed.
        log_dir: the log directory; None for the platform's state directory.
        serve: the address at which metrics of sessions are served; None to serve none.
        slurm: options of sbatch, placed before those of `--slurm`.
        hosts: groups of hosts for ssh, by name.
        alerts: the alerts to send, and their addresses.
        run: defaults for the options of `run`.
    """

    theme: str | None = None
    ascii: bool = False
    bell: bool = False
    notification: bool = False
    end_with_terminal: bool = False
    log_dir: str | None = None
    serve: str | None = None
    slurm: str = ""
    hosts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    alerts: AlertSettings = field(default_factory=AlertSettings)
    run: RunOptions = field(default_factory=RunOptions)

    @property
    def usual_directory(self) -> Path | None:
        """The default log directory; None if there is none."""
        try:
            return log_directory(None if self.log_dir is None else Path(self.log_dir))
        except LogError:
            return None

    def applied_to(self, job: Job) -> Job:
        """Return the job of a session of this machine with the settings for such."""
        return replace(job, ends_with_terminal=self.end_with_terminal, serve=self.serve)


_LARGEST_FILE = MIB
_LONGEST_TEXT = 1 << 16
_TABLES = ("alerts", "hosts", "metrics", "run")
_LISTS = ("url", "command", "events")
_GROUP = "[A-Za-z0-9_-]+"
_WORDS = {str: "text in quotes", bool: "true or false", int: "a whole number", float: "a number"}


def settings_path() -> Path:
    """Return the path of `config.toml`: DLMON_CONFIG, else in the platform's directory."""
    path = os.environ.get("DLMON_CONFIG")
    if path:
        return Path(path)
    return Path(platformdirs.user_config_path("dlmon", appauthor=False)) / "config.toml"


def read_settings(path: Path | None = None) -> Settings:
    """Read the user's settings; without a file, return the defaults.

    Raises:
        SettingsError: the file can't be read, is not TOML, or has a wrong key or value.
    """
    try:
        path = path or settings_path()
    except RuntimeError:  # without a home directory there is no file
        return Settings()
    name = clean(str(path), SHOWN_PATH_LENGTH)
    try:
        text = read_regular(path, _LARGEST_FILE).decode("utf-8-sig")
    except FileNotFoundError:
        if os.environ.get("DLMON_CONFIG"):
            raise SettingsError(f"DLMON_CONFIG names {name}, which does not exist") from None
        return Settings()
    except OSError as error:
        raise SettingsError(f"{name} can't be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise SettingsError(f"{name} can't be read: {error}") from None
    try:
        return _settings(_parsed(text))
    except SettingsError as error:
        raise SettingsError(f"{path}: {error}") from None


def _parsed(text: str) -> dict[str, Any]:
    # Imported late, as most users have no file.
    import tomllib

    try:
        return tomllib.loads(text)
    except ValueError as error:  # a number of thousands of digits is no TOMLDecodeError
        raise SettingsError(f"not valid TOML: {error}") from None


def _settings(table: Mapping[str, Any]) -> Settings:
    from workloads.catalog import WORKLOADS

    run = table.get("run", {})
    if not isinstance(run, dict):
        raise SettingsError("run must be a table: write [run], and its keys below it")
    names = [spec.name for spec in fields(Settings) if spec.name != "serve"]
    values = _checked(
        Settings, names, {key: value for key, value in table.items() if key not in _TABLES}
    )
    options = RunOptions(**_checked(RunOptions, SETTINGS, run, "run."))
    # No workload can run a value that the largest one refuses. What only this host lacks is
    # reported at a launch: hosts may share the file, and most commands run nothing.
    largest = max(WORKLOADS.values(), key=lambda workload: workload.samples)
    problem = options.problem(largest, here=False)
    if problem:
        raise SettingsError(f"in [run], {problem}")
    log_dir = values.get("log_dir")
    if log_dir is not None and not log_dir.strip():
        raise SettingsError(f"log_dir: {NO_DIRECTORY}")
    hosts, alerts = _groups(table.get("hosts", {})), _alerts(table.get("alerts", {}))
    serve = _serve(table.get("metrics", {}))
    return Settings(**values, hosts=hosts, alerts=alerts, serve=serve, run=options)


def _serve(table: object) -> str | None:
    if not isinstance(table, dict):
        raise SettingsError("metrics must be a table: write [metrics], and serve below it")
    serve: str | None = _checked(Settings, ["serve"], table, "metrics.").get("serve")
    if serve is not None:
        from dlmon.launch.exporter_process import ServeError, address_of

        try:
            address_of(serve)
        except ServeError as error:
            raise SettingsError(f"metrics.serve: {error}") from None
    return serve


def _alerts(table: object) -> AlertSettings:
    if not isinstance(table, dict):
        raise SettingsError("alerts must be a table: write [alerts], and its keys below it")
    lists: dict[str, Any] = {name: _texts(name, table[name]) for name in _LISTS if name in table}
    names = [spec.name for spec in fields(AlertSettings) if spec.name != "host"]
    scalars = {key: value for key, value in table.items() if key not in lists}
    alerts = AlertSettings(**lists, **_checked(AlertSettings, names, scalars, "alerts."))
    try:
        # What only this host lacks is reported at a launch.
        check_settings(alerts, here=False)
    except AddressError as error:
        raise SettingsError(f"in [alerts], {error}") from None
    return alerts


def _texts(name: str, value: object) -> tuple[str, ...]:
    """Return a text or a list of texts; errors don't repeat it, as it may be a secret."""
    texts = [value] if isinstance(value, str) and name == "url" else value
    if not isinstance(texts, list) or not all(isinstance(text, str) and text for text in texts):
        raise SettingsError(f"alerts.{name} must be a list of texts in quotes")
    return tuple(texts)


def _groups(table: object) -> dict[str, tuple[str, ...]]:
    if not isinstance(table, dict):
        raise SettingsError("hosts must be a table: write [hosts], and a group a line below it")
    return {name: _group(name, hosts) for name, hosts in table.items()}


def _group(name: str, hosts: object) -> tuple[str, ...]:
    from dlmon.remote.host_names import GROUP_MARK, HostError, hosts_from

    if not re.fullmatch(_GROUP, name):
        raise SettingsError(
            f"hosts can't be grouped as {quoted(name)}: name a group with letters, digits, - and _"
        )
    if not isinstance(hosts, list) or not all(isinstance(host, str) for host in hosts):
        value = clean(repr(hosts), SHOWN_LENGTH)
        raise SettingsError(f"hosts.{name} must be a list of hosts in quotes, not {value}")
    if not hosts:  # refused only if it is used
        return ()
    try:
        return tuple(hosts_from([f"{GROUP_MARK}{name}"], {name: hosts}))
    except HostError as error:
        raise SettingsError(f"hosts.{name}: {error}") from None


def _checked(
    kind: type[Any], names: Sequence[str], table: Mapping[str, Any], prefix: str = ""
) -> dict[str, Any]:
    """Return the values of a table after a check of its keys and types against fields of `kind`."""
    types = get_type_hints(kind)
    values = {}
    for key, value in table.items():
        if key not in names:
            raise SettingsError(_unknown_key(key, names, prefix))
        wanted = next(t for t in _WORDS if t in (types[key], *get_args(types[key])))
        accepted = (int, float) if wanted is float else (wanted,)
        if type(value) not in accepted:
            text = clean(repr(value), SHOWN_LENGTH)
            raise SettingsError(f"{prefix}{key} must be {_WORDS[wanted]}, not {text}")
        values[key] = wanted(value)
    return values


def _unknown_key(key: str, names: Sequence[str], prefix: str) -> str:
    nearest = difflib.get_close_matches(key, names, n=1)
    hint = f"did you mean {prefix}{nearest[0]}?" if nearest else f"known are {', '.join(names)}"
    return f"there is no key {prefix}{clean(key, SHOWN_LENGTH)}; {hint}"


def check_theme(name: str, themes: Sequence[str]) -> None:
    """Check that the theme of `config.toml` is one of these.

    Raises:
        SettingsError: it is not.
    """
    if name not in themes:
        nearest = difflib.get_close_matches(name, themes, n=1)
        suggestion = f"did you mean {nearest[0]}?" if nearest else "t in dlmon lists the themes"
        raise SettingsError(f"{settings_path()}: there is no theme {quoted(name)}; {suggestion}")


def remembered(name: str) -> str:
    """Return a text that was kept, such as the theme; empty if there is none."""
    try:
        return read_regular(_memory(name), _LONGEST_TEXT).decode("utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def remember(name: str, text: str) -> None:
    """Keep a text for the next start.

    Raises:
        OSError: the file can't be written.
    """
    write_private(_memory(name), f"{text}\n".encode())


def _memory(name: str) -> Path:
    try:
        return Path(platformdirs.user_state_path("dlmon", appauthor=False)) / name
    except RuntimeError:
        raise OSError("there is no home directory: set HOME or XDG_STATE_HOME") from None
