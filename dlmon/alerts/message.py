"""What is sent of an alert: its fields, its words, and the body that each service wants. Pure."""

from __future__ import annotations

import base64
import contextlib
import json
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit, urlunsplit

from dlmon.alerts.alert_settings import Address, Service
from dlmon.log.folder import LogError, location_options, log_directory, log_directory_of
from dlmon.records import Alert, AlertEvent, SessionHeader
from dlmon.records.record import record
from dlmon.records.sanitize import clean

Message = dict[str, Any]
MOST_LINES = 10
"""A message that sums up several events names at most this many."""
LONGEST_TEXT = 300
LONGEST_BODY = 1900
"""Discord takes 2,000 characters, the others more."""
_PATH = re.compile(r"(?<![\w/:])(?:~|\.{1,2})?/(?:[^\s/'\"()<>,;]+/)+([^\s/'\"()<>,;]*)")
_TAGS = {AlertEvent.FINISHED: "white_check_mark", AlertEvent.FAILED: "x"}
_HIGH = (
    *(AlertEvent.FAILED, AlertEvent.NAN, AlertEvent.GPU_LOST, AlertEvent.GPU_ERROR),
    AlertEvent.HOST_LOST,
)


def without_paths(text: str) -> str:
    """Return a text with the last name alone of each path in it."""
    return _PATH.sub(lambda path: path[1] or "…", text)


@record(frozen=True)
class About:
    """What a message is about.

    Attributes:
        host: the machine.
        begin_wall: when the clock of its alerts was 0, in Unix seconds.
        session: the session's id; None for a host.
        workload: what it trains.
        name: what a person calls it.
        attach: the command that shows it.
    """

    host: str
    begin_wall: float
    session: str | None = None
    workload: str | None = None
    name: str | None = None
    attach: str | None = None

    @classmethod
    def of(cls, header: SessionHeader, log: Path, name: str | None, host: str | None) -> About:
        """Return what is said of a session on a host, as ssh knows that; None for this one."""
        attach = f"dlmon attach{location_options(_unusual_folder(log), host)} {header.id}"
        begin_wall = header.wall - header.t / 1e9
        workload = header.workload or None
        return cls(header.host, begin_wall, header.id, workload, name, attach)


def _unusual_folder(log: Path) -> str | None:
    """Return the log directory that a log is in, unless that is the usual one."""
    folder = log_directory_of(log)
    with contextlib.suppress(LogError):  # there is no usual one
        if folder == log_directory():
            return None
    with contextlib.suppress(RuntimeError, ValueError):  # no home, or not in it
        return f"~/{folder.relative_to(Path.home())}"
    return str(folder)


def message_of(
    alert: Alert, about: About, detail: str = "brief", details: dict[str, Any] | None = None
) -> Message:
    """Return what is sent of an alert: the `details` only where `detail` is full.

    They may hold more than should be known.
    """
    is_full = detail == "full"
    since_wall = about.begin_wall + alert.since / 1e9
    message: Message = {
        "event": alert.event.value,
        "over": alert.over,
        "session": about.session,
        "name": about.name,
        "workload": about.workload,
        "host": about.host,
        "text": clean(alert.text if is_full else without_paths(alert.text), LONGEST_TEXT),
        "since": time.strftime("%Y-%m-%dT%H:%M:%S%z", time.localtime(since_wall)),
        "figures": list(alert.figures),
        "gpu": alert.gpu,
        "attach": about.attach,
    }
    return {**message, "details": details} if is_full and details else message


def payload_of(messages: Sequence[Message], left_out: int = 0) -> Message:
    """Return one message that stands for several, of which some may have been left out."""
    if len(messages) == 1 and not left_out:
        return messages[0]
    count = len(messages) + left_out
    return {
        **messages[-1],
        "event": "several",
        "count": count,
        "text": f"{count:,} events",
        "figures": [],
        "events": list(messages),
    }


def title_of(payload: Message) -> str:
    """Return what it is about: which run, and where."""
    what = payload["name"] or payload["workload"]
    return f"{what} on {payload['host']}" if what else str(payload["host"])


def text_of(payload: Message) -> str:
    """Return it in words, a line an event, and how to attach."""
    events: Sequence[Message] = payload.get("events") or [payload]
    lines = [_line(event) for event in events[-MOST_LINES:]]
    more = payload.get("count", 1) - len(lines)
    if more > 0:
        lines.insert(0, f"({more:,} more before these)")
    return "\n".join([*lines, payload["attach"]] if payload["attach"] else lines)


def _line(message: Message) -> str:
    figures = "; ".join(message["figures"])
    since = message["since"][11:19]
    is_at_once = message["event"] in (AlertEvent.FINISHED, AlertEvent.FAILED)
    began = "" if is_at_once else f" (since {since})"
    return f"{message['text']}{began}{f': {figures}' if figures else ''}"


Request = tuple[str, bytes, dict[str, str]]
"""An address that is asked, the body that it gets, and headers."""


def request_of(address: Address, payload: Message) -> Request:
    """Return what a service wants, at its address."""
    parts = urlsplit(address.text)
    headers = {"Content-Type": "application/json; charset=utf-8"}
    if parts.username is not None:
        word = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        headers["Authorization"] = f"Basic {base64.b64encode(word.encode()).decode()}"
    parts = parts._replace(netloc=parts.netloc.rpartition("@")[2], fragment="")
    title, text = title_of(payload), text_of(payload)
    short = clean_lines(f"{title}\n{text}")
    body: Message = payload
    if address.service is Service.NTFY:
        topic = parts.path.strip("/").rpartition("/")
        parts = parts._replace(path=f"/{topic[0]}")
        body = {"topic": unquote(topic[2]), "title": title, "message": clean_lines(text)}
        event = payload["event"]
        body["tags"] = [_TAGS.get(event, "warning" if not payload["over"] else "ok")]
        body["priority"] = 4 if event in _HIGH and not payload["over"] else 3
    elif address.service is Service.SLACK:
        escaped = short.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        body = {"text": escaped}
    elif address.service is Service.DISCORD:
        body = {"content": short, "allowed_mentions": {"parse": []}}
    elif address.service is Service.TELEGRAM:
        body = {"chat_id": parse_qs(parts.query)["chat_id"][0], "text": short}
        parts = parts._replace(query="")
    return urlunsplit(parts), json.dumps(body).encode(), headers


def clean_lines(text: str) -> str:
    """Return a text that no service takes for too long."""
    return text if len(text) <= LONGEST_BODY else f"{text[: LONGEST_BODY - 1]}…"
