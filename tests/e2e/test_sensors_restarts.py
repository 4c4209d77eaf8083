"""What the owner of a sensors process hears of its GPUs."""

from __future__ import annotations

import asyncio
import sys

import pytest
from fakes import sensors
from fakes.sessions import DEADLINE_S

from dlmon.launch.sensors_process import SensorsProcess

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sensors run on Linux")

VERSION_MISMATCH = 18


class Heard:
    """All that one `SensorsProcess` reports; `until` waits for it."""

    def __init__(self, **options):
        self.facts, self.samples, self.notices = [], [], []
        self._news = asyncio.Event()
        keep = [self._keeper(reported) for reported in (self.facts, self.samples, self.notices)]
        self.sensors = SensorsProcess(0.1, *keep, **options)

    def _keeper(self, reported):
        def keep(news):
            reported.append(news)
            self._news.set()

        return keep

    async def until(self, holds):
        while not holds():
            self._news.clear()
            await self._news.wait()


def test_what_crosses_the_pcie_links_is_measured_where_asked_for(own_driver):
    async def listen():
        heard = Heard(pcie=True)
        heard.sensors.start()
        await heard.until(lambda: heard.samples)
        heard.sensors.close()
        return heard

    (gpu,) = asyncio.run(asyncio.wait_for(listen(), DEADLINE_S)).samples[0].gpus
    assert gpu.pcie_receive_mib_s == 2.0


def test_a_driver_that_comes_back_broken_is_not_called_well(own_driver):
    async def listen():
        heard = Heard()
        heard.sensors.start()
        await heard.until(lambda: heard.samples)
        own_driver.says("gpus 1", "crash nvmlDeviceGetUtilizationRates")
        await heard.until(lambda: heard.notices)
        own_driver.says("gpus 1", f"answer nvmlInitWithFlags * {VERSION_MISMATCH}")
        await heard.until(lambda: len(heard.notices) == 2)
        heard.sensors.close()
        return heard.notices

    lost, back = asyncio.run(asyncio.wait_for(listen(), DEADLINE_S))
    assert lost.startswith("the sensors ended (segmentation fault)")
    assert back == (
        "the sensors ask for the GPUs again, but: the NVIDIA driver and its library differ in "
        "version"
    )


def test_a_gpu_that_takes_long_to_be_reached_again_is_waited_for():
    async def listen():
        heard = Heard(command=[sys.executable, "-P", sensors.__file__, "slow_driver"])
        heard.sensors.start()
        await heard.until(lambda: len(heard.samples) > 3)
        heard.sensors.close()
        return heard

    heard = asyncio.run(asyncio.wait_for(listen(), DEADLINE_S))
    assert [sample.gpus[0].utilization_pct for sample in heard.samples[:3]] == [50, None, 60]
    assert heard.notices == []
    gap_s = (heard.samples[2].t - heard.samples[1].t) / 1e9
    assert gap_s >= sensors.REOPENING_S
