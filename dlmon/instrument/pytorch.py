"""Watch PyTorch's loaders and optimizers in a script of the user.

A hook never raises an error of its own, and passes on the result or error of the wrapped function
unchanged. PyTorch is imported by the script before a hook is set, never from here.
"""

from __future__ import annotations

import dis
import sys
import time
import weakref
from collections.abc import Callable, Iterator
from functools import cache, wraps
from types import FrameType, GeneratorType, ModuleType
from typing import Any

from dlmon.instrument import outermost
from dlmon.instrument.facts import facts_of_training
from dlmon.instrument.first_step import watch_first_step
from dlmon.instrument.graphs import FirstLoss
from dlmon.instrument.iterations import EPOCH, NEW, OVER, LoaderIteration
from dlmon.instrument.loaders import Loader, describe
from dlmon.instrument.loop_reports import LoopReports
from dlmon.instrument.networks import Autocast, describe_network, will_step
from dlmon.instrument.reporter import WATCHED, Reporter, guarded, hide_this_frame, uncompiled, wrap
from dlmon.instrument.requests import answer
from dlmon.instrument.step_counter import StepCounter, Thread
from dlmon.records.memory import read_out_of_memory

# The place of `create_graph` among the arguments of `torch.autograd.grad`.
_CREATE_GRAPH = 4
# A script may catch any number of out-of-memory errors: report this many.
MOST_ERRORS = 100


@cache
def steps_of(reporter: Reporter) -> StepCounter:
    """Return the step counter of this process."""

    def describe_what_trains(trained_by: Any) -> dict[str, Any]:
        return _describe(trained_by, steps.outermost.first.modules())

    steps = StepCounter(LoopReports(reporter, _version, describe_what_trains), _in_worker)
    return steps


_autocast, _first_loss = Autocast(), FirstLoss()


def _describe(trained_by: Any, called: list[Any]) -> dict[str, Any]:
    """Return fields of `Model` about the trained network and its device.

    Args:
        trained_by: the optimizer, or the device of the tensors that went backward.
        called: the modules that the script called itself for its first loss.
    """
    network: dict[str, Any] = {}
    try:
        if not hasattr(trained_by, "param_groups"):
            # Gradients are accumulated before the optimizer steps first.
            trained_by = will_step() or trained_by
        if hasattr(trained_by, "param_groups"):
            network = describe_network(trained_by, _autocast.seen(), _first_loss.seen(), called)
    except Exception as error:  # noqa: BLE001 - a network may be anything; its steps are counted
        network = {"why": {"flops_per_token": f"it can't be read ({type(error).__name__})"}}
    device = facts_of_training(trained_by)
    return {**network, **device, "why": {**network.get("why", {}), **device.get("why", {})}}


def _now(*arguments: Any, **named: Any) -> int:
    """Return the time at which a wrapped function is called."""
    return time.monotonic_ns()


def watch_loaders(module: ModuleType, reporter: Reporter) -> None:
    """Watch every iterator over a loader; `module` is torch.utils.data.dataloader.

    A subclass of `DataLoader` may have its own `__iter__`, which hands on the batches of another
    iterator that may never end: then the end of its own iterator ends an epoch.
    """
    steps = steps_of(reporter)
    loader, base = module.DataLoader, module._BaseDataLoaderIter
    # An iterator carries its own record, as its id is used again by the next iterator.
    base._dlmon_iteration = None
    mark = _marking(steps, reporter, describe)
    wrap(
        base,
        "__init__",
        reporter,
        before=_now,
        after=lambda created, result, iterator, loader, *arguments, **named: mark(
            iterator, loader, created
        ),
    )
    base.__next__ = fetching(base.__next__, steps, reporter, outermost.has_gradients)

    def watch(kind: Any) -> None:
        if not hasattr(kind.__iter__, WATCHED):
            kind.__iter__ = opening(kind.__iter__, base, steps, reporter, describe)

    @classmethod  # type: ignore[misc]
    def __init_subclass__(kind: Any, **named: Any) -> None:
        super(loader, kind).__init_subclass__(**named)
        guarded(reporter)(watch)(kind)

    watch(loader)
    for kind in _subclasses(loader):
        watch(kind)
    loader.__init_subclass__ = __init_subclass__
    worker: Any = getattr(getattr(module, "_utils", None), "worker", None)
    if hasattr(worker, "_worker_loop"):

        def began(*arguments: Any, **named: Any) -> None:
            # The frames below the hook are those of the process that forked the worker.
            answer(reporter.path, bottom=wrap.__code__.co_filename)

        wrap(worker, "_worker_loop", reporter, before=began)


def watch_optimizers(module: ModuleType, reporter: Reporter) -> None:
    """Count the steps of every optimizer; `module` is torch.optim.optimizer."""
    steps = steps_of(reporter)
    step_began, step_ended, losses = steps.step_began, steps.step_ended, steps.reports.losses
    marks = steps.marks

    # Guarded here, as `guarded` would cost a call more per step.
    @uncompiled
    def before_step(optimizer: Any, arguments: Any, named: Any) -> tuple[Any, Any] | None:
        try:
            closure = arguments[1] if len(arguments) > 1 else named.get("closure")
            # Some optimizers take something else first, such as a direction.
            has_closure = callable(closure)
            step_began(optimizer, has_closure)
            losses.is_within_step = True
            if has_closure and marks.is_on and marks.is_of_this_thread():
                closure = marks.marked(closure)
                if len(arguments) > 1:
                    return (arguments[0], closure, *arguments[2:]), named
                return arguments, {**named, "closure": closure}
        except Exception as error:  # noqa: BLE001 - whatever it is, the script goes on
            reporter.turn_off(error)
        return None

    @uncompiled
    def after_step(optimizer: Any, arguments: Any, named: Any) -> None:
        try:
            if losses.is_reading:
                losses.stepped(optimizer)
            step_ended(optimizer)
        except Exception as error:  # noqa: BLE001 - as above
            reporter.turn_off(error)

    module.register_optimizer_step_pre_hook(before_step)
    module.register_optimizer_step_post_hook(after_step)

    def made(optimizer: Any, *arguments: Any, **named: Any) -> None:
        watch_first_step(reporter)
        steps.reports.has_optimizers = True
        steps.outermost.first.begin()
        outermost.made(optimizer)

    following = module.Optimizer.zero_grad

    # Called in each step: this takes a quarter of the time that `wrap` would.
    @uncompiled
    @wraps(following)
    def zero_grad(optimizer: Any, *arguments: Any, **named: Any) -> Any:
        losses.zeroed()
        try:
            return following(optimizer, *arguments, **named)
        except BaseException as error:
            hide_this_frame(error)
            raise

    module.Optimizer.zero_grad = zero_grad

    wrap(module.Optimizer, "__init__", reporter, before=made)


def watch_backward(module: ModuleType, reporter: Reporter) -> None:
    """Note each call of `backward` and read its loss.

    `module` is torch.autograd; `Tensor.backward` calls its function too.
    """
    steps = steps_of(reporter)
    losses, marks = steps.reports.losses, steps.marks
    torch, depth = sys.modules["torch"], 0

    def began(tensors: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> int | None:
        nonlocal depth
        depth += 1
        if depth > 1 or not reporter.is_on:
            return None
        try:
            if marks.is_on and marks.is_of_this_thread():
                marks.begin_backward(tensors)
        except Exception as error:  # noqa: BLE001 - whatever it is, the script goes on
            reporter.turn_off(error)
        if named.get("inputs") is not None:
            # Gradients of some inputs alone are no training step.
            return None
        if _first_loss.is_on:
            _first_loss.went_backward(tensors)
        if steps.outermost.looks_back or len(steps.waiting.batches) > 1:
            steps.goes_backward(tensors)
        gradients = arguments[0] if arguments else named.get("grad_tensors")
        if gradients is None and losses.is_reading:
            try:
                # A subclass of Tensor may compute or send something if asked for its number.
                if type(tensors) is torch.Tensor and tensors.numel() == 1:
                    losses.went_backward(tensors)
            except Exception:  # noqa: BLE001 - whatever it is, the steps are counted on
                losses.turn_off()
        return time.monotonic_ns()

    def ended(began_ns: int | None, tensors: Any) -> None:
        nonlocal depth
        depth -= 1
        try:
            if began_ns is not None:
                steps.went_backward(tensors, began_ns)
            if depth == 0 and marks.is_on and marks.is_of_this_thread():
                marks.end_backward()
        except Exception as error:  # noqa: BLE001 - as above
            reporter.turn_off(error)

    following = module.backward

    # Called in each step: this takes half of the time that `wrap` would.
    @uncompiled
    @wraps(following)
    def backward(tensors: Any, *arguments: Any, **named: Any) -> Any:
        began_ns = began(tensors, arguments, named)
        try:
            return following(tensors, *arguments, **named)
        except BaseException as error:
            hide_this_frame(error)
            raise
        finally:
            ended(began_ns, tensors)

    module.backward = backward  # type: ignore[attr-defined]

    def computed_gradients(
        began_ns: int, gradients: Any, outputs: Any, *arguments: Any, **named: Any
    ) -> None:
        """Note gradients with which a script changes its weights itself."""
        creates_graph = (
            arguments[_CREATE_GRAPH]
            if len(arguments) > _CREATE_GRAPH
            else named.get("create_graph")
        )
        if not creates_graph and not steps.reports.has_optimizers:
            steps.went_backward(_first_of(gradients), began_ns)

    wrap(module, "grad", reporter, before=_now, after=computed_gradients)


def watch_collectives(module: ModuleType, reporter: Reporter) -> None:
    """Mark the time in collective operations; `module` is torch.distributed.distributed_c10d."""
    marks = steps_of(reporter).marks
    # The latter sends the buffers of a DistributedDataParallel before each forward pass.
    holders = (module.Work, "wait"), (sys.modules["torch.distributed"], "_broadcast_coalesced")
    for holder, name in holders:
        if hasattr(holder, name):
            before, after = marks.begin_collective, marks.end_collective
            wrap(holder, name, reporter, before=before, after=after)


def watch_functional(module: ModuleType, reporter: Reporter) -> None:
    """Note gradients of torch.func; `module` is torch._functorch.eager_transforms."""
    steps = steps_of(reporter)

    def computed_gradients(began_ns: int, gradients: Any, *arguments: Any, **named: Any) -> None:
        if not steps.reports.has_optimizers:
            steps.went_backward(_first_of(gradients), began_ns)

    wrap(module, "_autograd_grad", reporter, before=_now, after=computed_gradients)


def _first_of(gradients: Any) -> Any:
    return next(iter(gradients or ()), None)


def watch_autocast(module: ModuleType, reporter: Reporter) -> None:
    """Note autocast's precision until a loop is described; `module` defines autocast."""
    _autocast.watch(module.autocast)


def watch_scalers(module: ModuleType, reporter: Reporter) -> None:
    """Note losses before they are scaled; `module` is torch.amp.grad_scaler."""
    losses = steps_of(reporter).reports.losses

    def scaled(prepared: None, scaled: Any, scaler: Any, outputs: Any) -> None:
        losses.scaled(outputs, scaled)

    wrap(module.GradScaler, "scale", reporter, after=scaled)


def watch_clipping(module: ModuleType, reporter: Reporter) -> None:
    """Keep the norm when gradients are clipped; `module` is torch.nn.utils.clip_grad."""
    # The module is not imported completely yet.
    torch: Any = module.torch
    following, losses = module.clip_grad_norm_, steps_of(reporter).reports.losses

    @wraps(following)
    def clip_grad_norm_(*arguments: Any, **named: Any) -> Any:
        # `torch.compile` shall compile PyTorch's function alone.
        if torch.compiler.is_compiling():
            return following(*arguments, **named)
        try:
            norm = following(*arguments, **named)
        except BaseException as error:
            hide_this_frame(error)
            raise
        # A subclass of Tensor may compute something if asked for its number.
        if losses.is_reading and type(norm) is torch.Tensor:
            losses.norm = norm
        return norm

    module.clip_grad_norm_ = clip_grad_norm_  # type: ignore[attr-defined]


def watch_memory(module: ModuleType, reporter: Reporter) -> None:
    """Note each out-of-memory error of a GPU; `module` is torch.cuda.memory.

    A script may catch the error and go on with a smaller batch; nothing else tells of it then.
    Python makes the error in the thread that raises it, at the latest when it is caught.
    """
    torch: Any = sys.modules["torch._C"]
    kind = getattr(torch, "OutOfMemoryError", None) or getattr(torch, "_OutOfMemoryError", None)
    if kind is None:
        return
    following, steps, errors = kind.__init__, steps_of(reporter), 0

    def __init__(self: Any, *arguments: Any) -> None:
        nonlocal errors
        following(self, *arguments)
        try:
            text = str(arguments[0]) if arguments else ""
            # The error of another thread is made again, with a longer text, to be raised here.
            if reporter.is_on and not text.startswith("Caught "):
                errors += 1
                steps.ran_out_of_memory()
                out_of_memory = read_out_of_memory(text, time.monotonic_ns())
                if out_of_memory is not None and errors <= MOST_ERRORS:
                    reporter.send_or_keep(out_of_memory)
        except Exception as error:  # noqa: BLE001 - whatever it is, the script goes on
            reporter.turn_off(error)

    kind.__init__ = __init__


def watch_accelerate(module: ModuleType, reporter: Reporter) -> None:
    """Watch accelerate's loaders, which wrap one of PyTorch; `module` is accelerate.data_loader.

    They read a batch ahead: the time at which they hand it on counts.
    """
    steps = steps_of(reporter)
    for kind in (module.DataLoaderShard, module.DataLoaderDispatcher, module.SkipDataLoader):
        if not hasattr(kind.__iter__, WATCHED):
            kind.__iter__ = opening(kind.__iter__, (), steps, reporter, describe)


def _subclasses(kind: Any) -> Iterator[Any]:
    for subclass in kind.__subclasses__():
        yield subclass
        yield from _subclasses(subclass)


def _marking(
    steps: StepCounter, reporter: Reporter, described: Callable[[Any], Loader]
) -> Callable[[Any, Any, int], None]:
    """Return a function that notes a new iteration on its iterator."""

    @guarded(reporter)
    def mark(iterator: Any, loader: Any, created: int) -> None:
        if not reporter.is_on:
            return
        reporter.saw(f"{steps.reports.owner} loader")
        # Within the handler of the error that ended an iterator, another one continues it.
        is_again = isinstance(sys.exc_info()[1], StopIteration)
        iteration = steps.begin_again(loader, created) if is_again else None
        if iteration is None:
            last = iterator._dlmon_iteration
            if last is not None:
                # With persistent workers, one iterator serves all iterations.
                steps.abandoned(last)
            iteration = steps.new(described(loader), created, weakref.ref(loader))
        iteration.iterator = weakref.ref(iterator, _leaving(iteration, steps, reporter))
        iterator._dlmon_iteration = iteration

    return mark


def opening(
    following: Callable[[Any], Any],
    base: type | tuple[()],
    steps: StepCounter,
    reporter: Reporter,
    described: Callable[[Any], Loader],
) -> Callable[[Any], Any]:
    """Return a loader's `__iter__` that notes an iteration on the iterator, if it is a `base`.

    If the iterator is a generator that hands on another one's batches, the generator is timed.
    """
    mark = _marking(steps, reporter, described)

    class Generated(_Generated):
        __next__ = fetching(_Generated.__next__, steps, reporter, outermost.has_gradients)

    @wraps(following)
    def __iter__(self: Any) -> Any:
        thread = steps.thread()
        if thread.is_inside or not reporter.is_on:
            return following(self)
        created = time.monotonic_ns()
        thread.is_inside = True
        try:
            iterator = following(self)
        except BaseException as error:
            hide_this_frame(error)
            raise
        finally:
            thread.is_inside = False
        if isinstance(iterator, GeneratorType):
            iterator = Generated(iterator, steps.thread)
            mark(iterator, self, created)
        elif isinstance(iterator, base):
            iteration = iterator._dlmon_iteration  # type: ignore[attr-defined]
            if iteration is None or iteration.created_ns < created:
                mark(iterator, self, created)
            else:
                iteration.ready_ns[0] = time.monotonic_ns()
        return iterator

    setattr(__iter__, WATCHED, True)
    return __iter__


def _leaving(
    iteration: LoaderIteration, steps: StepCounter, reporter: Reporter
) -> Callable[[Any], None]:
    """Return a function that ends an iteration when its iterator is gone."""
    reference = weakref.ref(iteration)

    @guarded(reporter)
    def leave(iterator: Any) -> None:
        abandoned = reference()
        if abandoned is not None:
            steps.abandoned(abandoned)

    return leave


def fetching(
    following: Callable[[Any], Any],
    steps: StepCounter,
    reporter: Reporter,
    has_gradients: Callable[[], bool],
) -> Callable[[Any], Any]:
    """Return an iterator's `__next__` that reports its times and batches."""
    fetch, fetched, exhausted = steps.fetch, steps.fetched, guarded(reporter)(steps.exhausted)
    reads, look_within = reporter.reads, guarded(reporter)(steps.look_within)
    marks = steps.marks

    @wraps(following)
    def __next__(self: Any) -> Any:
        iteration = self._dlmon_iteration
        if iteration is None or iteration.state == OVER:
            try:
                batch = following(self)
            except StopIteration:
                if iteration is not None:
                    exhausted(iteration)
                raise
            if reads.are_shares_due and iteration is not None:
                # accelerate copies the batch to a GPU next: here it is still in main memory.
                look_within(batch)
            return batch
        try:
            if iteration.state == NEW and (yielded := getattr(self, "_num_yielded", 0)):
                iteration.skip(yielded)
            fetch(iteration, iteration.state == EPOCH or has_gradients())
        except Exception as error:  # noqa: BLE001 - whatever it is, the script goes on
            iteration.state = OVER
            reporter.turn_off(error)
        if iteration.state == OVER:
            return following(self)
        thread = iteration.thread
        thread.is_inside = True
        try:
            batch = following(self)
        except StopIteration:
            thread.is_inside = False
            exhausted(iteration, calls_next(sys._getframe(1)))
            raise
        except BaseException as error:
            thread.is_inside = False
            if isinstance(error, Exception):
                iteration.lose_batch()
            hide_this_frame(error)
            raise
        thread.is_inside = False
        try:
            number, counter = iteration.fetched, iteration.counter
            size = (
                iteration.loader.batch_size
                if number < iteration.certain
                else iteration.sizes.of(number, batch)
            )
            if counter.are_there is False:
                fetched(iteration, size, None, batch)
            else:
                fetched(iteration, size, counter.of(batch, size), batch)
                if reads.are_shares_due and iteration.state == EPOCH:
                    steps.reports.look_at_tokens(batch)
            if marks.is_on and thread is marks.thread:
                marks.came(batch)
        except Exception as error:  # noqa: BLE001 - as above
            iteration.state = OVER
            reporter.turn_off(error)
        return batch

    return __next__


def calls_next(frame: FrameType) -> bool:
    """Return whether code calls `next`; a loop over an iterator ends with it."""
    return dis.opname[frame.f_code.co_code[frame.f_lasti]] != "FOR_ITER"


class _Generated:
    """A generator of batches; loaders that it reads itself don't count."""

    _dlmon_iteration: LoaderIteration | None = None

    def __init__(self, batches: Any, thread: Callable[[], Thread]) -> None:
        self._batches, self._thread = batches, thread

    def __iter__(self) -> Any:
        return self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._batches, name)

    def __next__(self) -> Any:
        thread = self._thread()
        is_inside, thread.is_inside = thread.is_inside, True
        try:
            return next(self._batches)
        except BaseException as error:
            hide_this_frame(error)
            raise
        finally:
            thread.is_inside = is_inside


def parameters_of(network: Any) -> int | None:
    """Return the number of weights and biases of a network; None before they have a size."""
    try:
        return sum(int(parameter.numel()) for parameter in network.parameters())
    except (AttributeError, RuntimeError, TypeError, ValueError):
        return None


def _version() -> str | None:
    return getattr(sys.modules.get("torch"), "__version__", None)


def _in_worker() -> bool:
    worker = sys.modules.get("torch.utils.data._utils.worker")
    return getattr(worker, "_worker_info", None) is not None
