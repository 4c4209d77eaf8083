"""Count the tokens that go into a PyTorch network where no loader says what a step takes.

A loop may make its batches itself, as nanoGPT's does. What its optimiser trains is found once, as
it steps first, and from then on the calls of the outermost network are counted, those alone that
train. It is the class that is changed: a network is pickled and copied as without us. What went
into it before that first step is read from what PyTorch keeps to go backward.
"""

from __future__ import annotations

import sys
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import partial, wraps
from types import ModuleType
from typing import Any

from dlmon.instrument.graphs import integers_and_weights_behind
from dlmon.instrument.loaders import leading_shape
from dlmon.instrument.reporter import WATCHED, Reporter, wrap
from dlmon.instrument.tokens import Tokens, length_of

# Of what never steps, so many losses are looked at, and so many calls of modules.
_MOST_LOSSES, _MOST_CALLS = 1000, 1000
# A script that never goes backward calls any number of modules.
_MOST_LOOKS = 100_000


class FirstCalls:
    """Notes which modules a script calls itself, with gradients, until something goes backward.

    A hook of all modules notes them. Where `torch.compile` is used there is none: what it compiles
    depends on such hooks.
    """

    def __init__(self) -> None:
        self._hook: Any = None
        self._is_over = False
        self._left = _MOST_LOOKS
        self.calls: list[tuple[Callable[[], Any], tuple[int, ...]]] = []
        """The modules, as weak references, and the shape of what each was given first."""
        self._inside: set[int] = set()

    def begin(self) -> None:
        """Note calls from now on."""
        module = sys.modules.get("torch.nn.modules.module")
        if self._is_over or self._hook is not None or module is None or COMPILER.is_used:
            return
        self._hook = module.register_module_forward_pre_hook(self._called)
        COMPILER.hooks.append(self)

    def end(self) -> None:
        """Note no more."""
        self._is_over = True
        self.remove()

    def remove(self) -> None:
        if self._hook is not None:
            self._hook.remove()
            self._hook = None

    def _called(self, module: Any, given: Any) -> None:
        try:
            self._left -= 1
            if len(self.calls) >= _MOST_CALLS or not self._left:
                self.end()
                return
            if id(module) in self._inside or not _has_gradients():
                return
            # A loss, or an activation, has no parameters.
            if next(module.parameters(), None) is not None:
                self._inside = {id(part) for part in module.modules()} - {id(module)}
                self.calls.append((weakref.ref(module), leading_shape(given)))
        except Exception:  # noqa: BLE001 - whatever it is, the script goes on
            self.end()

    # `torch.compile` calls such a function as it is, without a word.
    _called._torchdynamo_disable = True  # type: ignore[attr-defined]

    def modules(self) -> list[Any]:
        """Return the modules that were called and are still there, each once.

        A frozen copy of another one, as a moving average or a teacher, is left out.
        """
        called = (module() for module, _ in self.calls)
        modules = list({id(one): one for one in called if one is not None}.values())
        training = [module for module in modules if _has_gradients_of(module)]
        shapes = [_shapes_of(module) for module in training]
        return [
            module for module in modules if module in training or _shapes_of(module) not in shapes
        ]

    def training(self) -> list[Any]:
        """Return those of them that have weights which train."""
        return [module for module in self.modules() if _has_gradients_of(module)]


class Compiler:
    """Notes that a script uses `torch.compile`."""

    def __init__(self) -> None:
        self.is_used = False
        self.hooks: list[FirstCalls] = []

    def used(self, *arguments: Any, **named: Any) -> None:
        """Take back the hooks of all modules, before anything is compiled."""
        self.is_used = True
        for hook in self.hooks:
            hook.remove()
        self.hooks.clear()


COMPILER = Compiler()
"""The one of this process."""


class Outermost:
    """The outermost networks that train: how often one is called, and what goes into it."""

    def __init__(self) -> None:
        self.counter = Tokens()
        self.first = FirstCalls()
        self._networks: dict[int, Callable[[], Any]] = {}
        self._hooks: list[Calls] = []
        # Of several that are given the same batch, the first counts.
        self._counted: int | None = None
        self._tokens = self._last = 0
        self._has_tokens = False
        self.calls = self.samples = 0
        """Its calls with gradients since `forget_calls`, and the samples that it was given."""
        self.shape: tuple[int, ...] = ()
        """The shape of the first array that it was given last."""
        self.called: Callable[[], None] | None = None
        """Is told that it is called with gradients."""
        self.evaluated: Callable[[Any], None] | None = None
        """Is told which network of its class is called without gradients."""
        self.looks_back = True
        """Whether `went_backward` wants to know of losses: of a loop's first two steps, it does."""
        self._behind = self._at_first = self._losses = 0
        self._weights: set[int] = set()

    def went_backward(self, loss: Any) -> None:
        """Count the largest array of integers that a loss was computed with."""
        try:
            sizes, self._weights = integers_and_weights_behind(loss)
            self._behind += max(sizes, default=0)
            self._losses += 1
            self.looks_back = self._losses < _MOST_LOSSES
        except Exception:  # noqa: BLE001 - whatever it is, the steps are counted
            self.looks_back = False

    def took_at_first(self, tokens: int | None) -> int | None:
        """Return the tokens of the first step, now that those of the second are counted.

        They are what its losses came from, if the second's came from as many as were counted.
        """
        is_on, self.looks_back = self.looks_back, False
        return self._at_first if is_on and tokens and self._behind == tokens else None

    def watch(self, optimizer: Any = None) -> None:
        """Count from now on what goes into the networks that an optimiser trains.

        Those that the script was seen to call itself, else those that no other one holds. Without
        an optimiser, they are those that the last loss was computed with.
        """
        self._at_first, self._behind = self._behind, 0
        self.first.end()
        try:
            trained = self._weights if optimizer is None else weights_of(optimizer)
            called = [one for one in self.first.training() if _trains(one, trained)]
            self._watch(called or networks_of(trained))
        except Exception:  # noqa: BLE001 - whatever it is, the steps are counted on
            self._networks = {}

    def watch_first(self) -> None:
        """Count from now on what goes into the first network that the script called."""
        self.first.end()
        try:
            self._watch(self.first.training())
            self._take_first_calls()
        except Exception:  # noqa: BLE001 - as above
            self._networks = {}

    def _take_first_calls(self) -> None:
        """Count the calls of the first network that were noted before it was watched."""
        first = next((network() for network in self._networks.values()), None)
        shapes = [shape for module, shape in self.first.calls if module() is first]
        if first is not None and shapes:
            self._counted = id(first)
            self.calls, self.shape = len(shapes), shapes[-1]
            self.samples = sum(shape[0] for shape in shapes if shape)

    def _watch(self, networks: list[Any]) -> None:
        self.counter, self._counted, self._tokens = Tokens(), None, 0
        self._has_tokens = False
        self.rest()
        self._networks = {id(network): weakref.ref(network) for network in networks}
        self.wake()

    def wake(self) -> None:
        """Count calls again."""
        if not self._hooks:
            networks = [network() for network in self._networks.values()]
            kinds = {type(network) for network in networks if network is not None}
            self._hooks = [Calls(kind, self) for kind in kinds]

    def rest(self) -> None:
        """Count no calls until `wake`: they cost time."""
        self._hooks = [hook for hook in self._hooks if not hook.remove()]
        self.forget_calls()

    def forget_calls(self) -> None:
        self.calls = self.samples = 0

    @property
    def is_watching(self) -> bool:
        return bool(self._networks)

    def take(self) -> int | None:
        """Return the tokens since the last time; None where none were ever seen."""
        tokens, self._tokens, self._last = self._tokens, 0, 0
        return tokens if self._has_tokens else None

    def __reduce__(self) -> Any:
        # It is of this process: whatever keeps a class that is watched keeps None in its place.
        return type(None), ()

    def __call__(self, network: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        """Note that a network is called; after an error of ours, its tokens are unknown."""
        try:
            self._count(network, arguments or named)
        except Exception:  # noqa: BLE001 - whatever it is, the script goes on
            self._networks, self._has_tokens = {}, False

    def _count(self, network: Any, given: Any) -> None:
        if not _has_gradients():
            if self.evaluated is not None:
                self.evaluated(network)
            return
        known = self._networks.get(id(network))
        if known is None or known() is not network or not network.training:
            return
        if self._counted not in (None, id(network)):
            return
        if self.called is not None:
            self.called()
        if self._counted is None:
            self._counted = id(network)
            self.counter.sequence = length_of(given)
        self.calls += 1
        self.shape = leading_shape(given)
        self.samples += self.shape[0] if self.shape else 0
        if self.counter.are_there is False:
            return
        tokens = self.counter.of(given, None)
        if tokens is not None:
            self._has_tokens = True
            self._last = tokens
            self._tokens += tokens

    def failed(self) -> None:
        """Take back what went in last: nothing is trained on it."""
        self._tokens -= self._last
        self._last = 0
        # Of what came before the first step, the size of the last isn't kept.
        self.looks_back = False


def _has_gradients_of(network: Any) -> bool:
    return any(parameter.requires_grad for parameter in network.parameters())


def _shapes_of(network: Any) -> list[tuple[int, ...]]:
    return [tuple(parameter.shape) for parameter in network.parameters()]


def _trains(network: Any, trained: set[int]) -> bool:
    return any(id(parameter) in trained for parameter in network.parameters())


_MADE: dict[int, Callable[[], Any]] = {}
"""Every network and optimiser that was made, by its id.

A look at all objects that there are would do without, but for that time it holds them, and Python
refuses to finish a tuple that somebody else holds: what another thread does then would fail.
"""


def made(one: Any, *arguments: Any, **named: Any) -> None:
    """Note a network, or an optimiser, that is made."""
    number = id(one)
    _MADE[number] = weakref.ref(one, partial(_MADE.pop, number))


def watch_networks(module: ModuleType, reporter: Reporter) -> None:
    """Note every network; `module` is torch.nn.modules.module."""
    # The second makes one that is copied, or was pickled.
    for name in ("__init__", "__setstate__"):
        wrap(module.Module, name, reporter, before=made)


def living(*kinds: type) -> list[Any]:
    """Return the networks and optimisers of some classes that were made, and are still there."""
    known = [each() for each in list(_MADE.values())]
    # By its type: to ask some objects for their class runs code of theirs.
    return [each for each in known if issubclass(type(each), kinds)]


def weights_of(optimizer: Any) -> set[int]:
    """Return the ids of what an optimiser of PyTorch's trains."""
    return {id(one) for group in optimizer.param_groups for one in group["params"]}


def networks_of(trained: set[int], networks: Iterable[Any] | None = None) -> list[Any]:
    """Return the networks that hold what is trained, and that no other one holds.

    Args:
        trained: weights, by their ids.
        networks: all that there are; by default they are looked for.
    """
    networks = living(sys.modules["torch"].nn.Module) if networks is None else networks
    holders: defaultdict[int, list[Any]] = defaultdict(list)
    for network in networks:
        for part in vars(network).get("_modules", {}).values():
            holders[id(part)].append(network)
    seen, outermost = set(), []
    reached = [one for one in networks if _holds(one, trained)]
    while reached:
        network = reached.pop()
        if id(network) in seen:
            continue
        seen.add(id(network))
        if id(network) in holders:
            reached += holders[id(network)]
        else:
            outermost.append(network)
    return outermost


def _holds(network: Any, trained: set[int]) -> bool:
    return any(id(one) in trained for one in vars(network).get("_parameters", {}).values())


class Calls:
    """Has a hook called before all that is made of a class is called, until it is removed.

    A hook on a module itself would be in its copies, and in what is saved of it.
    """

    def __init__(self, kind: Any, hook: Callable[[Any, Any, Any], None] | None) -> None:
        following = kind.__call__
        compiler = getattr(sys.modules.get("torch"), "compiler", None)
        is_compiling = getattr(compiler, "is_compiling", lambda: False)

        # What pickles a class itself, as cloudpickle does of a script's own, keeps this function:
        # it names nothing of ours, and has no hook where it is read again.
        @wraps(following)
        def __call__(self: Any, *arguments: Any, **named: Any) -> Any:
            # What `torch.compile` makes of this is the network's own.
            if is_compiling():
                return following(self, *arguments, **named)
            if hook is not None:
                hook(self, arguments, named)
            try:
                return following(self, *arguments, **named)
            except BaseException as error:
                if error.__traceback__ is not None:
                    error.__traceback__ = error.__traceback__.tb_next
                raise

        setattr(__call__, WATCHED, True)
        self._kind, self._own, self._ours = kind, vars(kind).get("__call__"), __call__
        kind.__call__ = __call__

    def remove(self) -> bool:
        """Return whether that could be done: somebody else may watch the class too."""
        if vars(self._kind).get("__call__") is not self._ours:
            return False
        if self._own is None:
            del self._kind.__call__
        else:
            self._kind.__call__ = self._own
        return True


def _has_gradients() -> bool:
    return bool(sys.modules["torch"].is_grad_enabled())
