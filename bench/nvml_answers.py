"""Record a driver's answers to every NVML query of dlmon, as JSON in FILE.

Every call of every query is made once, including older forms that a newer one replaces; then
dlmon's own provider reads everything twice, a second apart, as in a session. The file has each call
with its arguments (a handle as the GPU's index), its value or NVML's error code, and its duration.
The UUIDs of GPUs are masked, and nothing is left out.

`tests/fakes/recorded_nvml.py` replays such a file in pynvml's place.
"""

from __future__ import annotations

import ctypes
import inspect
import json
import re
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import harness
from harness import CannotRun

from dlmon.sensors.nvidia.activity import Activity
from dlmon.sensors.nvidia.device import COMPUTE, GRAPHICS, INSTANCE_PROCESSES, Missing, NvLinks
from dlmon.sensors.nvidia.provider import NvidiaProvider, load_pynvml
from dlmon.sensors.nvidia.queries import ENERGY, FACTS, FAST, MIG, PCIE, SLOW, Query

SCHEMA = 1
APART_S = 1.0
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Recorder:
    """The module `pynvml`, with every call to NVML recorded."""

    def __init__(self, nvml: Any) -> None:
        self._nvml = nvml
        self.calls: list[dict[str, Any]] = []
        self._gpus: dict[int, int] = {}

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._nvml, name)
        if not inspect.isfunction(value):
            return value

        def call(*arguments: Any, **named: Any) -> Any:
            entry: dict[str, Any] = {"call": name}
            entry["arguments"] = [*map(self._argument, (*arguments, *named.values()))]
            start = time.perf_counter_ns()
            try:
                answer = value(*arguments, **named)
            except self._nvml.NVMLError as error:
                entry["error"] = error.value
                raise
            else:
                entry["value"] = self._answer(name, arguments, answer)
                return answer
            finally:
                entry["us"] = (time.perf_counter_ns() - start) // 1000
                self.calls.append(entry)

        return call

    def _argument(self, value: Any) -> Any:
        address = _address(value)
        return plain(value) if address is None else {"gpu": self._gpus.get(address, -1)}

    def _answer(self, name: str, arguments: tuple[Any, ...], answer: Any) -> Any:
        address = _address(answer)
        if address is None:
            return plain(answer)
        # MIG instances are numbered from 1000 on, and the driver's buffers from 2000 on.
        by_index = name.endswith("ByIndex")
        index = arguments[-1] if by_index else 2000 + len(self._gpus)
        index += 1000 if name == "nvmlDeviceGetMigDeviceHandleByIndex" else 0
        self._gpus[address] = index
        return {"gpu": index}


def _address(value: Any) -> int | None:
    """Return the address of a handle; None for other values."""
    if isinstance(value, ctypes._Pointer):
        return ctypes.cast(value, ctypes.c_void_p).value
    return None


def plain(value: Any) -> Any:
    """Return a value of pynvml as JSON types; a structure becomes an object of its fields."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if isinstance(value, str):
        return UUID.sub(_masked, value)
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, ctypes._Pointer):
        return None
    if isinstance(value, ctypes.Structure) and hasattr(value, "numMetrics"):
        return [
            [row.metricId, row.nvmlReturn, row.value] for row in value.metrics[: value.numMetrics]
        ]
    if isinstance(value, ctypes.Structure | ctypes.Union):
        return {name: plain(getattr(value, name)) for name, *_ in value._fields_}
    if isinstance(value, ctypes.Array):
        return [plain(item) for item in value]
    # pynvml's own objects for some structures.
    return {name: plain(field) for name, field in vars(value).items()}


def _masked(uuid: re.Match[str]) -> str:
    """Mask a UUID but for its last three digits, which tell GPUs apart."""
    return f"00000000-0000-0000-0000-000000000{uuid[0][-3:]}"


def main() -> None:
    parser = harness.parser(__doc__)
    parser.add_argument("file", type=Path, metavar="FILE")
    file = parser.parse_args().file
    nvml = load_pynvml()
    if isinstance(nvml, Missing):
        raise CannotRun(nvml.reason)
    recorder = Recorder(nvml)
    answers = record(recorder)
    file.write_text(json.dumps(answers, indent=1))
    print(f"{len(answers['calls'])} calls on {len(answers['gpus'])} GPUs are in {file}")


def record(recorder: Recorder) -> dict[str, Any]:
    """Make every query, and return the content of the file."""
    recorder.nvmlInit()
    count = recorder.nvmlDeviceGetCount()
    for index in range(count):
        handle = recorder.nvmlDeviceGetHandleByIndex(index)
        _ask_all(recorder, handle, _queries())
    recorder.nvmlShutdown()
    provider = NvidiaProvider(load=lambda: recorder, pcie=True, wake=True)
    facts = provider.facts()
    readings = []
    for _ in range(2):
        now = time.monotonic_ns()
        readings += [provider.fast(now), provider.slow(now)]
        time.sleep(APART_S)
    package = sys.modules["pynvml"]
    return {
        "schema": SCHEMA,
        "driver": facts.driver,
        "cuda": facts.cuda,
        "pynvml": getattr(package, "__version__", None),
        "gpus": [gpu.name for gpu in facts.gpus or ()],
        "queries_without_an_answer": _unanswered(readings),
        "calls": recorder.calls,
    }


def _queries() -> Iterable[Query]:
    return (
        *(*FACTS, *FAST, *ENERGY, MIG, *SLOW, *PCIE, COMPUTE, GRAPHICS, INSTANCE_PROCESSES),
        *NvLinks().queries,
        *Activity().queries,
    )


def _ask_all(recorder: Recorder, handle: Any, queries: Iterable[Query]) -> None:
    """Make all calls of the queries; print errors, of which NVML's are recorded already."""
    for query in queries:
        for reader in query.readers:
            try:
                reader(recorder, handle)
            except (recorder.NVMLError, ValueError, AttributeError) as error:
                print(f"{type(error).__name__}: {error}", file=sys.stderr)


def _unanswered(readings: Iterable[Any]) -> dict[str, str]:
    """Return the fields that the first GPU's readings leave unknown, with their reasons."""
    why: dict[str, str] = {}
    for reading in readings:
        for gpu in (reading.gpus or ())[:1]:
            why = {name: text for name, text in why.items() if getattr(gpu, name) is None}
            why |= gpu.why
    return why


if __name__ == "__main__":
    harness.run(main)
