"""Count the tokens that go into a PyTorch network where no loader says what a step takes.

A loop may make its batches itself, as nanoGPT's does. What an optimiser trains is found as that is
made, and again as it steps first: from then on the calls of the outermost network are counted,
those alone that train. It is the class that is changed: a network is pickled and copied as without
us.
"""

from __future__ import annotations

import sys
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import partial, wraps
from types import ModuleType
from typing import Any

from dlmon.instrument.reporter import WATCHED, Reporter, wrap
from dlmon.instrument.tokens import Tokens, length_of

# A script may make an optimiser in each of its steps: of so many, the networks are looked for.
MOST_OPTIMIZERS = 16


class _Network:
    """A network, or what compiles it, and the tokens that went into it since the last step."""

    def __init__(self) -> None:
        self.known: Callable[[], Any] = lambda: None
        self.counter = Tokens()
        # None where it was never given any.
        self.tokens: int | None = None
        self.last = 0
        # Whether its optimiser is the one that steps.
        self.steps = False


def _known(networks: dict[int, _Network], network: Any) -> _Network | None:
    one = networks.get(id(network))
    # A place in memory is used again.
    return one if one is not None and one.known() is network else None


class Outermost:
    """The outermost networks that optimisers train, and the tokens that went into them."""

    def __init__(self) -> None:
        # In the order in which they were given tokens first.
        self._networks: dict[int, _Network] = {}
        self._calls: dict[Any, Calls] = {}
        self._optimizers = 0
        self.taken: int | None = None
        """The tokens of the step before."""

    def prepare(self, optimizer: Any) -> None:
        """Count what goes into the networks of a new optimiser until something steps."""
        self._optimizers += 1
        if self._optimizers <= MOST_OPTIMIZERS:
            try:
                for network in networks_of(optimizer):
                    self._add(network, _Network())
            except Exception:  # noqa: BLE001 - whatever it is, the steps are counted
                self.stop()

    def watch(self, optimizer: Any) -> None:
        """Count from now on what goes into the networks that an optimiser trains, and no others."""
        before, self._networks, self.taken = self._networks, {}, None
        try:
            found = networks_of(optimizer)
            self._leave_alone(self._calls.keys() - {type(network) for network in found})
            for network in found:
                # It may have been compiled, or shared among ranks, since the optimiser was made.
                known = (_known(before, part) for part in network.modules())
                one = next(filter(None, known), None) or _Network()
                one.steps = True
                self._add(network, one)
        except Exception:  # noqa: BLE001 - whatever it is, the steps are counted on
            self.stop()

    def stop(self) -> None:
        """Count no more: something else says what a step takes."""
        self._networks, self.taken = {}, None
        self._leave_alone(set(self._calls))

    def compiles(self, made: Any, network: Any) -> None:
        """Count at what compiles a network from now on, and leave its own calls as they are."""
        one = _known(self._networks, network)
        if one is not None:
            del self._networks[id(network)]
            self._leave_alone(self._calls.keys() & {type(network)})
            self._add(made, one)

    def _add(self, network: Any, one: _Network) -> None:
        one.known = weakref.ref(network)
        self._networks[id(network)] = one
        kind = type(network)
        if getattr(kind.__call__, WATCHED, None) is not self:
            self._calls[kind] = Calls(kind, self)

    def _leave_alone(self, kinds: set[Any]) -> None:
        for kind in kinds:
            self._calls.pop(kind).remove()

    @property
    def is_watching(self) -> bool:
        return bool(self._networks)

    @property
    def _counted(self) -> _Network | None:
        """Of several networks that are given the same batch, the first."""
        ones = self._networks.values()
        return next((one for one in ones if one.steps and one.tokens is not None), None)

    @property
    def counter(self) -> Tokens:
        """What counts them."""
        counted = self._counted
        return Tokens() if counted is None else counted.counter

    def take(self) -> int | None:
        """Return the tokens since the last time; None where none were ever seen."""
        counted = self._counted
        self.taken = None if counted is None else counted.tokens
        for one in self._networks.values():
            if one.steps and one.tokens is not None:
                one.tokens = one.last = 0
        return self.taken

    def __reduce__(self) -> Any:
        # It is of this process: whatever keeps a class that is watched keeps None in its place.
        return type(None), ()

    def __call__(self, network: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        """Note that a network is called; after an error of ours, its tokens are unknown."""
        try:
            self._count(network, arguments or named)
        except Exception:  # noqa: BLE001 - whatever it is, the script goes on
            self.stop()

    def _count(self, network: Any, given: Any) -> None:
        one = _known(self._networks, network)
        if one is None or not network.training or not _has_gradients():
            return
        tokens = one.counter.of(given, None)
        if one.tokens is None:
            del self._networks[id(network)]
            if tokens is None:
                # One that is not given tokens first is given none later.
                return
            one.counter.sequence, one.tokens = length_of(given), 0
            self._networks[id(network)] = one
        one.last = tokens or 0
        one.tokens += one.last

    def failed(self) -> None:
        """Take back what went in last: nothing is trained on it."""
        for one in self._networks.values():
            if one.tokens is not None:
                one.tokens, one.last = one.tokens - one.last, 0


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


def networks_of(optimizer: Any, networks: Iterable[Any] | None = None) -> list[Any]:
    """Return the networks that hold what an optimiser trains, and that no other one holds.

    Args:
        optimizer: of PyTorch.
        networks: all that there are; by default they are looked for.
    """
    networks = living(sys.modules["torch"].nn.Module) if networks is None else networks
    trained = {id(one) for group in optimizer.param_groups for one in group["params"]}
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

        setattr(__call__, WATCHED, hook)
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
