"""A stand-in for nvidia-smi that asks the fake driver through pynvml, as the real one asks NVML.

It knows the queries of bench/gpu_truth.py.
"""

from __future__ import annotations

import sys

import pynvml as nvml


def memory(gpu):
    return nvml.nvmlDeviceGetMemoryInfo(gpu, version=nvml.nvmlMemory_v2)


def ecc(gpu, kind):
    return nvml.nvmlDeviceGetTotalEccErrors(gpu, kind, nvml.NVML_VOLATILE_ECC)


def mig(gpu):
    return "Enabled" if nvml.nvmlDeviceGetMigMode(gpu)[0] else "Disabled"


ANSWERS = {
    "name": nvml.nvmlDeviceGetName,
    "driver_version": lambda gpu: nvml.nvmlSystemGetDriverVersion(),
    "memory.total": lambda gpu: f"{memory(gpu).total >> 20} MiB",
    "power.limit": lambda gpu: f"{nvml.nvmlDeviceGetEnforcedPowerLimit(gpu) / 1000:.2f} W",
    "utilization.memory": lambda gpu: nvml.nvmlDeviceGetUtilizationRates(gpu).memory,
    "utilization.gpu": lambda gpu: nvml.nvmlDeviceGetUtilizationRates(gpu).gpu,
    "memory.used": lambda gpu: memory(gpu).used >> 20,
    "power.draw": lambda gpu: f"{nvml.nvmlDeviceGetPowerUsage(gpu) / 1000:.2f}",
    "enforced.power.limit": lambda gpu: nvml.nvmlDeviceGetEnforcedPowerLimit(gpu) / 1000,
    "temperature.gpu": lambda gpu: nvml.nvmlDeviceGetTemperature(gpu, 0),
    "clocks.sm": lambda gpu: nvml.nvmlDeviceGetClockInfo(gpu, nvml.NVML_CLOCK_SM),
    "clocks.mem": lambda gpu: nvml.nvmlDeviceGetClockInfo(gpu, nvml.NVML_CLOCK_MEM),
    "fan.speed": lambda gpu: "[N/A]",
    "pcie.link.gen.current": nvml.nvmlDeviceGetCurrPcieLinkGeneration,
    "pcie.link.width.current": nvml.nvmlDeviceGetCurrPcieLinkWidth,
    "ecc.errors.corrected.volatile.total": lambda gpu: ecc(gpu, 0),
    "ecc.errors.uncorrected.volatile.total": lambda gpu: ecc(gpu, 1),
    "clocks_throttle_reasons.active": lambda gpu: (
        f"0x{nvml.nvmlDeviceGetCurrentClocksThrottleReasons(gpu):016x}"
    ),
    "mig.mode.current": mig,
}


def main():
    options = dict(word.lstrip("-").partition("=")[::2] for word in sys.argv[1:])
    nvml.nvmlInit()
    gpu = nvml.nvmlDeviceGetHandleByIndex(int(options.get("id", 0)))
    if "query-compute-apps" in options:
        for process in nvml.nvmlDeviceGetComputeRunningProcesses_v3(gpu):
            print(f"{process.pid}, {process.usedGpuMemory >> 20}")
        return 0
    names = options["query-gpu"].split(",")
    if not set(names) <= ANSWERS.keys():
        print(f'Field "{names[0]}" is not a valid field to query.')
        return 2
    print(", ".join(str(ANSWERS[name](gpu)) for name in names))
    return 0


if __name__ == "__main__":
    sys.exit(main())
