"""CPU utilisation, load, clock and temperature."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from dlmon.records import Cpu, MachineFacts
from dlmon.sensors import kernel_files
from dlmon.sensors.linux.ask import ask
from dlmon.sensors.linux.psutil_or_procfs import system
from dlmon.sensors.provider import Provider, Reading
from dlmon.sensors.rates import Rates

# Reading a core's clock can interrupt that core: on a large machine, ask a few.
_MAX_CLOCKS = 16
_MODEL_KEYS = ("model name", "cpu model", "cpu")
# Drivers of the CPU's own sensors, and the label of the one that stands for the whole package.
_TEMPERATURE_DRIVERS = ("coretemp", "k10temp", "zenpower", "cpu_thermal")
_TEMPERATURE_LABELS = ("Package id", "Tdie", "Tctl")


class CpuProvider(Provider):
    """The whole machine's CPU: utilisation by psutil, clock and temperature from /sys."""

    def __init__(
        self,
        root: Path = Path("/"),
        cpu_times: Callable[[], Sequence[Any]] = lambda: system.cpu_times(percpu=True),
    ) -> None:
        self._root = root
        self._cpu_times = cpu_times
        self._last: list[tuple[float, float]] = []
        self._stolen: float | None = None
        self._steal = Rates()
        self._clocks: list[str] = []
        self._temperatures: list[str] = []

    def facts(self) -> MachineFacts:
        values, why = ask(
            {
                "cpu_model": self._model,
                "cores": _allowed_cores,
                "physical_cores": _physical_cores,
                "load_1m": _load_1m,
                "governor": self._governor,
                "on_battery": _on_battery,
            }
        )
        self._clocks = self._clock_files()
        self._temperatures = self._temperature_files()
        return MachineFacts(**values, why=why)

    def fast(self, t: int) -> Reading:
        """Read the utilisation of the machine and of each core since the call before."""
        try:
            times = self._cpu_times()
            now = [busy_and_total(of_core) for of_core in times]
            last, self._last = self._last, now
            self._stolen = stolen(times)
            pct, cores = utilisation(last, now)
        except (OSError, ValueError, system.Error) as error:
            return Reading(cpu=Cpu(why=dict.fromkeys(("pct", "cores"), kernel_files.reason(error))))
        return Reading(cpu=Cpu(pct=pct, cores=cores))

    def slow(self, t: int) -> Reading:
        """Read the load average, the mean clock, the hottest package, and what the host took."""
        values, why = ask(
            {
                "load_1m": _load_1m,
                "mhz": self._mhz,
                "temperature_c": lambda: round(max(_numbers(self._temperatures)) / 1000),
                "steal_pct": lambda: self._steal_pct(t),
            }
        )
        return Reading(cpu=Cpu(**values, why=why))

    def _mhz(self) -> int:
        clocks = _numbers(self._clocks)
        return round(sum(clocks) / len(clocks) / 1000)

    def _steal_pct(self, t: int) -> float:
        """Return the share of all cores' time that was stolen, by the counts read last."""
        if self._stolen is None:
            raise ValueError("not reported here")
        (stolen_s_per_s,) = self._steal.per_second(t, round(self._stolen * 1e9))
        return min(100.0, round(stolen_s_per_s / 1e7 / len(self._last), 1))

    def _model(self) -> str:
        for line in kernel_files.read(self._root / "proc/cpuinfo").splitlines():
            key, _, value = line.partition(":")
            if key.strip() in _MODEL_KEYS and value.strip():
                return " ".join(value.split())
        raise ValueError("not reported here")

    def _governor(self) -> str:
        return kernel_files.read(
            self._root / "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"
        ).strip()

    def _clock_files(self) -> list[str]:
        policies = sorted((self._root / "sys/devices/system/cpu/cpufreq").glob("policy*"))
        step = -(-len(policies) // _MAX_CLOCKS) or 1
        return [str(policy / "scaling_cur_freq") for policy in policies[::step]]

    def _temperature_files(self) -> list[str]:
        """Find the input of each package once: reading every sensor can take long."""
        found: list[str] = []
        for driver in sorted((self._root / "sys/class/hwmon").glob("hwmon*")):
            try:
                if kernel_files.read(driver / "name").strip() not in _TEMPERATURE_DRIVERS:
                    continue
                labels = {
                    label: kernel_files.read(label) for label in sorted(driver.glob("temp*_label"))
                }
            except OSError:
                continue
            for wanted in _TEMPERATURE_LABELS:
                chosen = [path for path, text in labels.items() if text.startswith(wanted)]
                if chosen:
                    found.append(str(chosen[0]).replace("_label", "_input"))
                    break
            else:
                found.append(str(driver / "temp1_input"))
        return found


def busy_and_total(times: Any) -> tuple[float, float]:
    """Return a core's busy and whole time in seconds, from psutil's `scputimes`.

    Waiting for a disk is not busy. Guest time is left out, for Linux counts it
    in user time too (proc(5), /proc/stat).
    """
    total = sum(times) - getattr(times, "guest", 0.0) - getattr(times, "guest_nice", 0.0)
    return total - times.idle - getattr(times, "iowait", 0.0), total


def stolen(times: Sequence[Any]) -> float | None:
    """Return the seconds that the host took from all cores, from psutil's `scputimes`.

    None where the system doesn't count them.
    """
    counted = [steal for of_core in times if (steal := getattr(of_core, "steal", None)) is not None]
    return sum(counted) if counted else None


def utilisation(
    last: Sequence[tuple[float, float]], now: Sequence[tuple[float, float]]
) -> tuple[float, tuple[int, ...]]:
    """Return the percent busy of all cores together and of each, between two readings.

    Raises:
        ValueError: the readings can't be compared; the message says why.
    """
    if not last:
        raise ValueError("no earlier reading yet")
    if len(last) != len(now):
        raise ValueError("the number of cores changed")
    # The kernel's idle and iowait counters may step back a little, so busy can seem to fall.
    spans = [
        (max(0.0, busy - busy_before), total - total_before)
        for (busy_before, total_before), (busy, total) in zip(last, now, strict=True)
    ]
    if min(total for _, total in spans) <= 0:
        raise ValueError("no CPU time was counted")
    cores = tuple(min(100, round(100 * busy / total)) for busy, total in spans)
    whole = 100 * sum(busy for busy, _ in spans) / sum(total for _, total in spans)
    return min(100.0, round(whole, 1)), cores


def _load_1m() -> float:
    return round(os.getloadavg()[0], 2)


def _allowed_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return _counted(os.cpu_count())


def _physical_cores() -> int:
    return _counted(system.cpu_count(logical=False))


def _counted(cores: int | None) -> int:
    if cores is None:
        raise ValueError("not reported here")
    return cores


def _on_battery() -> bool:
    if not hasattr(system, "sensors_battery"):
        raise ValueError("not reported here")
    battery = system.sensors_battery()
    if battery is None:
        return False
    if battery.power_plugged is None:
        raise ValueError("the battery does not report it")
    return not battery.power_plugged


def _numbers(paths: Sequence[str]) -> list[int]:
    if not paths:
        raise ValueError("not reported here")
    return [int(kernel_files.read(path)) for path in paths]
