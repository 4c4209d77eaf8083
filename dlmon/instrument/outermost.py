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
from dlmon.instrument.reporter import WATCHED, Reporter, wrap
from dlmon.instrument.tokens import Tokens, length_of

# Of what never steps, so many losses are looked at.
_MOST_LOSSES = 1000


class Outermost:
    """The outermost networks that an optimiser trains, and the tokens that went into one."""

    def __init__(self) -> None:
        self.counter = Tokens()
        self._networks: dict[int, Callable[[], Any]] = {}
        # Of several that are given the same batch, the first counts.
        self._counted: int | None = None
        self._tokens = self._last = 0
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

        Without one, those are meant that the last loss was computed with.
        """
        self._at_first, self._behind = self._behind, 0
        try:
            found = networks_of(self._weights if optimizer is None else weights_of(optimizer))
            self.counter, self._counted, self._tokens = Tokens(), None, 0
            self._networks = {id(network): weakref.ref(network) for network in found}
            for kind in {type(network) for network in found}:
                if not hasattr(kind.__call__, WATCHED):
                    Calls(kind, self)
        except Exception:  # noqa: BLE001 - whatever it is, the steps are counted on
            self._networks = {}

    @property
    def is_watching(self) -> bool:
        return bool(self._networks)

    def take(self) -> int | None:
        """Return the tokens since the last time; None where none were ever seen."""
        tokens, self._tokens, self._last = self._tokens, 0, 0
        return None if self._counted is None else tokens

    def __reduce__(self) -> Any:
        # It is of this process: whatever keeps a class that is watched keeps None in its place.
        return type(None), ()

    def __call__(self, network: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        """Note that a network is called; after an error of ours, its tokens are unknown."""
        try:
            self._count(network, arguments or named)
        except Exception:  # noqa: BLE001 - whatever it is, the script goes on
            self._networks, self._counted = {}, None

    def _count(self, network: Any, given: Any) -> None:
        known = self._networks.get(id(network))
        if known is None or known() is not network or not network.training:
            return
        if self._counted not in (None, id(network)) or not _has_gradients():
            return
        tokens = self.counter.of(given, None)
        if tokens is None:
            # One that is not given tokens first is given none later.
            self._networks.pop(id(network) if self._counted is None else 0, None)
            return
        if self._counted is None:
            self.counter.sequence = length_of(given)
        self._counted = id(network)
        self._last = tokens
        self._tokens += tokens

    def failed(self) -> None:
        """Take back what went in last: nothing is trained on it."""
        self._tokens -= self._last
        self._last = 0
        # Of what came before the first step, the size of the last isn't kept.
        self.looks_back = False


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

    def remove(self) -> None:
        if vars(self._kind).get("__call__") is not self._ours:
            # It is watched by somebody else too.
            return
        if self._own is None:
            del self._kind.__call__
        else:
            self._kind.__call__ = self._own


def _has_gradients() -> bool:
    return bool(sys.modules["torch"].is_grad_enabled())
