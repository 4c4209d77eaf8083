"""A module in pynvml's place that gives a recorded driver's answers (bench/nvml_answers.py)."""

from __future__ import annotations

import json
from collections import defaultdict
from types import SimpleNamespace

import pynvml

# What these hold lies in the driver's memory, and can't be recorded; the last is asked since.
_IN_MEMORY = ("nvmlGpm", "nvmlEvent", "nvmlDeviceRegisterEvents", "nvmlDeviceGetVirtualizationMode")


class RecordedNvml:
    """Every call's answers in the order they were given; the last one stands from then on."""

    def __init__(self, path):
        record = json.loads(path.read_text())
        assert record["schema"] == 1
        self.gpus = record["gpus"]
        self._answers = defaultdict(list)
        for call in record["calls"]:
            self._answers[call["call"], _key(call["arguments"])].append(call)

    def __getattr__(self, name):
        if not name.startswith("nvml") or not callable(getattr(pynvml, name)):
            return getattr(pynvml, name)

        def call(*arguments, **named):
            if name.startswith(_IN_MEMORY):
                raise pynvml.NVMLError(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)
            answers = self._answers[name, _key([*arguments, *named.values()])]
            assert answers, f"no answer of {name}{arguments} was recorded"
            answer = answers.pop(0) if len(answers) > 1 else answers[0]
            if "error" in answer:
                raise pynvml.NVMLError(answer["error"])
            return _value(answer["value"])

        return call


def _key(arguments):
    return json.dumps(arguments, sort_keys=True, default=vars)


def _value(value):
    if isinstance(value, list):
        return [_value(item) for item in value]
    if isinstance(value, dict) and set(value) == {"gpu"} and isinstance(value["gpu"], int):
        return _Handle(value)
    if isinstance(value, dict):
        return SimpleNamespace(**{name: _value(item) for name, item in value.items()})
    return value


class _Handle(dict):
    """A recorded GPU; unlike an empty one, it counts as a handle."""
