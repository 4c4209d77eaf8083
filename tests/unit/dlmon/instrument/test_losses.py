"""The loss that a PyTorch script goes backward from, with tensors of our own."""

import math
import sys
from types import SimpleNamespace

import pytest
from fakes.loops import KeptReporter, Optimizer

from dlmon.instrument.pytorch import steps_of, watch_backward, watch_clipping


class Tensor:
    """A number, on a device."""

    def __init__(self, value, device="cpu"):
        self.value, self.device = value, SimpleNamespace(type=device)
        self.is_cpu, self.is_cuda = device == "cpu", device == "cuda"

    def numel(self):
        return 1

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


class Reports(KeptReporter):
    """A monitor that listens, and the metrics that it was sent."""

    def __init__(self):
        super().__init__()
        self.reads.is_due = True
        self.read = []

    def send_metrics(self, t, values):
        self.reads.is_due = False
        self.read.append({name: float(value) for name, value in values.items()})

    @property
    def losses(self):
        return [values["loss"] for values in self.read]


@pytest.fixture
def torch(monkeypatch):
    """Return PyTorch, as far as it is asked; `is_recorded` says that a GPU's work is recorded."""

    class Event:
        def record(self, stream):
            """Nothing is queued here."""

        def query(self):
            return True

    torch = SimpleNamespace(is_recorded=False, Tensor=Tensor, float64="float64")
    torch.zeros_like = lambda tensor: Tensor(0.0, tensor.device.type)
    torch.isfinite = lambda tensor: math.isfinite(tensor.value)
    torch.where = lambda holds, one, other: one if holds else other
    torch.compiler = SimpleNamespace(is_compiling=lambda: False)
    torch.cuda = SimpleNamespace(
        Event=Event,
        current_stream=lambda device: None,
        is_current_stream_capturing=lambda: torch.is_recorded,
    )
    monkeypatch.setitem(sys.modules, "torch", torch)
    return torch


@pytest.fixture
def reporter():
    return Reports()


@pytest.fixture
def losses(torch, reporter):
    losses = steps_of(reporter).reports.losses
    losses.begin_epoch()
    return losses


def train(losses, *values, optimizer, device="cpu"):
    for value in values:
        losses.zeroed()
        losses.went_backward(Tensor(value, device))
        losses.stepped(optimizer)


def epoch_loss(losses):
    """Return what the epoch that ends comes to; another one begins."""
    known = losses.end_epoch().metrics
    losses.begin_epoch()
    return float(known["loss"]) if known else None


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_what_is_read_is_the_mean_of_all_steps_since_the_last_time(losses, reporter, device):
    optimizer = Optimizer()
    train(losses, 0.5, 0.4, 0.2, optimizer=optimizer, device=device)
    reporter.reads.is_due = True
    train(losses, 0.3, 0.1, optimizer=optimizer, device=device)
    assert reporter.losses == [0.5, pytest.approx(0.3)]
    assert epoch_loss(losses) == pytest.approx(0.3)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_what_is_left_over_at_the_end_of_an_epoch_is_of_the_next_ones_first_step(losses, device):
    optimizer = Optimizer()
    train(losses, 4.0, 2.0, optimizer=optimizer, device=device)
    losses.went_backward(Tensor(0.25, device))
    first = epoch_loss(losses)
    losses.went_backward(Tensor(0.5, device))
    losses.stepped(optimizer)
    assert (first, epoch_loss(losses)) == (3.0, 0.75)


def test_what_was_scaled_is_read_as_it_was_and_an_epoch_that_misses_a_loss_has_none(losses):
    optimizer = Optimizer()
    for values in ([0.5, 0.25], [0.5, None], [0.25, 0.75]):
        for value in values:
            loss, scaled = Tensor(value or 9.0), Tensor((value or 9.0) * 1024)
            losses.scaled(loss, scaled)
            # What the script makes of it before it goes backward is not known.
            losses.went_backward(scaled if value else Tensor(77.0))
            losses.stepped(optimizer)
    assert epoch_loss(losses) is None
    losses.scaled(loss, scaled)
    losses.went_backward(scaled)
    losses.stepped(optimizer)
    assert epoch_loss(losses) == 0.75


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("unusual", [math.inf, -math.inf, math.nan])
def test_a_loss_that_is_no_finite_number_is_not_left_out_where_a_scaler_skips_its_step(
    losses, device, unusual
):
    optimizer = Optimizer()

    def train_scaled(*values):
        for value in values:
            losses.zeroed()
            loss, scaled = Tensor(value, device), Tensor(value * 1024, device)
            losses.scaled(loss, scaled)
            losses.went_backward(scaled)
            if math.isfinite(value):
                losses.stepped(optimizer)

    train_scaled(0.5, unusual, 0.25)
    assert str(epoch_loss(losses)) == str(unusual)
    train_scaled(0.5, 0.25)
    assert epoch_loss(losses) == 0.375
    # Its gradients alone overflowed: the step is skipped, and its loss with it.
    losses.zeroed()
    losses.scaled(loss := Tensor(9.0, device), scaled := Tensor(9216.0, device))
    assert loss is not scaled
    losses.went_backward(scaled)
    train_scaled(0.5)
    assert epoch_loss(losses) == 0.5


def test_an_infinite_epoch_leaves_what_is_of_the_next_one_as_it_is(losses):
    optimizer = Optimizer()
    train(losses, math.inf, 0.5, optimizer=optimizer)
    losses.went_backward(Tensor(0.75))
    assert epoch_loss(losses) == math.inf
    losses.stepped(optimizer)
    assert epoch_loss(losses) == 0.75


def test_the_optimizer_that_steps_first_in_an_epoch_is_followed_there(losses, reporter):
    one, other = Optimizer(), Optimizer()
    train(losses, 0.5, optimizer=one)
    reporter.reads.is_due = True
    train(losses, 9.0, optimizer=other)
    train(losses, 0.25, optimizer=one)
    assert epoch_loss(losses) == 0.375
    train(losses, 7.0, optimizer=other)
    assert epoch_loss(losses) == 7.0
    assert reporter.losses == [0.5, 0.25]


def test_of_what_an_optimizer_computes_itself_the_first_counts(losses):
    """As of L-BFGS, which computes the loss many times in a step, and returns the first."""
    losses.is_within_step = True
    for value in (0.5, 0.4, 0.3):
        losses.zeroed()
        losses.went_backward(Tensor(value))
    losses.stepped(Optimizer())
    assert epoch_loss(losses) == 0.5


@pytest.mark.parametrize("why", ["deepspeed", "xla", "keras", "script", "error", "recorded"])
def test_where_something_else_knows_it_or_to_ask_would_compute_no_loss_is_read(
    losses, torch, reporter, monkeypatch, why
):
    if why == "deepspeed":
        monkeypatch.setitem(sys.modules, why, SimpleNamespace())
    elif why == "keras":
        reporter.take(why)
    elif why == "script":
        reporter.reads.are_reported = True
    torch.is_recorded = why == "recorded"
    device = {"xla": "xla", "recorded": "cuda"}.get(why, "cpu")
    optimizer, first = Optimizer(), ["text"] if why == "error" else []
    for value in [*first, 0.5, 0.4, 0.3]:
        if losses.is_reading:
            train(losses, value, optimizer=optimizer, device=device)
    assert reporter.losses == []
    assert reporter.is_on


def test_an_error_of_the_scripts_reaches_it_without_a_frame_of_ours(losses, reporter):
    def backward(tensors, gradients=None):
        raise ValueError("of the script's own")

    autograd = SimpleNamespace(backward=backward, grad=None)
    watch_backward(autograd, reporter)
    with pytest.raises(ValueError, match="own") as caught:
        autograd.backward(Tensor("broken", "xla"))
    assert [frame.name for frame in caught.traceback] == [caught.traceback[0].name, "backward"]


def test_an_error_of_ours_as_it_goes_backward_reaches_no_script(losses, reporter, monkeypatch):
    autograd = SimpleNamespace(backward=lambda tensors, gradients=None: "gone", grad=None)
    watch_backward(autograd, reporter)
    marks = steps_of(reporter).marks
    for name in ("enter", "end_backward"):
        monkeypatch.setattr(marks, name, lambda *arguments: 1 / 0)
    monkeypatch.setattr(marks, "is_of_this_thread", lambda: True)
    marks.is_on = True
    assert [autograd.backward(Tensor(1.0)), autograd.backward(tensors=Tensor(1.0))] == ["gone"] * 2
    assert not reporter.is_on


def clipping(torch, reporter, norm):
    """Return PyTorch's function that clips gradients, watched."""
    module = SimpleNamespace(torch=torch, clip_grad_norm_=lambda parameters, most: norm)
    watch_clipping(module, reporter)
    return module.clip_grad_norm_


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_the_learning_rate_and_the_norm_before_a_step_are_read_with_the_loss(
    losses, torch, reporter, device, monkeypatch
):
    monkeypatch.setattr(Tensor, "__float__", lambda tensor: tensor.value, raising=False)
    optimizer = Optimizer()
    optimizer.param_groups = [{"lr": 0.1}, {"lr": 0.2}]
    norm = Tensor(2.5, device)
    assert clipping(torch, reporter, norm)([], 1.0) is norm
    train(losses, 0.5, optimizer=optimizer, device=device)
    optimizer.param_groups, reporter.reads.is_due = [], True
    torch.compiler.is_compiling = lambda: True
    clipping(torch, reporter, norm)([], 1.0)
    train(losses, 0.5, optimizer=optimizer, device=device)
    assert reporter.read == [{"loss": 0.5, "learning_rate": 0.1, "grad_norm": 2.5}, {"loss": 0.5}]
    assert losses.read_names == {"learning_rate", "grad_norm"}
