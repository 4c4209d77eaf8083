"""What `bench/sensors.py` is measured against: a plain loop over psutil and pynvml.

It reads the same fields as dlmon's sensors, each as often, and writes a line of JSON each second.
It keeps nothing for the next time, and a field that can't be read is null.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import psutil
import pynvml

INTERVAL_S = 1.0
SLOW_EVERY = 5
PROCESS_FIELDS = ["pid", "username", "cmdline", "cpu_percent", "memory_info", "num_threads"]

FAST: dict[str, Callable[[Any], Any]] = {
    "utilization": lambda gpu: pynvml.nvmlDeviceGetUtilizationRates(gpu).gpu,
    "memory": lambda gpu: pynvml.nvmlDeviceGetMemoryInfo(gpu, version=pynvml.nvmlMemory_v2).used,
    "power": pynvml.nvmlDeviceGetPowerUsage,
    "temperature": lambda gpu: pynvml.nvmlDeviceGetTemperature(gpu, pynvml.NVML_TEMPERATURE_GPU),
    "sm": lambda gpu: pynvml.nvmlDeviceGetClockInfo(gpu, pynvml.NVML_CLOCK_SM),
    "throttle": pynvml.nvmlDeviceGetCurrentClocksEventReasons,
}
ENERGY: dict[str, Callable[[Any], Any]] = {"energy": pynvml.nvmlDeviceGetTotalEnergyConsumption}
SLOW: dict[str, Callable[[Any], Any]] = {
    "limit": pynvml.nvmlDeviceGetEnforcedPowerLimit,
    "memory_clock": lambda gpu: pynvml.nvmlDeviceGetClockInfo(gpu, pynvml.NVML_CLOCK_MEM),
    "fan": pynvml.nvmlDeviceGetFanSpeed,
    "ecc_corrected": lambda gpu: pynvml.nvmlDeviceGetTotalEccErrors(gpu, 0, 0),
    "ecc_uncorrected": lambda gpu: pynvml.nvmlDeviceGetTotalEccErrors(gpu, 1, 0),
    "pcie_generation": pynvml.nvmlDeviceGetCurrPcieLinkGeneration,
    "pcie_width": pynvml.nvmlDeviceGetCurrPcieLinkWidth,
    "mig": pynvml.nvmlDeviceGetMigMode,
    "encoder": pynvml.nvmlDeviceGetEncoderUtilization,
    "decoder": pynvml.nvmlDeviceGetDecoderUtilization,
    "computing": lambda gpu: [p.pid for p in pynvml.nvmlDeviceGetComputeRunningProcesses(gpu)],
    "drawing": lambda gpu: [p.pid for p in pynvml.nvmlDeviceGetGraphicsRunningProcesses(gpu)],
}


def main() -> None:
    gpus = _gpus()
    # As dlmon's sensors: the energy of many GPUs in the slow tier.
    fast, slow = (FAST | ENERGY, SLOW) if len(gpus) <= 4 else (FAST, SLOW | ENERGY)
    due = time.monotonic()
    count = 0
    while True:
        sample = _machine()
        sample["gpus"] = [_read(gpu, fast) for gpu in gpus]
        if count % SLOW_EVERY == 0:
            sample |= _seldom()
            sample["slow"] = [_read(gpu, slow) for gpu in gpus]
        try:
            print(json.dumps(sample), flush=True)
        except BrokenPipeError:
            os._exit(0)
        count += 1
        due += INTERVAL_S
        time.sleep(max(0.0, due - time.monotonic()))


def _gpus() -> list[Any]:
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return []
    return [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]


def _machine() -> dict[str, Any]:
    memory, disk, network = (
        psutil.virtual_memory(),
        psutil.disk_io_counters(),
        psutil.net_io_counters(),
    )
    return {
        "t": time.monotonic_ns(),
        "cores": psutil.cpu_percent(percpu=True),
        "memory": memory.total - memory.available,
        "disk": disk and (disk.read_bytes, disk.write_bytes),
        "network": (network.bytes_recv, network.bytes_sent),
    }


def _seldom() -> dict[str, Any]:
    frequency, swap = psutil.cpu_freq(), psutil.swap_memory()
    return {
        "load": psutil.getloadavg(),
        "mhz": frequency and frequency.current,
        "temperatures": psutil.sensors_temperatures(),
        "swap": (swap.used, swap.sin + swap.sout),
        "processes": [
            process.info for process in psutil.process_iter(PROCESS_FIELDS, ad_value=None)
        ],
    }


def _read(gpu: Any, questions: dict[str, Callable[[Any], Any]]) -> dict[str, Any]:
    answers = {}
    for name, ask in questions.items():
        try:
            answers[name] = ask(gpu)
        except pynvml.NVMLError:
            answers[name] = None
    return answers


if __name__ == "__main__":
    sys.exit(main())
