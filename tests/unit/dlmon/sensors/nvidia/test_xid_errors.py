"""The errors that the driver reports of a GPU: read, told once, and their set of events freed."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from fakes.nvml_module import NVMLError, NvmlModule

from dlmon.records.xid import XID_MEANINGS, xid_text
from dlmon.sensors.nvidia.provider import NvidiaProvider
from dlmon.sensors.nvidia.xid_errors import XidErrors

SECOND = 1_000_000_000


class Listening(NvmlModule):
    """A module in pynvml's place with events: those `raised` of each GPU; `sets` that live."""

    nvmlEventTypeXidCriticalError = 8

    def __init__(self, *uuids):
        super().__init__(*uuids)
        self.raised = {uuid: [] for uuid in uuids}
        self.sets = []

    def nvmlEventSetCreate(self):
        self._answer("event_set")
        self.sets.append(SimpleNamespace(uuid=None))
        return self.sets[-1]

    def nvmlDeviceRegisterEvents(self, handle, types, events):
        self._answer("register", handle)
        assert types == 8
        events.uuid = handle[1]

    def nvmlEventSetWait_v2(self, events, timeout_ms):
        self._answer("wait", (self.session, events.uuid))
        assert timeout_ms == 0
        if not self.raised[events.uuid]:
            raise NVMLError(10)
        return SimpleNamespace(eventData=self.raised[events.uuid].pop(0))

    def nvmlEventSetFree(self, events):
        self.sets.remove(events)


def opened(module):
    provider = NvidiaProvider(load=lambda: module, wake=True)
    provider.facts()
    return provider


def test_errors_are_counted_and_told_with_the_gpu_that_they_are_of():
    module = Listening("a", "b")
    provider = opened(module)
    first = provider.fast(0).gpus
    assert [(gpu.xid_errors, gpu.xids) for gpu in first] == [(0, ()), (0, ())]
    assert provider.notices() == []
    module.raised["b"] += [31, 4711]
    second = provider.fast(SECOND).gpus
    assert [(gpu.xid_errors, gpu.xids) for gpu in second] == [(0, ()), (2, (31, 4711))]
    assert provider.notices() == [
        "GPU 1: Xid 31: a program used memory that is not its own (page fault)",
        "GPU 1: Xid 4711",
    ]
    assert provider.notices() == []
    assert len(module.sets) == 2


def test_one_that_comes_again_and_again_is_counted_and_told_once_a_minute():
    now, module = [0], Listening("a")
    errors = XidErrors(lambda: now[0])
    module.raised["a"] += [13] * 500
    (count, newest) = (query.readers[0] for query in errors.queries)
    told = []
    for second in range(130):
        now[0] = second * SECOND
        found = count(module, (0, "a"))
        told += errors.unreported()
        module.raised["a"].append(13)
    # No more are taken in one reading than it has time for.
    assert found == 500 + 129
    assert told == [13] * 3
    assert newest(module, (0, "a")) == (13,) * 8


def test_many_unlike_ones_leave_no_trace_in_memory():
    module = Listening("a")
    errors = XidErrors(lambda: 0)
    module.raised["a"] += range(1000)
    for _ in range(5):
        errors.queries[0].readers[0](module, (0, "a"))
    assert len(errors.unreported()) == 1000
    assert len(vars(errors)["_reported_at"]) <= 64


@pytest.mark.parametrize(
    ("failing", "code", "why"),
    [
        ("event_set", 3, "not supported"),
        ("event_set", 13, "not supported by this driver"),
        ("register", 3, "not supported"),
        ("register", 4, "denied"),
    ],
)
def test_where_no_errors_are_told_there_is_a_reason_and_nothing_is_asked_again(failing, code, why):
    module = Listening("a")
    module.errors[failing] = code
    provider = opened(module)
    for t in range(3):
        (gpu,) = provider.fast(t * SECOND).gpus
        assert (gpu.xid_errors, gpu.xids) == (None, None)
        assert {gpu.why["xid_errors"], gpu.why["xids"]} == {why}
    assert module.sets == []
    # Once for how many there are, once for which.
    assert sum(call in (failing, (failing, "a")) for call in module.calls) == 2


def test_the_last_error_of_a_gpu_that_is_lost_stays_known_and_its_events_are_freed():
    module = Listening("a")
    provider = opened(module)
    provider.fast(0)
    module.raised["a"].append(79)
    module.errors["utilization"] = 15
    (lost,) = provider.fast(SECOND).gpus
    assert (lost.xid_errors, lost.xids, lost.why["power_w"]) == (1, (79,), "lost")
    assert not {"xids", "xid_errors"} & lost.why.keys()
    assert provider.notices() == [
        "GPU 0: lost; it is tried again",
        "GPU 0: Xid 79: it has fallen off the bus",
    ]
    assert module.sets == []
    module.errors.clear()
    (back,) = provider.fast(10 * SECOND).gpus
    assert (back.xid_errors, back.xids, back.utilization_pct) == (1, (79,), 97)
    assert len(module.sets) == 1


def test_an_error_that_comes_with_the_loss_is_told_too():
    module = Listening("a")
    provider = opened(module)
    provider.fast(0)

    def fails(handle):
        module.raised["a"].append(79)
        raise NVMLError(15)

    module.nvmlDeviceGetUtilizationRates = fails
    (lost,) = provider.fast(SECOND).gpus
    assert lost.xids == (79,)
    assert "GPU 0: Xid 79: it has fallen off the bus" in provider.notices()


def test_an_error_is_named_in_few_words():
    assert xid_text(1_000_000) == "Xid 1000000"
    assert all(len(text) <= 70 and "." not in text for text in XID_MEANINGS.values())
