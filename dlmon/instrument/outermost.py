"""Count the calls, samples and tokens that go into the outermost network of a PyTorch script.

A loop without a loader may make its batches itself, as nanoGPT's does. The network that its
optimizer trains is looked up once, at the first step; from then on its calls with gradients are
counted. The class is wrapped, not the network: a network is pickled and copied as without us. The
input before that first step is read from the graph that PyTorch keeps for going backward.
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
from dlmon.instrument.reporter import WATCHED, Reporter, uncompiled, wrap
from dlmon.instrument.tokens import Tokens, length_of

# A script may never step: look at this many losses and calls of modules at most.
_MOST_LOSSES, _MOST_CALLS = 1000, 1000
# A script that never goes backward calls any number of modules.
_MOST_LOOKS = 100_000


class FirstCalls:
    """Notes the modules that a script calls itself, with gradients, before the first `backward`.

    A global hook of all modules notes them. If `torch.compile` is used, there is none: compiled
    code depends on such hooks.
    """

    def __init__(self) -> None:
        self._hook: Any = None
        self._is_over = False
        self._looks_left = _MOST_LOOKS
        self.calls: list[tuple[Callable[[], Any], tuple[int, ...]]] = []
        """Weak references to the modules, each with the shape of its first input."""
        self._inside: set[int] = set()

    def begin(self) -> None:
        """Note calls from now on."""
        module = sys.modules.get("torch.nn.modules.module")
        if self._is_over or self._hook is not None or module is None or COMPILER.is_used:
            return
        self._hook = module.register_module_forward_pre_hook(self._called)
        COMPILER.hooks.append(self)

    def end(self) -> None:
        """Stop noting calls for good."""
        self._is_over = True
        self.remove()

    def remove(self) -> None:
        if self._hook is not None:
            self._hook.remove()
            self._hook = None

    @uncompiled
    def _called(self, module: Any, arguments: Any) -> None:
        try:
            self._looks_left -= 1
            if len(self.calls) >= _MOST_CALLS or not self._looks_left:
                self.end()
                return
            if id(module) in self._inside or not has_gradients():
                return
            # A loss or an activation has no parameters.
            if next(module.parameters(), None) is not None:
                self._inside = {id(part) for part in module.modules()} - {id(module)}
                self.calls.append((weakref.ref(module), leading_shape(arguments)))
        except Exception:  # noqa: BLE001 - whatever it is, the script goes on
            self.end()

    def modules(self) -> list[Any]:
        """Return the called modules that still exist, each once.

        A frozen copy of another module, such as a moving average or a teacher, is left out.
        """
        called = (reference() for reference, _ in self.calls)
        modules = list({id(module): module for module in called if module is not None}.values())
        training = [module for module in modules if has_gradients_of(module)]
        shapes = [shapes_of(module) for module in training]
        return [
            module for module in modules if module in training or shapes_of(module) not in shapes
        ]

    def training(self) -> list[Any]:
        """Return the called modules that have trainable weights."""
        return [module for module in self.modules() if has_gradients_of(module)]


class Compiler:
    """Notes that a script uses `torch.compile`."""

    def __init__(self) -> None:
        self.is_used = False
        self.hooks: list[FirstCalls] = []

    def used(self, *arguments: Any, **named: Any) -> None:
        """Remove the global hooks before anything is compiled."""
        self.is_used = True
        for hook in self.hooks:
            hook.remove()
        self.hooks.clear()


COMPILER = Compiler()
"""The one of this process."""


class Outermost:
    """The calls and the input of the outermost networks that train."""

    def __init__(self) -> None:
        self.counter = Tokens()
        self.first = FirstCalls()
        self._networks: dict[int, Callable[[], Any]] = {}
        self._hooks: list[Calls] = []
        # If several networks are called with the same batch, the first counts.
        self._counted: int | None = None
        self._tokens = self._last = 0
        self._has_tokens = False
        self.calls = self.samples = 0
        """The calls with gradients, and their samples, since `forget_calls`."""
        self.shape: tuple[int, ...] = ()
        """The shape of the first array of the last call."""
        self.called: Callable[[], None] | None = None
        """Called at each call with gradients."""
        self.evaluated: Callable[[Any], None] | None = None
        """Called with the network at each call without gradients."""
        self.looks_back = True
        """Does `went_backward` need losses? It does during the first two steps of a loop."""
        self._behind = self._at_first = self._losses = 0
        self._weights: set[int] = set()

    def went_backward(self, loss: Any) -> None:
        """Count the largest array of integers that a loss was computed from."""
        try:
            sizes, self._weights = integers_and_weights_behind(loss)
            self._behind += max(sizes, default=0)
            self._losses += 1
            self.looks_back = self._losses < _MOST_LOSSES
        except Exception:  # noqa: BLE001 - whatever it is, the steps are counted
            self.looks_back = False

    def took_at_first(self, tokens: int | None) -> int | None:
        """Return the tokens of the first step, once those of the second are counted.

        They are the integers behind its losses, if for the second step both counts agree.
        """
        is_on, self.looks_back = self.looks_back, False
        return self._at_first if is_on and tokens and self._behind == tokens else None

    def watch(self, optimizer: Any = None) -> None:
        """Count from now on the input of the networks that an optimizer trains.

        These are the networks that the script calls itself, or else those that no other holds.
        Without an optimizer, they are the networks behind the last loss.
        """
        self._at_first, self._behind = self._behind, 0
        self.first.end()
        try:
            weights = self._weights if optimizer is None else weights_of(optimizer)
            called = [module for module in self.first.training() if trains(module, weights)]
            self._watch(called or networks_of(weights))
        except Exception:  # noqa: BLE001 - whatever it is, the steps are counted on
            self._networks = {}

    def watch_first(self) -> None:
        """Count from now on the input of the first network that the script called."""
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
        """Return the tokens since the last call; None if none were ever seen."""
        tokens, self._tokens, self._last = self._tokens, 0, 0
        return tokens if self._has_tokens else None

    def __reduce__(self) -> Any:
        # A copy of a watched class, in another process, gets None in its place.
        return type(None), ()

    def __call__(self, network: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        """Note a call of a network; after an error of ours, its tokens are unknown."""
        try:
            self._count(network, arguments or named)
        except Exception:  # noqa: BLE001 - whatever it is, the script goes on
            self._networks, self._has_tokens = {}, False

    def _count(self, network: Any, arguments: Any) -> None:
        if not has_gradients():
            if self.evaluated is not None:
                self.evaluated(network)
            return
        reference = self._networks.get(id(network))
        if reference is None or reference() is not network or not network.training:
            return
        if self._counted not in (None, id(network)):
            return
        if self.called is not None:
            self.called()
        if self._counted is None:
            self._counted = id(network)
            self.counter.sequence = length_of(arguments)
        self.calls += 1
        self.shape = leading_shape(arguments)
        self.samples += self.shape[0] if self.shape else 0
        if self.counter.are_there is False:
            return
        tokens = self.counter.of(arguments, None)
        if tokens is not None:
            self._has_tokens = True
            self._last = tokens
            self._tokens += tokens

    def failed(self) -> None:
        """Take back the tokens of the last call: no step will train on them."""
        self._tokens -= self._last
        self._last = 0
        # The tokens of single calls before the first step aren't kept.
        self.looks_back = False


def has_gradients_of(network: Any) -> bool:
    """Return whether a network has weights that train."""
    return any(parameter.requires_grad for parameter in network.parameters())


def shapes_of(network: Any) -> list[tuple[int, ...]]:
    """Return the shapes of a network's weights; a copy has the same."""
    return [tuple(parameter.shape) for parameter in network.parameters()]


def trains(network: Any, weights: set[int]) -> bool:
    """Return whether a network has some of the weights with these ids."""
    return any(id(parameter) in weights for parameter in network.parameters())


_MADE: dict[int, Callable[[], Any]] = {}
"""Weak references to all networks and optimizers of this process, by id.

`gc.get_objects` would find them too, but it holds every object for a while, and Python can't
finish a tuple that somebody else holds: another thread might fail.
"""


def made(module: Any, *arguments: Any, **named: Any) -> None:
    """Note a new network or optimizer."""
    number = id(module)
    _MADE[number] = weakref.ref(module, partial(_MADE.pop, number))


def watch_networks(module: ModuleType, reporter: Reporter) -> None:
    """Note every network; `module` is torch.nn.modules.module."""
    # `__setstate__` makes copies and networks that were pickled.
    for name in ("__init__", "__setstate__"):
        wrap(module.Module, name, reporter, before=made)


def living(*kinds: type) -> list[Any]:
    """Return the existing networks and optimizers of some classes."""
    objects = [reference() for reference in list(_MADE.values())]
    # `isinstance` may run code of the object.
    return [candidate for candidate in objects if issubclass(type(candidate), kinds)]


def weights_of(optimizer: Any) -> set[int]:
    """Return the ids of the weights that an optimizer of PyTorch trains."""
    return {id(weight) for group in optimizer.param_groups for weight in group["params"]}


def networks_of(weights: set[int], networks: Iterable[Any] | None = None) -> list[Any]:
    """Return the outermost networks that hold some weights.

    Args:
        weights: the ids of the weights.
        networks: all candidates; by default every network of this process.
    """
    networks = living(sys.modules["torch"].nn.Module) if networks is None else networks
    holders: defaultdict[int, list[Any]] = defaultdict(list)
    for network in networks:
        for part in vars(network).get("_modules", {}).values():
            holders[id(part)].append(network)
    visited, outermost = set(), []
    reached = [network for network in networks if _holds(network, weights)]
    while reached:
        network = reached.pop()
        if id(network) in visited:
            continue
        visited.add(id(network))
        if id(network) in holders:
            reached += holders[id(network)]
        else:
            outermost.append(network)
    return outermost


def _holds(network: Any, weights: set[int]) -> bool:
    return any(id(weight) in weights for weight in vars(network).get("_parameters", {}).values())


class Calls:
    """Calls a hook before each call of an instance of a class, until it is removed.

    A hook on a module itself would be copied and saved with the module.
    """

    def __init__(self, kind: Any, hook: Callable[[Any, Any, Any], None] | None) -> None:
        following = kind.__call__
        compiler = getattr(sys.modules.get("torch"), "compiler", None)
        is_compiling = getattr(compiler, "is_compiling", lambda: False)

        # cloudpickle pickles this function with a class of the script: it names nothing of ours,
        # and has no hook in the process that reads it.
        @wraps(following)
        def __call__(self: Any, *arguments: Any, **named: Any) -> Any:
            # `torch.compile` shall compile the network alone.
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
        """Remove the hook; return False if somebody else has wrapped the class since."""
        if vars(self._kind).get("__call__") is not self._ours:
            return False
        if self._own is None:
            del self._kind.__call__
        else:
            self._kind.__call__ = self._own
        return True


def has_gradients() -> bool:
    """Return whether PyTorch computes gradients now."""
    return bool(sys.modules["torch"].is_grad_enabled())
