"""The messages of alerts: their fields, their text, and the request for each service. Pure."""

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
from dlmon.log.folder import location_options, unusual_directory_of
from dlmon.records import Alert, AlertEvent, SessionHeader
from dlmon.records.record import record
from dlmon.records.sanitize import clean

Message = dict[str, Any]
MOST_LINES = 10
"""A message about several events lists at most this many."""
LONGEST_TEXT = 300
LONGEST_BODY = 1900
"""In characters: Discord takes 2,000, the others more."""
_PATH = re.compile(r"(?<![\w/:])(?:~|\.{1,2})?/(?:[^\s/'\"()<>,;]+/)+([^\s/'\"()<>,;]*)")
_TAGS = {AlertEvent.FINISHED: "white_check_mark", AlertEvent.FAILED: "x"}
_HIGH = (
    *(AlertEvent.FAILED, AlertEvent.NAN, AlertEvent.GPU_LOST, AlertEvent.GPU_ERROR),
    AlertEvent.HOST_LOST,
)


def without_paths(text: str) -> str:
    """Return `text` with each path cut to its last component."""
    return _PATH.sub(lambda path: path[1] or "…", text)


@record(frozen=True)
class About:
    """The subject of a message: a session, or a host.

    Attributes:
        host: the host's name.
        begin_wall: the Unix time at which the alerts' clock was 0.
        session: the session's id; None for a host.
        workload: the workload that it trains.
        name: the name that a person gave the session.
        attach: the command that attaches to it.
    """

    host: str
    begin_wall: float
    session: str | None = None
    workload: str | None = None
    name: str | None = None
    attach: str | None = None

    @classmethod
    def of(cls, header: SessionHeader, log: Path, name: str | None, host: str | None) -> About:
        """Return the subject for a session; `host` is ssh's name of its host, None if local."""
        attach = f"dlmon attach{location_options(_unusual_folder(log), host)} {header.id}"
        begin_wall = header.wall - header.t / 1e9
        workload = header.workload or None
        return cls(header.host, begin_wall, header.id, workload, name, attach)


def _unusual_folder(log: Path) -> str | None:
    """Return the log directory that holds `log`, below ~ if it can; None for the default one."""
    folder = unusual_directory_of(log)
    if folder is None:
        return None
    with contextlib.suppress(RuntimeError, ValueError):  # no home, or outside it
        return f"~/{folder.relative_to(Path.home())}"
    return str(folder)


def message_of(
    alert: Alert, about: About, detail: str = "brief", details: dict[str, Any] | None = None
) -> Message:
    """Return the message of an alert, with `details` and paths only if `detail` is full."""
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
    """Return one message for several, of which `left_out` more were dropped."""
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
    """Return the title of a message: the run and its host."""
    run = payload["name"] or payload["workload"]
    return f"{run} on {payload['host']}" if run else str(payload["host"])


def text_of(payload: Message) -> str:
    """Return the text of a message: a line for each event, then the command to attach."""
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
"""URL, body and headers."""


def request_of(address: Address, payload: Message) -> Request:
    """Return the HTTP request that sends a message to a service."""
    parts = urlsplit(address.text)
    headers = {"Content-Type": "application/json; charset=utf-8"}
    if parts.username is not None:
        user = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        headers["Authorization"] = f"Basic {base64.b64encode(user.encode()).decode()}"
    parts = parts._replace(netloc=parts.netloc.rpartition("@")[2], fragment="")
    title, text = title_of(payload), text_of(payload)
    short = _cut(f"{title}\n{text}")
    body: Message = payload
    if address.service is Service.NTFY:
        folder, _, topic = parts.path.strip("/").rpartition("/")
        parts = parts._replace(path=f"/{folder}")
        body = {"topic": unquote(topic), "title": title, "message": _cut(text)}
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


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_BODY else f"{text[: LONGEST_BODY - 1]}…"
