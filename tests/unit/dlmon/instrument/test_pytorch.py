"""The hooks on classes that look like PyTorch's; real ones are watched in tests/e2e/frameworks."""

import sys
import traceback
from types import SimpleNamespace

import numpy as np
import pytest
from fakes.loops import KeptReporter, Reported

from dlmon.instrument.collector import BatchCollector
from dlmon.instrument.pytorch import steps_of, watch_loaders, watch_memory, watch_optimizers
from dlmon.instrument.trainers import watch_lightning, watch_transformers
from dlmon.records import Evaluation, OutOfMemory, TokenShares


class Batch:
    """An array, as far as its first size is asked for."""

    __array__ = None

    def __init__(self, size):
        self.shape = (size, 2)


@pytest.fixture
def torch(monkeypatch):
    """Return modules of a PyTorch whose loaders give two batches of three samples."""
    state = SimpleNamespace(gradients=True, raises=None)
    module = SimpleNamespace(__version__="2.0", is_grad_enabled=lambda: state.gradients)
    monkeypatch.setitem(sys.modules, "torch", module)

    class _BaseDataLoaderIter:
        def __init__(self, loader):
            self._reset(loader, first_iter=True)

        def _reset(self, loader, first_iter=False):
            self.left = [3, 3]

        def __iter__(self):
            return self

        def __next__(self):
            if state.raises:
                raise state.raises
            if not self.left:
                raise StopIteration
            return [Batch(self.left.pop())]

    class DataLoader:
        batch_size, drop_last = 3, False

        def __init__(self):
            self.batch_sampler = [[0, 1, 2], [3, 4, 5]]

        def __iter__(self):
            return _BaseDataLoaderIter(self)

    hooks = SimpleNamespace(before=[], after=[])
    return SimpleNamespace(
        state=state,
        loaders=SimpleNamespace(DataLoader=DataLoader, _BaseDataLoaderIter=_BaseDataLoaderIter),
        hooks=hooks,
        optimizers=SimpleNamespace(
            register_optimizer_step_pre_hook=hooks.before.append,
            register_optimizer_step_post_hook=hooks.after.append,
            Optimizer=type(
                "Optimizer",
                (),
                {"__init__": lambda optimizer: None, "zero_grad": lambda optimizer: None},
            ),
        ),
    )


class Optimizer:
    def __init__(self, hooks):
        self.hooks = hooks

    def step(self):
        for hook in (*self.hooks.before, *self.hooks.after):
            hook(self, (), {})


@pytest.fixture
def reporter():
    return KeptReporter()


def test_what_can_not_be_called_is_no_closure(torch, reporter, monkeypatch):
    said, optimizer = [], object()
    counter = steps_of(reporter)
    monkeypatch.setattr(counter, "step_began", lambda _, has_closure: said.append(has_closure))
    watch_optimizers(torch.optimizers, reporter)
    [before] = torch.hooks.before
    counter.marks.is_on = True
    # An optimizer may take its direction first, and must get it as it is.
    for given in (None, [0.1]):
        assert before(optimizer, (optimizer, given), {}) is None
        assert before(optimizer, (optimizer,), {"closure": given}) is None
    before(optimizer, (optimizer, print), {})
    before(optimizer, (optimizer,), {"closure": print})
    before(optimizer, (optimizer,), {})
    assert said == [False, False, False, False, True, True, False]


@pytest.fixture
def watched(torch, reporter):
    watch_loaders(torch.loaders, reporter)
    watch_optimizers(torch.optimizers, reporter)
    return torch


def reported(reporter):
    reporter.close()
    collector = BatchCollector()
    collector.take(reporter.queue)
    return Reported(list(collector.records(finish=True)))


def test_an_error_of_the_scripts_own_shows_no_frame_of_ours(watched):
    batches = iter(watched.loaders.DataLoader())
    watched.state.raises = ValueError("the sample can't be read")
    with pytest.raises(ValueError, match="can't be read") as caught:
        next(batches)
    files = [frame.filename for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert files == [__file__, __file__]


@pytest.mark.parametrize("method", ["fetch", "fetched", "step_began", "step_ended", "new"])
def test_an_error_of_our_own_does_not_reach_the_script(torch, reporter, monkeypatch, method):
    def fail(*arguments, **named):
        raise RuntimeError("ours")

    monkeypatch.setattr(steps_of(reporter), method, fail)
    watch_loaders(torch.loaders, reporter)
    watch_optimizers(torch.optimizers, reporter)
    optimizer = Optimizer(torch.hooks)
    sizes = []
    for batch in torch.loaders.DataLoader():
        sizes.append(batch[0].shape[0])
        optimizer.step()
    assert sizes == [3, 3]
    assert not reporter.is_on


class OnGpu:
    """A tensor that would have to be waited for."""

    shape, dtype, is_cpu = (3, 4), "torch.int64", False
    __array__ = __hash__ = None

    def __ne__(self, other):
        raise AssertionError("it was waited for")


@pytest.mark.parametrize("moves", [False, True], ids=["on the CPU", "put on a GPU"])
def test_a_batch_is_looked_into_once_a_second_before_a_loader_puts_it_on_a_gpu(
    torch, reporter, moves
):
    ids, labels = np.ones((3, 4), np.int64), np.full((3, 4), -100)
    labels[:, 2:] = 1
    base = torch.loaders._BaseDataLoaderIter
    following = base.__next__

    def give(iterator):
        following(iterator)
        return {"input_ids": ids, "attention_mask": np.tri(3, 4), "labels": labels}

    base.__next__ = give
    watch_loaders(torch.loaders, reporter)
    watch_optimizers(torch.optimizers, reporter)

    class Moving(torch.loaders.DataLoader):
        """As Accelerate's is."""

        def __iter__(self):
            for batch in base(self):
                yield dict.fromkeys(batch, OnGpu()) if moves else batch

    optimizer = Optimizer(torch.hooks)
    for _ in Moving():
        reporter.reads.are_shares_due = True
        optimizer.step()
    # Of a validation none is.
    torch.state.gradients = False
    for _ in Moving():
        assert reporter.reads.are_shares_due
    process = reported(reporter)
    assert [epoch.tokens for epoch in process.epochs][:1] == [24]
    [shares] = process.of(TokenShares)
    assert (shares.tokens, shares.not_padding, shares.trained_on) == (12, 6, 6)


class Network:
    def parameters(self):
        return [SimpleNamespace(numel=lambda: 5), SimpleNamespace(numel=lambda: 7)]


@pytest.mark.parametrize(
    ("task", "event"),
    [("test", "on_test"), ("validate", "on_validation"), ("fit", "on_validation")],
)
def test_what_lightning_tests_beside_a_fit_is_an_evaluation(watched, reporter, task, event):
    module = SimpleNamespace(_call_callback_hooks=lambda trainer, event: None)
    watch_lightning(module, reporter)
    trainer = SimpleNamespace(
        state=SimpleNamespace(fn=task),
        _logger_connector=SimpleNamespace(_callback_metrics={"some_loss": 0.25}),
    )
    watched.state.gradients = False
    module._call_callback_hooks(trainer, f"{event}_start")
    for _ in range(2):
        # Lightning asks for no more batches than there are.
        check = iter(watched.loaders.DataLoader())
        next(check), next(check)
    module._call_callback_hooks(trainer, f"{event}_end")
    found = [
        (one.steps, one.samples, one.metrics, one.whole)
        for one in reported(reporter).of(Evaluation)
    ]
    assert found == ([] if task == "fit" else [(4, 12, {"some_loss": 0.25}, True)])


@pytest.mark.parametrize(("epoch", "left"), [(0, 5), (2.0, 3), (2.85, 3), (None, 5)])
def test_a_trainer_that_goes_on_from_a_checkpoint_has_the_epochs_left_that_are_to_come(
    watched, reporter, epoch, left
):
    class CallbackHandler:
        model = Network()

        def call_event(self, event, args, state, control, **named):
            return event

    watch_transformers(SimpleNamespace(CallbackHandler=CallbackHandler), reporter)
    state = SimpleNamespace(num_train_epochs=5, max_steps=9, epoch=epoch)
    CallbackHandler().call_event("on_train_begin", None, state, None)
    optimizer = Optimizer(watched.hooks)
    for _ in watched.loaders.DataLoader():
        optimizer.step()
    assert [model.epochs for model in reported(reporter).models] == [left]


@pytest.fixture
def error(watched, reporter, monkeypatch):
    """Return the error of a PyTorch that says that memory ran out, watched."""
    kind = type("OutOfMemoryError", (RuntimeError,), {})
    monkeypatch.setitem(sys.modules, "torch._C", SimpleNamespace(OutOfMemoryError=kind))
    watch_memory(SimpleNamespace(), reporter)
    return kind


def noted(reporter):
    return [one for one in reported(reporter).records if isinstance(one, OutOfMemory)]


OUT = "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has 1 GiB."


def test_an_error_that_is_made_again_for_another_thread_counts_once(watched, reporter, error):
    optimizer = Optimizer(watched.hooks)
    for _ in watched.loaders.DataLoader():
        optimizer.step()
    again = f"Caught OutOfMemoryError in replica 0 on device 0.\n{OUT}"
    for text in (again, OUT, again):
        error(text)
    assert len(noted(reporter)) == 1


def test_a_script_that_goes_on_after_very_many_of_them_floods_no_log(watched, reporter, error):
    optimizer = Optimizer(watched.hooks)
    for _ in watched.loaders.DataLoader():
        optimizer.step()
    for _ in range(300):
        error(OUT)
    assert len(noted(reporter)) == 100


def test_an_error_of_ours_leaves_the_scripts_error_as_it_is(reporter, error, monkeypatch):
    def fail():
        raise RuntimeError("ours")

    monkeypatch.setattr(steps_of(reporter), "ran_out_of_memory", fail)
    assert str(error(OUT)) == OUT
    assert not reporter.is_on
