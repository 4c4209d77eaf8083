"""The loss that a PyTorch script goes backward from, with tensors and optimisers of our own."""

import sys
from types import SimpleNamespace

import pytest
from fakes.loops import KeptReporter

from dlmon.instrument.losses import GIVEN_UP_AFTER, Losses, around_backward
from dlmon.instrument.pytorch import losses_of, watch_losses, watch_optimizers, watch_scalers
from dlmon.instrument.queued import MetricsRead


class Tensor:
    """A number, on a device."""

    def __init__(self, value, device="cpu", size=1):
        self.value, self.size = value, size
        self.device = SimpleNamespace(type=device)
        self.went_backward = 0

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

    def backward(self, gradient=None, inputs=None):
        self.went_backward += 1
        if self.value == "broken":
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
        self.losses.append(values["loss"])
        self.send(MetricsRead(t, values))


@pytest.fixture
def script(monkeypatch):
    """Return what a script imports, watched: `Tensor`, `Optimizer`, `GradScaler`; and reports."""
    done = SimpleNamespace(copies=True, capturing=False)

    class Event:
        def record(self, stream):
            """Nothing is queued here."""

        def query(self):
            return done.copies

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
        Tensor=type("Tensor", (Tensor,), {"backward": Tensor.backward}),
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
    watch_losses(SimpleNamespace(Tensor=watched.Tensor), watched.reporter)
    watch_optimizers(optimizers, watched.reporter)
    watch_scalers(SimpleNamespace(GradScaler=watched.GradScaler), watched.reporter)
    return watched


def trained(script, *values, optimizer=None, device="cpu"):
    """Train so many batches, and return the losses that were read."""
    optimizer = optimizer or script.Optimizer()
    for value in values:
        optimizer.zero_grad()
        script.Tensor(value, device).backward()
        optimizer.step()
    return script.reporter.losses


def test_the_loss_of_a_whole_step_is_read(script):
    # The first step ends what nobody knows the beginning of.
    assert trained(script, 0.5, 0.4, 0.3) == [0.4]


def test_no_loss_is_read_before_the_next_is_due(script):
    optimizer = script.Optimizer()
    assert trained(script, 0.5, 0.4, *[0.3] * 20, optimizer=optimizer) == [0.4]
    script.reporter.reads.is_due = True
    assert trained(script, 0.2, 0.1, optimizer=optimizer) == [0.4, 0.1]


def test_gradients_that_are_added_up_make_one_loss(script):
    optimizer = script.Optimizer()
    optimizer.step()
    for part in (0.25, 0.5, 0.125):
        script.Tensor(part).backward()
    optimizer.step()
    assert script.reporter.losses == [0.875]


def test_gradients_that_are_thrown_away_have_no_part_in_it(script):
    optimizer = script.Optimizer()
    optimizer.step()
    script.Tensor(7.0).backward()
    optimizer.zero_grad()
    script.Tensor(0.5).backward()
    optimizer.step()
    assert script.reporter.losses == [0.5]


def test_gradients_of_inputs_alone_have_no_part_in_it(script):
    optimizer = script.Optimizer()
    optimizer.step()
    script.Tensor(7.0).backward(inputs=[script.Tensor(1.0)])
    script.Tensor(7.0).backward(script.Tensor(1.0))
    script.Tensor(7.0, size=3).backward()
    script.Tensor(0.5).backward()
    optimizer.step()
    assert script.reporter.losses == [0.5]


def test_of_what_an_optimizer_computes_itself_the_first_counts(script):
    """As of L-BFGS, which computes the loss many times in a step, and returns the first."""
    optimizer = script.Optimizer()
    optimizer.step()

    def closure():
        for value in (0.5, 0.4, 0.3):
            optimizer.zero_grad()
            script.Tensor(value).backward()

    optimizer.step(closure)
    assert script.reporter.losses == [0.5]


def test_a_loss_is_read_as_it_was_before_it_was_scaled(script):
    optimizer, scaler = script.Optimizer(), script.GradScaler()
    for value in (0.5, 0.4):
        scaler.scale(script.Tensor(value)).backward()
        optimizer.step()
    assert script.reporter.losses == [0.4]


def test_a_loss_that_was_scaled_by_nobody_knows_what_is_not_read(script):
    optimizer, scaler = script.Optimizer(), script.GradScaler()
    for value in (0.5, 0.4):
        scaler.scale(script.Tensor(value))
        script.Tensor(value * 77).backward()
        optimizer.step()
    assert script.reporter.losses == []


def test_a_scaler_that_is_off_changes_nothing(script):
    optimizer, scaler = script.Optimizer(), script.GradScaler(1)
    for value in (0.5, 0.4):
        scaler.scale(script.Tensor(value)).backward()
        optimizer.step()
    assert script.reporter.losses == [0.4]


def test_a_library_that_scales_losses_itself_is_not_read(script, monkeypatch):
    monkeypatch.setitem(sys.modules, "deepspeed", SimpleNamespace())
    assert trained(script, 0.5, 0.4, 0.3) == []


def test_of_two_optimizers_the_first_is_followed(script):
    one, other = script.Optimizer(), script.Optimizer()
    for number in range(8):
        trained(script, 0.5, optimizer=one)
        # The next may become due between the steps of the two.
        script.reporter.reads.is_due |= number % 4 == 3
        trained(script, 9.0, optimizer=other)
        script.reporter.reads.is_due |= number % 4 == 1
    assert len(script.reporter.losses) >= 3
    assert set(script.reporter.losses) == {0.5}


def test_an_optimizer_that_steps_no_more_is_followed_no_more(script):
    one, other = script.Optimizer(), script.Optimizer()
    trained(script, 0.5, 0.5, optimizer=one)
    script.reporter.reads.is_due = True
    trained(script, *[9.0] * (GIVEN_UP_AFTER + 3), optimizer=other)
    assert script.reporter.losses == [0.5, 9.0]


def test_a_gpu_is_looked_at_once_it_is_done(script):
    optimizer = script.Optimizer()
    script.gpu.copies = False
    assert trained(script, 0.5, 0.4, 0.3, optimizer=optimizer, device="cuda") == []
    script.gpu.copies = True
    assert trained(script, 0.2, optimizer=optimizer, device="cuda") == [0.4]


def test_a_gpu_whose_work_is_recorded_is_left_alone(script):
    script.gpu.capturing = True
    assert trained(script, 0.5, 0.4, 0.3, device="cuda") == []
    script.gpu.capturing = False
    assert trained(script, 0.5, 0.4, 0.3, device="cuda") != []


def test_a_device_that_computes_when_asked_is_not_asked(script):
    assert trained(script, 0.5, 0.4, 0.3, device="xla") == []


def test_keras_says_its_own(script):
    script.reporter.take("keras")
    assert trained(script, 0.5, 0.4, 0.3) == []


def test_a_script_that_tells_its_loss_is_believed(script):
    script.reporter.reads.are_reported = True
    assert trained(script, 0.5, 0.4, 0.3) == []


def test_an_error_of_ours_ends_the_reading_alone(script):
    optimizer = script.Optimizer()
    assert trained(script, 0.5, None, 0.3, optimizer=optimizer) == []
    script.reporter.reads.is_due = True
    assert trained(script, 0.5, 0.4, optimizer=optimizer) == []
    assert script.reporter.is_on


def test_an_error_of_the_scripts_reaches_it_without_a_frame_of_ours(script):
    optimizer = script.Optimizer()
    optimizer.step()
    with pytest.raises(ValueError, match="own") as caught:
        script.Tensor("broken", "xla").backward()
    assert [frame.name for frame in caught.traceback] == [caught.traceback[0].name, "backward"]
    assert not losses_of(script.reporter).goes_backward


def test_what_goes_backward_within_is_not_read():
    reporter = Reports()
    losses = Losses(reporter)
    inner = around_backward(lambda tensor, *more: None, losses, lambda t: True)
    outer = around_backward(lambda tensor, *more: inner(Tensor(9.0)), losses, lambda tensor: True)
    optimizer = Optimizer()
    losses.stepped(optimizer)
    outer(Tensor(0.5))
    losses.stepped(optimizer)
    assert reporter.losses == [0.5]
