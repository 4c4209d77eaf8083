"""Steps whose parts take known times, on a clock of the test and on a GPU of the test."""

import sys
import traceback
from types import SimpleNamespace
from typing import NamedTuple

import pytest
from fakes.loops import MS, Script

from dlmon.instrument import step_parts
from dlmon.instrument.facts import facts_of_training
from dlmon.instrument.loop_reports import LoopReports
from dlmon.instrument.step_counter import StepCounter
from dlmon.instrument.step_parts import BACKWARD, FORWARD, NOT_BACKWARD, SEVERAL_DEVICES
from dlmon.records import StepParts
from dlmon.records.training import STEP_PARTS


class Device(NamedTuple):
    type: str
    index: int | None = None


CPU, GPU = Device("cpu"), Device("cuda", 0)


class Optimizer:
    def __init__(self, *devices, **options):
        self.param_groups = [{"params": [SimpleNamespace(device=d) for d in devices], **options}]


class Gpu:
    """Works at what is queued one after the other, as torch.cuda's streams do; nobody waits."""

    def __init__(self, script):
        self.script, self.done_ns, self.lag_ns = script, 0, 0
        self.is_capturing, self.stream, self.recorded = False, "stream 7", 0
        gpu = self

        class Event:
            def __init__(self, enable_timing=False):
                assert enable_timing
                self.t = None

            def record(self, stream):
                assert stream == gpu.stream
                assert not gpu.is_capturing
                gpu.recorded += 1
                self.t = gpu.done_ns = max(gpu.done_ns, gpu.script.now)

            def query(self):
                return gpu.script.now >= self.t + gpu.lag_ns

            def elapsed_time(self, other):
                assert self.query()
                assert other.query()
                return (other.t - self.t) / 1e6

        self.Event = Event

    def works(self, ms):
        """Queue so much work; the script goes on at once."""
        self.done_ns = max(self.done_ns, self.script.now) + ms * MS

    def current_stream(self, device):
        assert device is GPU
        return self.stream

    def is_current_stream_capturing(self):
        return self.is_capturing


class Torch:
    """The hooks of all modules, as PyTorch keeps them."""

    def __init__(self, script):
        self.hooks, self.cuda = {}, Gpu(script)
        register = SimpleNamespace(register_module_forward_pre_hook=self.register)
        self.is_grad_enabled = lambda: script.gradients
        self.nn = SimpleNamespace(modules=SimpleNamespace(module=register))

    def register(self, hook):
        number = len(self.hooks)
        self.hooks[number] = hook
        return SimpleNamespace(remove=lambda: self.hooks.pop(number, None))

    def call_module(self, module=None):
        for hook in tuple(self.hooks.values()):
            hook(module, ())


class Steps(Script):
    """A script that goes forward and backward as PyTorch's hooks see it."""

    def __init__(self, monkeypatch):
        super().__init__()
        self.marks, self.torch = self.steps.marks, Torch(self)
        monkeypatch.setitem(sys.modules, "torch", self.torch)
        self.steps.reports.has_optimizers = True
        monkeypatch.setattr(step_parts, "COMPILED", [])

    def forward(self, ms=3, network=None):
        self.torch.call_module(network)
        self.took(ms)

    def backward(self, ms=4):
        began = self.now
        if self.marks.is_on:
            self.marks.begin_backward(None)
        self.took(ms)
        self.steps.went_backward(CPU, began)
        if self.marks.is_on:
            self.marks.end_backward()

    def train(self, optimizer, batches=100, before=1, after=2, every=1):
        loader = self.loader(10 * batches, 10)
        for number, _ in enumerate(loader, 1):
            self.took(before)
            self.forward()
            self.backward()
            if number % every == 0:
                self.step(optimizer, ms=5)
            self.took(after)

    def parts(self):
        """Return all that was reported, in milliseconds of a batch, and the records."""
        records = self.reported().of(StepParts)
        measured = [record for record in records if record.steps]
        steps = sum(record.steps for record in measured)
        return records, {
            name: sum(getattr(record, name) or 0 for record in measured) / steps / 1000
            for name in ("step_us", "rest_us", *STEP_PARTS)
            if any(getattr(record, name) is not None for record in measured)
        }


@pytest.fixture
def script(monkeypatch):
    return Steps(monkeypatch)


def test_the_parts_of_a_step_are_what_they_took_and_add_up_to_it(script):
    script.train(Optimizer(CPU))
    records, parts = script.parts()
    assert parts == {
        "wait_us": 2,
        "forward_us": 3,
        "backward_us": 4,
        "optimizer_us": 5,
        "rest_us": 1 + 2,
        "step_us": 17,
    }
    # Of 1.7 s, without the warm-up, four a second.
    assert 4 <= sum(record.steps for record in records) <= 7
    assert not script.torch.hooks


def test_a_loop_that_waits_every_fourth_step_is_measured_at_all_of_them(script):
    optimizer, loader = Optimizer(CPU), script.loader(20_000, 10)
    for number, _ in enumerate(loader):
        loader.wait_ms = 0
        script.took(40 if number % 4 == 0 else 0)
        script.forward()
        script.backward()
        script.step(optimizer)
    _, parts = script.parts()
    assert parts["rest_us"] == pytest.approx(10, rel=0.25)


@pytest.mark.parametrize("every", [2, 4])
def test_all_batches_of_an_accumulated_step_are_in_it(script, every):
    script.train(Optimizer(CPU), batches=200, every=every)
    records, parts = script.parts()
    assert all(record.steps % every == 0 for record in records)
    assert parts["backward_us"] == 4
    assert parts["optimizer_us"] == 5 / every


def test_what_a_closure_does_is_not_the_optimizers(script):
    optimizer = Optimizer(CPU)

    def closure():
        script.took(8)
        script.forward()
        script.backward()
        script.took(7)

    for _ in script.loader(600, 10):
        script.steps.step_began(optimizer, has_closure=True)
        for _ in range(2):
            script.marks.marked(closure)()
            script.took(5)
        script.steps.step_ended(optimizer)
    _, parts = script.parts()
    assert (parts["forward_us"], parts["backward_us"]) == (6, 8)
    assert (parts["optimizer_us"], parts["rest_us"]) == (10, 30)


def test_an_error_in_a_closure_shows_no_frame_of_ours(script):
    def closure():
        raise ValueError("of the script")

    with pytest.raises(ValueError, match="of the script") as raised:
        script.marks.marked(closure)()
    assert [frame.name for frame in traceback.extract_tb(raised.tb)][1:] == ["closure"]


def test_a_batch_that_a_script_makes_of_several_of_its_loaders_is_one(script):
    optimizer, batches = Optimizer(CPU), iter(script.loader(2000, 10))
    for _ in zip(batches, batches, strict=True):
        script.forward()
        script.backward()
        script.step(optimizer, ms=5)
    _, parts = script.parts()
    assert parts["step_us"] == 2 + 2 + 3 + 4 + 5


def test_a_network_that_is_called_after_backward_does_not_go_forward_for_the_step(script):
    optimizer = Optimizer(CPU)
    for _ in script.loader(600, 10):
        script.forward()
        script.backward()
        script.step(optimizer, ms=5)
        script.forward(ms=20)
    _, parts = script.parts()
    assert (parts["forward_us"], parts["rest_us"]) == (3, 20)


class Network:
    """Holds two modules: one without weights, and one whose weights are frozen or not."""

    def __init__(self, trains):
        self.weights = [SimpleNamespace(requires_grad=trains)]
        self.parts = [SimpleNamespace(parameters=list), SimpleNamespace(parameters=list)]

    def parameters(self):
        return self.weights

    def modules(self):
        return [self, *self.parts]


@pytest.mark.parametrize(("trains", "forward_ms"), [(True, 3), (False, 3 + 30)])
def test_a_network_that_trains_and_plays_without_gradients_first_does_not_go_forward_for_the_step(
    script, trains, forward_ms
):
    optimizer, network = Optimizer(CPU), Network(trains)
    for _ in script.loader(600, 10):
        with script.no_grad():
            for module in network.modules():
                script.forward(ms=10, network=module)
        script.forward()
        script.backward()
        script.step(optimizer, ms=5)
    _, parts = script.parts()
    assert (parts["forward_us"], parts["rest_us"]) == (forward_ms, 33 - forward_ms)


def test_two_networks_that_step_in_turn_are_both_in_a_step(script):
    critic, generator = Optimizer(CPU), Optimizer(CPU)
    for _ in script.loader(600, 10):
        for optimizer in (critic, generator):
            script.forward()
            script.backward()
            script.step(optimizer, ms=5)
    _, parts = script.parts()
    assert (parts["forward_us"], parts["backward_us"], parts["optimizer_us"]) == (6, 8, 10)


class Loss:
    """A loss that calls its hooks as PyTorch does, where ranks wait at the end of backward."""

    grad_fn = "a graph"

    def __init__(self, script, waits_ms):
        self.script, self.waits_ms = script, waits_ms
        self.hooks, self.at_the_end = [], []
        variable = SimpleNamespace(_execution_engine=self)
        script.torch.autograd = SimpleNamespace(Variable=variable)

    def queue_callback(self, callback):
        self.at_the_end.append(callback)

    def register_hook(self, hook):
        self.hooks.append(hook)
        return SimpleNamespace(remove=lambda: self.hooks.remove(hook))

    def went_backward(self):
        for hook in self.hooks:
            hook(1.0)
        self.script.took(4)
        while self.at_the_end:
            self.at_the_end.pop()()
        self.script.took(self.waits_ms)


@pytest.fixture
def ranks(monkeypatch):
    """Two ranks train together."""
    distributed = SimpleNamespace(
        is_available=lambda: True, is_initialized=lambda: True, get_world_size=lambda: 2
    )
    monkeypatch.setitem(sys.modules, "torch.distributed", distributed)


def test_what_a_rank_waits_for_after_its_own_backward_is_collective(script, ranks):
    optimizer, marks = Optimizer(CPU), script.marks
    loss = Loss(script, waits_ms=30)
    for _ in script.loader(600, 10):
        script.forward()
        began = script.now
        if marks.is_on:
            marks.begin_backward(loss)
        loss.went_backward()
        script.steps.went_backward(CPU, began)
        if marks.is_on:
            marks.end_backward()
        assert not loss.hooks
        script.step(optimizer, ms=5)
    _, parts = script.parts()
    assert (parts["backward_us"], parts["collective_us"], parts["optimizer_us"]) == (4, 30, 5)


def test_a_collective_operation_interrupts_the_part_that_it_is_in(script):
    optimizer, marks = Optimizer(CPU), script.marks

    def all_reduce():
        part = marks.begin_collective()
        script.took(7)
        marks.end_collective(part)

    for _ in script.loader(600, 10):
        script.forward(1)
        # Buffers are sent before the forward pass of a part.
        all_reduce()
        script.took(2)
        script.backward()
        script.took(1)
        all_reduce()
        script.took(1)
        script.steps.step_began(optimizer)
        all_reduce()
        script.took(5)
        script.steps.step_ended(optimizer)
    _, parts = script.parts()
    assert (parts["forward_us"], parts["backward_us"], parts["optimizer_us"]) == (3, 4, 5)
    assert (parts["collective_us"], parts["rest_us"]) == (21, 2)


def test_what_is_no_module_goes_forward_until_backward_begins(script):
    optimizer = Optimizer(CPU)
    for _ in script.loader(600, 10):
        script.took(3)
        script.backward()
        script.step(optimizer)
    _, parts = script.parts()
    assert (parts["forward_us"], parts["rest_us"]) == (3, 0)


def test_a_second_loader_that_is_read_beside_the_first_is_waited_for(script):
    optimizer = Optimizer(CPU)
    both = zip(script.loader(600, 10), script.loader(600, 10, wait_ms=3), strict=True)
    for _ in both:
        script.forward()
        script.backward()
        script.step(optimizer)
    _, parts = script.parts()
    assert (parts["wait_us"], parts["forward_us"], parts["rest_us"]) == (5, 3, 0)


def test_a_step_with_a_validation_in_it_is_none_that_is_measured(script):
    optimizer = Optimizer(CPU)
    for _ in script.loader(600, 10):
        script.forward()
        script.backward()
        with script.no_grad():
            for _ in script.loader(30, 10):
                script.forward()
        script.step(optimizer)
    assert not script.reported().of(StepParts)


def test_a_step_that_was_held_up_counts_in_no_mean(script):
    optimizer, measured = Optimizer(CPU), 0
    for _ in script.loader(4000, 10):
        script.forward()
        script.backward()
        measured += script.marks.is_on
        script.took(5000 if script.marks.is_on and measured in (7, 9) else 0)
        script.step(optimizer)
    _, parts = script.parts()
    assert parts["step_us"] == 10


def test_an_epoch_that_ends_ends_no_step_of_the_next_one(script):
    optimizer = Optimizer(CPU)
    for _ in range(40):
        script.train(optimizer, batches=5)
        script.took(3000)
    _, parts = script.parts()
    assert parts["step_us"] == 17


def test_without_a_call_of_backward_it_says_that_none_was_seen(script):
    optimizer = Optimizer(CPU)
    for _ in script.loader(2000, 10):
        script.took(20)
        script.step(optimizer)
    [record] = script.reported().of(StepParts)
    assert (record.steps, record.why) == (0, {BACKWARD: NOT_BACKWARD})


@pytest.mark.parametrize(
    ("devices", "why"),
    [
        ((CPU, GPU), SEVERAL_DEVICES),
        ((GPU, Device("cuda", 1)), SEVERAL_DEVICES),
        ((Device("mps", 0),), "it is not measured on mps"),
    ],
    ids=["mixed", "two", "unknown"],
)
def test_what_has_no_clock_of_its_own_is_not_measured_by_the_hosts(script, devices, why):
    script.train(Optimizer(*devices))
    records = script.reported().of(StepParts)
    assert [record.why for record in records] == [{BACKWARD: why}]
    assert not any(record.steps for record in records)


def test_loops_of_another_framework_are_not_measured(script):
    reports = LoopReports(script.reporter, clock=lambda: script.now, owner="tensorflow")
    script.steps = StepCounter(reports)
    script.marks = script.steps.marks
    script.train(Optimizer(CPU))
    assert not script.reported().of(StepParts)


# ---- on a GPU ----


@pytest.fixture
def gpu(script):
    return script.torch.cuda


class Array:
    shape, dtype = (10, 3), "float32"

    def __init__(self, **where):
        vars(self).update(where)


ON_HOST = (Array(is_cuda=False),)


def train_on_gpu(script, gpu, batches=200, host_ms=1, batch=ON_HOST):
    """Queue what a GPU takes 30 ms for, in steps that take the script less."""
    optimizer = Optimizer(GPU)
    for _ in script.loader(10 * batches, 10, wait_ms=0):
        script.marks.came(batch) if script.marks.is_on else None
        script.took(host_ms)
        gpu.works(2)
        script.torch.call_module()
        gpu.works(8)
        script.marks.enter(BACKWARD) if script.marks.is_on else None
        gpu.works(14)
        script.steps.went_backward(GPU, script.now)
        script.marks.end_backward() if script.marks.is_on else None
        script.steps.step_began(optimizer)
        gpu.works(5)
        script.steps.step_ended(optimizer)
        gpu.works(1)
        # The GPU is a few steps behind, and no more.
        script.now = max(script.now, gpu.done_ns - 100 * MS)


def test_on_a_gpu_the_parts_are_what_it_worked_at_and_not_when_that_was_queued(script, gpu):
    train_on_gpu(script, gpu)
    script.now = gpu.done_ns
    records, parts = script.parts()
    assert parts["copy_us"] == pytest.approx(2, abs=0.6)
    assert (parts["forward_us"], parts["backward_us"], parts["optimizer_us"]) == (8, 14, 5)
    assert parts["step_us"] == pytest.approx(30, abs=0.6)
    assert all(record.rest_us >= 0 for record in records)
    # Seven events of about four steps a second, in six seconds.
    assert gpu.recorded <= 7 * 4 * 7


@pytest.mark.parametrize(
    ("batch", "copy_ms"),
    [({"x": Array()}, 2), ([Array(is_cuda=True)], None), (["a text"], None), (object(), None)],
    ids=["NumPy", "GPU", "text", "unknown"],
)
def test_only_what_lies_elsewhere_is_copied_to_a_gpu(script, gpu, batch, copy_ms):
    train_on_gpu(script, gpu, batch=batch)
    script.now = gpu.done_ns
    _, parts = script.parts()
    assert parts.get("copy_us") == (copy_ms and pytest.approx(copy_ms, abs=0.6))
    assert parts["rest_us"] == pytest.approx(1 if copy_ms else 3, abs=0.6)


def test_a_gpu_that_does_not_get_on_is_never_waited_for(script, gpu):
    gpu.lag_ns = 1 << 62
    train_on_gpu(script, gpu, batches=2000)
    assert not script.reported().of(StepParts)
    assert gpu.recorded <= 8 * (step_parts.MOST_PENDING + 1)


def test_nothing_is_recorded_into_a_graph(script, gpu):
    train_on_gpu(script, gpu, batches=20)
    gpu.is_capturing, recorded = True, gpu.recorded
    train_on_gpu(script, gpu, batches=100)
    assert gpu.recorded == recorded


def test_a_step_that_changes_its_stream_is_not_measured(script, gpu):
    optimizer = Optimizer(GPU)
    for _ in script.loader(2000, 10):
        gpu.stream = "stream 7"
        script.forward()
        gpu.stream = "stream 8"
        script.backward()
        script.step(optimizer)
        gpu.stream = "stream 7"
    assert not script.reported().of(StepParts)


def test_an_error_of_the_driver_ends_the_measuring_and_counts_every_step(script, gpu, monkeypatch):
    def fail(self, stream):
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    monkeypatch.setattr(gpu.Event, "record", fail)
    train_on_gpu(script, gpu, batches=100)
    reported = script.reported()
    assert sum(batches.count for batches in reported.batches) == 100
    assert not reported.of(StepParts)


# ---- what torch.compile makes ----


class Module:
    def __call__(self, batch):
        if batch is None:
            raise ValueError("there is no batch")
        return batch


class Compiled(Module):
    """Has its call from what it is made of, or its own, as in newer versions."""


class CalledItself(Module):
    def __call__(self, batch):
        return super().__call__(batch)


@pytest.mark.parametrize("kind", [Compiled, CalledItself])
def test_a_compiled_module_says_that_it_computes_and_is_as_it_was_then(script, monkeypatch, kind):
    network, before = kind(), dict(vars(kind))
    monkeypatch.setattr(step_parts, "COMPILED", [kind])
    optimizer = Optimizer(CPU)
    for _ in script.loader(600, 10):
        script.took(1)
        assert network(3) == 3
        assert "__call__" not in vars(network)
        script.took(3)
        script.backward()
        script.step(optimizer)
        assert not script.torch.hooks
    _, parts = script.parts()
    assert (parts["forward_us"], parts["rest_us"]) == (3, 1)
    assert dict(vars(kind)) == before


def test_an_error_in_a_compiled_module_shows_no_frame_of_ours():
    calls = step_parts.Calls(Compiled, lambda *given: None)
    with pytest.raises(ValueError, match="no batch") as caught:
        Compiled()(None)
    calls.remove()
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert {frame.filename for frame in frames} == {__file__}


def test_where_functions_are_compiled_no_hook_is_set_for_all_modules(script):
    step_parts.pauses_of(script.reporter).has_compiled = True
    script.train(Optimizer(CPU))
    _, parts = script.parts()
    assert parts[FORWARD] == 1 + 3


# ---- facts ----


def test_what_an_optimiser_says_of_itself():
    made = facts_of_training(Optimizer(CPU, fused=None))
    assert made == {"device": "cpu", "optimizer": "Optimizer", "fused": False}
    assert facts_of_training(Optimizer(CPU, fused=True))["fused"] is True
    # One that can't be fused has no such option.
    assert "fused" not in facts_of_training(Optimizer(CPU))
    assert facts_of_training(CPU) == {"device": "cpu"}
