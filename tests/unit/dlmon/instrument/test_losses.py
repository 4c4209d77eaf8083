"""The loss that a PyTorch script goes backward from, with tensors and optimisers of our own."""

import math
import sys
from types import SimpleNamespace

import pytest
from fakes.loops import KeptReporter

from dlmon.instrument.pytorch import (
    losses_of,
    watch_backward,
    watch_clipping,
    watch_optimizers,
    watch_scalers,
)
from dlmon.instrument.queued import MetricsRead


class Tensor:
    """A number, on a device."""

    def __init__(self, value, device="cpu", size=1):
        self.value, self.size = value, size
        self.device = SimpleNamespace(type=device)
        self.is_cpu, self.is_cuda = device == "cpu", device == "cuda"

    def numel(self):
        return self.size

    def item(self):
        return self.value

    def detach(self):
        return self

    def to(self, device=None, **how):
        return Tensor(self.value, device or self.device.type)

    def __add__(self, other):
        return Tensor(self.value + other.value, self.device.type)

    def __sub__(self, other):
        return Tensor(self.value - other.value, self.device.type)

    def backward(self, gradient=None, inputs=None):
        autograd.backward(self, gradient, inputs=inputs)


autograd = SimpleNamespace()


def go_backward(tensor, gradients=None, inputs=None):
    if tensor.value == "broken":
        raise ValueError("of the script's own")


class Optimizer:
    """Steps as PyTorch's do: the hooks around whatever a closure computes."""

    hooks = SimpleNamespace(before=[], after=[])

    def step(self, closure=None):
        for hook in self.hooks.before:
            hook(self, (), {})
        if closure is not None:
            closure()
        for hook in self.hooks.after:
            hook(self, (), {})

    def zero_grad(self):
        """Nothing has gradients here."""


class GradScaler:
    def __init__(self, factor=1024.0):
        self.factor = factor

    def scale(self, outputs):
        return outputs if self.factor == 1 else Tensor(outputs.value * self.factor)


class Reports(KeptReporter):
    """A monitor that listens, and the losses that it was sent."""

    def __init__(self):
        super().__init__()
        self.reads.is_due = True
        self.losses = []

    def send_metrics(self, t, values):
        self.reads.is_due = False
        self.losses.append(float(values["loss"]))
        self.send(MetricsRead(t, values))


@pytest.fixture
def script(monkeypatch):
    """Return what a script imports, watched: `Tensor`, `Optimizer`, `GradScaler`; and reports."""
    done = SimpleNamespace(capturing=False)

    class Event:
        def record(self, stream):
            """Nothing is queued here."""

        def query(self):
            return True

    cuda = SimpleNamespace(
        Event=Event,
        current_stream=lambda device: None,
        is_current_stream_capturing=lambda: done.capturing,
    )
    module = SimpleNamespace(cuda=cuda, float64="float64", is_grad_enabled=lambda: True)
    monkeypatch.setitem(sys.modules, "torch", module)
    watched = SimpleNamespace(
        reporter=Reports(),
        gpu=done,
        Tensor=type("Tensor", (Tensor,), {}),
        Optimizer=type("Optimizer", (Optimizer,), {"zero_grad": Optimizer.zero_grad}),
        GradScaler=type("GradScaler", (GradScaler,), {"scale": GradScaler.scale}),
    )
    monkeypatch.setattr(
        GradScaler,
        "scale",
        lambda scaler, outputs: (
            outputs if scaler.factor == 1 else watched.Tensor(outputs.value * scaler.factor)
        ),
    )
    watched.GradScaler.scale = GradScaler.scale
    hooks = watched.Optimizer.hooks = SimpleNamespace(before=[], after=[])
    optimizers = SimpleNamespace(
        register_optimizer_step_pre_hook=hooks.before.append,
        register_optimizer_step_post_hook=hooks.after.append,
        Optimizer=watched.Optimizer,
    )
    module.Tensor, autograd.backward = watched.Tensor, go_backward
    watch_backward(autograd, watched.reporter)
    watch_optimizers(optimizers, watched.reporter)
    watch_scalers(SimpleNamespace(GradScaler=watched.GradScaler), watched.reporter)
    return watched


def trained(script, *values, optimizer=None, device="cpu"):
    """Train so many batches, and return what was read of their losses."""
    optimizer = optimizer or script.Optimizer()
    for value in values:
        optimizer.zero_grad()
        script.Tensor(value, device).backward()
        optimizer.step()
    return script.reporter.losses


def epoch_loss(script):
    """Return what the epoch that ends comes to; another one begins."""
    losses = losses_of(script.reporter)
    known = losses.end_epoch().metrics
    losses.begin_epoch()
    return float(known["loss"]) if known else None


def test_what_is_read_is_the_mean_of_all_steps_since_the_last_time(script):
    optimizer = script.Optimizer()
    assert trained(script, 0.5, 0.4, 0.2, optimizer=optimizer) == [0.5]
    script.reporter.reads.is_due = True
    assert trained(script, 0.3, 0.1, optimizer=optimizer) == [0.5, pytest.approx(0.3)]


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_an_epoch_with_a_loss_that_is_no_number_has_none(script, device):
    losses_of(script.reporter).begin_epoch()
    trained(script, 4.0, math.nan, 2.0, device=device)
    ended = losses_of(script.reporter).end_epoch()
    assert math.isnan(float(ended.metrics["loss"]))


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_what_is_left_over_at_the_end_of_an_epoch_is_of_the_next_ones_first_step(script, device):
    optimizer, losses = script.Optimizer(), losses_of(script.reporter)
    losses.begin_epoch()
    trained(script, 4.0, 2.0, optimizer=optimizer, device=device)
    script.Tensor(0.25, device).backward()
    first = epoch_loss(script)
    script.Tensor(0.5, device).backward()
    optimizer.step()
    assert (first, epoch_loss(script)) == (3.0, 0.75)


def test_an_epoch_whose_loss_the_framework_says_has_none_of_ours(script):
    losses_of(script.reporter).begin_epoch()
    trained(script, 4.0, device="cuda")
    ended = losses_of(script.reporter).end_epoch()
    ended.is_told = True
    assert ended.metrics == {}


def test_an_epoch_some_of_whose_losses_were_missed_has_none(script):
    optimizer, scaler, losses = script.Optimizer(), script.GradScaler(), losses_of(script.reporter)
    losses.begin_epoch()
    scaler.scale(script.Tensor(0.5)).backward()
    optimizer.step()
    script.Tensor(8.0).backward()
    optimizer.step()
    assert losses.end_epoch().metrics == {}
    losses.begin_epoch()
    scaler.scale(script.Tensor(0.25)).backward()
    optimizer.step()
    assert losses.end_epoch().metrics == {"loss": 0.25}


def test_the_optimizer_that_steps_first_in_an_epoch_is_followed_there(script):
    one, other = script.Optimizer(), script.Optimizer()
    losses_of(script.reporter).begin_epoch()
    trained(script, 0.5, optimizer=one)
    trained(script, 9.0, optimizer=other)
    assert epoch_loss(script) == 0.5
    trained(script, 7.0, optimizer=other)
    assert epoch_loss(script) == 7.0


def test_gradients_that_are_thrown_away_have_no_part_in_it(script):
    optimizer = script.Optimizer()
    optimizer.step()
    script.Tensor(7.0).backward()
    optimizer.zero_grad()
    script.Tensor(0.5).backward()
    optimizer.step()
    assert script.reporter.losses == [0.5]


def test_a_gpu_whose_work_is_recorded_is_left_alone(script):
    script.gpu.capturing = True
    assert trained(script, 0.5, 0.4, 0.3, device="cuda") == []
    script.gpu.capturing = False
    assert trained(script, 0.5, 0.4, 0.3, device="cuda") != []


@pytest.mark.parametrize("why", ["deepspeed", "xla", "keras", "script"])
def test_where_something_else_knows_it_or_to_ask_would_compute_no_loss_is_read(
    script, monkeypatch, why
):
    if why == "deepspeed":
        monkeypatch.setitem(sys.modules, why, SimpleNamespace())
    elif why == "keras":
        script.reporter.take(why)
    elif why == "script":
        script.reporter.reads.are_reported = True
    assert trained(script, 0.5, 0.4, 0.3, device="xla" if why == "xla" else "cpu") == []


def test_an_error_of_ours_ends_the_reading_alone(script):
    optimizer = script.Optimizer()
    assert trained(script, "text", 0.5, 0.3, optimizer=optimizer) == []
    script.reporter.reads.is_due = True
    assert trained(script, 0.5, 0.4, optimizer=optimizer) == []
    assert losses_of(script.reporter).end_epoch().metrics == {}
    assert script.reporter.is_on


def test_an_error_of_the_scripts_reaches_it_without_a_frame_of_ours(script):
    optimizer = script.Optimizer()
    optimizer.step()
    with pytest.raises(ValueError, match="own") as caught:
        script.Tensor("broken", "xla").backward()
    names = [frame.name for frame in caught.traceback]
    assert names == [caught.traceback[0].name, "backward", "go_backward"]


def metrics_read(script):
    return [item.metrics for item in script.reporter.queue if isinstance(item, MetricsRead)]


def clipping(script, norm, is_compiling=False):
    """Return PyTorch's module of what clips gradients, watched."""
    torch = SimpleNamespace(
        Tensor=script.Tensor, compiler=SimpleNamespace(is_compiling=lambda: is_compiling)
    )

    def clip_grad_norm_(parameters, max_norm):
        if norm is None:
            raise RuntimeError("The total norm is non-finite")
        return norm

    module = SimpleNamespace(torch=torch, clip_grad_norm_=clip_grad_norm_)
    watch_clipping(module, script.reporter)
    return module.clip_grad_norm_


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_the_learning_rate_and_the_norm_are_read_with_the_loss(script, device):
    norm = script.Tensor(2.5, device)
    clip, optimizer = clipping(script, norm), script.Optimizer()
    optimizer.param_groups = [{"lr": 0.1}, {"lr": 0.2}]
    script.Tensor(0.5, device).backward()
    assert clip([], 1.0) is norm
    optimizer.step()
    (values,) = metrics_read(script)
    assert (float(values["loss"]), values["learning_rate"]) == (0.5, 0.1)
    assert device == "cpu" or (values["loss"].is_there(), float(values["grad_norm"])) == (True, 2.5)


def test_where_there_is_no_norm_or_no_rate_none_is_read(script):
    optimizer = script.Optimizer()
    optimizer.param_groups = []
    with pytest.raises(RuntimeError, match="non-finite"):
        clipping(script, None)([], 1.0)
    clipping(script, 0.5)([], 1.0)
    clipping(script, script.Tensor(0.5), is_compiling=True)([], 1.0)
    assert trained(script, 0.5, optimizer=optimizer) == [0.5]
    assert metrics_read(script) == [{"loss": 0.5}]
    assert losses_of(script.reporter).read_names == set()


def test_a_norm_counts_for_the_step_after_it_alone(script):
    optimizer = script.Optimizer()
    clipping(script, script.Tensor(2.5))([], 1.0)
    trained(script, 0.5, optimizer=optimizer)
    script.reporter.reads.is_due = True
    trained(script, 0.5, optimizer=optimizer)
    first, second = metrics_read(script)
    assert ("grad_norm" in first, "grad_norm" in second) == (True, False)
