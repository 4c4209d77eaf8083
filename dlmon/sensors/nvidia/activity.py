"""GPU activity: utilisation and, from Hopper on, GPU performance monitoring (GPM, nvml.h).

GPM counts in hardware: a metric covers the time between two samples, which the driver keeps in
buffers that the caller allocates and must free.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from dlmon.sensors.nvidia.queries import LIFE_CYCLE, NOT_SUPPORTED, words
from dlmon.sensors.query import IMPOSSIBLE, Query

_METRICS = {
    "sm_active_pct": "NVML_GPM_METRIC_SM_UTIL",
    "sm_occupancy_pct": "NVML_GPM_METRIC_SM_OCCUPANCY",
    "tensor_pct": "NVML_GPM_METRIC_ANY_TENSOR_UTIL",
    "dram_pct": "NVML_GPM_METRIC_DRAM_BW_UTIL",
}
_INSTANCE_METRICS = {"utilization_pct": "NVML_GPM_METRIC_GRAPHICS_UTIL", **_METRICS}
# The driver's refresh interval (nvml.h, nvmlGpmSampleGet): on an H100, the bandwidth over 50 ms is
# NaN.
_LEAST_APART_NS = 100_000_000
# A sample and its metrics take 1.4 ms on an H100. Counters miss nothing over a longer window.
_USUALLY_APART_NS = 1_500_000_000
# A ratio of two counters that are read one after another may slightly exceed 100 %.
_MOST_PCT = 102.0


class Gpm:
    """The last two GPM samples of a GPU, and the metrics of the time between them.

    With `gpu_instance`, they are those of this part of a GPU that is divided by MIG.
    """

    def __init__(self, clock: Callable[[], int], gpu_instance: int | None = None) -> None:
        self._clock = clock
        self._gpu_instance = gpu_instance
        self._metrics = _METRICS if gpu_instance is None else _INSTANCE_METRICS
        self._nvml: Any = None
        self._samples: list[Any] = []
        """The older one first."""
        self._sampled_at: int | None = None
        self._request: Any = None
        self._values: dict[str, tuple[int, float]] = {}

    def read(self, nvml: Any, gpu: Any) -> dict[str, tuple[int, float]]:
        """Take a sample; return NVML's code and the value of each metric since the last sample.

        Within `_USUALLY_APART_NS` of the last sample, return its values.

        Raises:
            nvml.NVMLError: the driver returns no sample.
            ValueError: there is no earlier sample, or it is too recent.
        """
        if not self._samples:
            self._open(nvml, gpu)
        now, before = self._clock(), self._sampled_at
        if before is not None and self._values and now - before < _USUALLY_APART_NS:
            return self._values
        if before is not None and now - before < _LEAST_APART_NS:
            raise ValueError("no earlier reading yet")
        # If taking it fails, the older sample's buffer is no longer valid.
        self._sampled_at, self._values = None, {}
        older, newer = self._samples
        if self._gpu_instance is None:
            nvml.nvmlGpmSampleGet(gpu, older)
        else:
            nvml.nvmlGpmMigSampleGet(gpu, self._gpu_instance, older)
        self._samples, self._sampled_at = [newer, older], now
        if before is None:
            raise ValueError("no earlier reading yet")
        request = self._request
        request.sample1, request.sample2 = self._samples
        nvml.nvmlGpmMetricsGet(request)
        self._values = {
            name: (metric.nvmlReturn, metric.value)
            for name, metric in zip(self._metrics, request.metrics, strict=False)
        }
        return self._values

    def close(self) -> None:
        """Free the samples, which don't outlive a shutdown of NVML."""
        for sample in self._samples:
            with suppress(self._nvml.NVMLError):
                self._nvml.nvmlGpmSampleFree(sample)
        self._samples, self._sampled_at, self._values = [], None, {}

    def _open(self, nvml: Any, gpu: Any) -> None:
        if not nvml.nvmlGpmQueryDeviceSupport(gpu).isSupportedDevice:
            raise nvml.NVMLError(NOT_SUPPORTED)
        self._nvml = nvml
        self._request = request = nvml.c_nvmlGpmMetricsGet_t()
        request.version, request.numMetrics = nvml.NVML_GPM_METRICS_GET_VERSION, len(self._metrics)
        for number, constant in enumerate(self._metrics.values()):
            request.metrics[number].metricId = getattr(nvml, constant)
        samples = [nvml.nvmlGpmSampleAlloc()]
        try:
            samples.append(nvml.nvmlGpmSampleAlloc())
        finally:
            self._samples = samples
            if len(samples) == 1:
                self.close()


class Activity:
    """The queries of `ACTIVITY_NAMES`; a call that answers several is made once per reading."""

    def __init__(self, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self._gpm = Gpm(clock)
        self._answers: dict[str, Any] = {}
        self.queries = (
            Query("utilization_pct", partial(self._utilization, "gpu"), within=(0, 100)),
            Query("memory_busy_pct", partial(self._utilization, "memory"), within=(0, 100)),
            *(Query(name, partial(self._metric, name), within=(0, 100)) for name in _METRICS),
        )

    def begin(self) -> None:
        """Begin a reading: forget the answers of the last one."""
        self._answers.clear()

    def close(self) -> None:
        """Free the driver's resources."""
        self._gpm.close()

    def _utilization(self, part: str, nvml: Any, gpu: Any) -> int:
        rates = self._once("rates", nvml, lambda: nvml.nvmlDeviceGetUtilizationRates(gpu))
        return int(getattr(rates, part))

    def _metric(self, name: str, nvml: Any, gpu: Any) -> float:
        code, pct = self._once("gpm", nvml, lambda: self._gpm.read(nvml, gpu))[name]
        if code:
            raise nvml.NVMLError(code)
        return _rounded(pct)

    def _once(self, call: str, nvml: Any, ask: Callable[[], Any]) -> Any:
        """Call `ask` once per reading; return its answer, or raise its error, each time."""
        if call not in self._answers:
            try:
                self._answers[call] = ask()
            except (nvml.NVMLError, ValueError, AttributeError) as error:
                self._answers[call] = error
        answer = self._answers[call]
        if isinstance(answer, Exception):
            raise answer
        return answer


class InstanceActivity:
    """The GPM metrics of the MIG instances of a GPU."""

    def __init__(self, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self._clock = clock
        self._by_instance: dict[int, Gpm] = {}

    def read(
        self, nvml: Any, gpu: Any, gpu_instance: int
    ) -> tuple[dict[str, float], dict[str, str]]:
        """Return the metrics of a GPU instance, and the reasons of those that are unknown.

        Raises:
            nvml.NVMLError: the GPU is lost.
        """
        gpm = self._by_instance.setdefault(gpu_instance, Gpm(self._clock, gpu_instance))
        try:
            answers = gpm.read(nvml, gpu)
        except (nvml.NVMLError, ValueError) as error:
            if getattr(error, "value", None) in LIFE_CYCLE:
                raise
            return {}, dict.fromkeys(_INSTANCE_METRICS, words(error))
        except AttributeError:
            return {}, dict.fromkeys(_INSTANCE_METRICS, "not supported by this pynvml")
        why = {name: words(nvml.NVMLError(code)) for name, (code, _) in answers.items() if code}
        values = {name: _rounded(pct) for name, (code, pct) in answers.items() if not code}
        wrong = [name for name, pct in values.items() if not 0 <= pct <= 100]
        why |= dict.fromkeys(wrong, IMPOSSIBLE)
        return {name: pct for name, pct in values.items() if name not in wrong}, why

    def close(self) -> None:
        """Free the driver's resources."""
        for gpm in self._by_instance.values():
            gpm.close()
        self._by_instance.clear()


def _rounded(pct: float) -> float:
    pct = 100.0 if 100 < pct < _MOST_PCT else pct
    return round(pct) if 10 <= pct <= 100 else round(pct, 1)


ACTIVITY_NAMES = tuple(query.name for query in Activity().queries)
