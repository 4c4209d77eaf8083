"""The tools of `dlmon mcp`: the functions that answer, and the schemas of their parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from dlmon.agents import actions, questions
from dlmon.agents.questions import PARTS
from dlmon.agents.reply import Reply
from dlmon.records.words import Status

QUESTIONS: Mapping[str, Callable[..., Reply]] = {
    "sessions": questions.sessions,
    "session": questions.session,
    "series": questions.series,
    "compare": questions.compare,
    "stacks": questions.stacks,
    "output": questions.output,
    "hosts": questions.hosts,
    "workloads": questions.workloads,
}
ACTIONS: Mapping[str, Callable[..., Reply]] = {
    "run": actions.run,
    "exec": actions.exec_script,
    "ab": actions.ab,
    "stop": actions.stop,
    "profile": actions.profile,
}


def _text(description: str, **more: Any) -> dict[str, Any]:
    return {"type": "string", "maxLength": 8_192, "description": description, **more}


def _words(description: str, least: int, most: int) -> dict[str, Any]:
    bounds = {"minItems": least, "maxItems": most, "items": {"type": "string"}}
    return {"type": "array", "description": description, **bounds}


def _number(description: str, most: int) -> dict[str, Any]:
    return {"type": "integer", "description": description, "minimum": 1, "maximum": most}


_SIDE = "Sessions: one, several with commas, or a pattern such as 'base*'; repeats are one side."
PARAMETERS: Mapping[str, Mapping[str, Any]] = {
    "session": _text("An id, a name, the start of an id, a script such as train.py, last, last~1."),
    "host": _text("Another machine, as ssh knows it; without it, this one."),
    "status": _text("Only those.", enum=[status.value for status in Status]),
    "name": _text("A name; for sessions(), also a script or a pattern such as 'base*'."),
    "since": _text("Only those that began in the last 2h or 7d."),
    "limit": _number("How many. [15]", 50),
    "part": _text("Which part of the page. [summary]", enum=list(PARTS)),
    "names": _words("Series, at most 6, or hosts; series also as patterns, 'GPU 0*'.", 0, 16),
    "points": _number("Into how many intervals. [20]", 50),
    "lines": _number("How many lines. [40]", 200),
    "base": _text(_SIDE),
    "new": _text(_SIDE),
    "workload": _text("A network that workloads() lists."),
    "options": {"type": "object", "description": "Of dlmon run: {epochs: 3, batch_size: 64}."},
    "command": _words("The words of a command: python, train.py.", 1, 1_000),
    "directory": _text("Where it runs. [where dlmon mcp runs]"),
    "vary": _text("commit=main,HEAD (. is the files as they are), env:NAME=1,2, or n=1,2 for {n}."),
    "to": _text("The half-width of the interval that is asked for. [2%]"),
    "for_time": _text("The time that it may take. [20m]"),
    "window": _text("The steady training after which a run is ended. [30s]"),
    "steps": _number("How many steps. [5]", 1_000),
}


def schema_of(tool: Callable[..., Reply]) -> dict[str, Any]:
    """Return the JSON schema of the arguments of a tool."""
    _, *specs = inspect.signature(tool).parameters.values()
    return {
        "type": "object",
        "properties": {spec.name: PARAMETERS[spec.name] for spec in specs},
        "required": [spec.name for spec in specs if spec.default is inspect.Parameter.empty],
        "additionalProperties": False,
    }
