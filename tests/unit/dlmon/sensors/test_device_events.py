"""What becomes a record of its own between two samples."""

from __future__ import annotations

from dlmon.records import Facts, GpuFacts, MachineFacts, Notice
from dlmon.sensors.device_events import DeviceEvents
from dlmon.sensors.provider import Reading


class Quiet:
    def facts(self):
        return MachineFacts()

    def fast(self, t):
        return Reading()

    slow = fast


class Gpus(Quiet):
    def __init__(self):
        self.found = None
        self.said = []

    def later_facts(self):
        found, self.found = self.found, None
        return found

    def notices(self):
        said, self.said = self.said, []
        return said


def test_a_gpu_that_is_found_later_is_laid_over_what_was_told_first():
    gpus = Gpus()
    first = Facts(1, 1.0, "box", MachineFacts(cores=2, why={"gpus": "asleep", "cuda": "asleep"}))
    events = DeviceEvents((Quiet(), gpus), first, clock=lambda: 9, wall=lambda: 2.004)
    assert list(events.drain()) == []
    gpus.found = MachineFacts(gpus=(GpuFacts(0, "A"),), cuda="12.4")
    machine = MachineFacts(cores=2, gpus=(GpuFacts(0, "A"),), cuda="12.4")
    assert list(events.drain()) == [Facts(9, 2.0, "box", machine)]
    assert list(events.drain()) == []


def test_a_loss_is_a_notice():
    gpus = Gpus()
    events = DeviceEvents((gpus,), Facts(1, 1.0, "box", MachineFacts()), clock=lambda: 9)
    gpus.said = ["GPU 1: lost", "GPU 0: back"]
    assert list(events.drain()) == [Notice(9, "GPU 1: lost"), Notice(9, "GPU 0: back")]
